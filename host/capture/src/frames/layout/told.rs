//! What the interpreter says of itself from 3.13 on: `_Py_DebugOffsets`, the first thing in `_PyRuntime`.
//!
//! A cookie, the version, whether it is free-threaded, then groups of 64-bit numbers; each group begins with the size of
//! the struct (`Include/internal/pycore_runtime.h` of 3.13).

use super::{Body, Code, Frame, FrameKind, Gil, Interpreter, Layout, Offset, Thread, Top, table};

/// How much of `_PyRuntime` is looked at, bytes.
pub(in crate::frames) const TOLD_BYTES: usize = 3 * 8 + 8 * (3 + 13 + 9 + 6 + 10);

/// Reads what 3.13 says; nothing where it does not begin with the cookie or says what cannot be.
pub(super) fn layout(told: &[u8]) -> Option<Layout> {
    let rest = told.strip_prefix(b"xdebugpy")?;
    let is_free_threaded = rest.get(8..16)? != [0; 8];
    let numbers: Vec<u64> = rest
        .get(16..TOLD_BYTES - 8)?
        .chunks_exact(8)
        .map(|number| u64::from_le_bytes(number.try_into().expect("eight bytes")))
        .collect();
    let [runtime, interpreter, thread, frame, code] = groups(&numbers)?;
    let base = table::v3_13();
    let layout = Layout {
        interpreters: runtime.at(2)?,
        gil: Gil::Lock {
            lock: interpreter.at(8)?,
            // It says where they are within the interpreter, in the lock that lies there; some interpreters share another.
            holder: interpreter.at(12)?.checked_sub(interpreter.at(9)?)?,
            locked: interpreter.at(11)?.checked_sub(interpreter.at(9)?)?,
        },
        interpreter: Interpreter {
            next: interpreter.at(2)?,
            threads: interpreter.at(3)?,
            modules: interpreter.at(5)?,
        },
        thread: Thread {
            next: thread.at(2)?,
            interpreter: thread.at(3)?,
            id: thread.at(5)?,
            native_id: Some(thread.at(6)?),
            top: Top::Here(thread.at(4)?),
            chunk: Some(thread.at(7)?),
        },
        frame: Frame {
            kind: FrameKind::Plain {
                owner: frame.at(5)?,
                entry: None,
            },
            back: frame.at(1)?,
            code: frame.at(2)?,
            at: frame.at(3)?,
            locals: frame.at(4)?,
            ..base.frame
        },
        code: Code {
            filename: code.at(1)?,
            name: code.at(2)?,
            qualname: Some(code.at(3)?),
            line_table: code.at(4)?,
            first_line: code.at(5)?,
            variables: code.at(7)?,
            kinds: Some(code.at(8)?),
            body: Body::Inside(code.at(9)?),
            ..base.code
        },
        ..base
    };
    (!is_free_threaded && layout.is_plausible()).then_some(layout)
}

/// The numbers of one struct, its size first.
struct Group<'a>(&'a [u64]);

impl Group<'_> {
    fn at(&self, index: usize) -> Option<Offset> {
        Offset::try_from(*self.0.get(index)?).ok()
    }
}

fn groups(numbers: &[u64]) -> Option<[Group<'_>; 5]> {
    let mut rest = numbers;
    let mut next = |count| {
        let (group, behind) = rest.split_at_checked(count)?;
        rest = behind;
        Some(Group(group))
    };
    Some([next(3)?, next(13)?, next(9)?, next(6)?, next(10)?])
}

impl Layout {
    /// Whether the words that are read together are near each other, as they are in every release, and each is within its struct.
    fn is_plausible(&self) -> bool {
        let (thread, frame, code) = (&self.thread, &self.frame, &self.code);
        let Gil::Lock { holder, locked, .. } = self.gil else {
            return false;
        };
        let Top::Here(top) = thread.top else {
            return false;
        };
        let FrameKind::Plain { owner, entry: None } = frame.kind else {
            return false;
        };
        let Body::Inside(body) = code.body else {
            return false;
        };
        let of_thread = [thread.next, thread.interpreter, thread.id, top];
        let of_thread = of_thread.into_iter().chain(thread.native_id);
        let of_frame = [frame.back, frame.code, frame.globals, frame.at];
        let of_code = [code.filename, code.name, code.line_table, code.variables];
        let of_code = of_code.into_iter().chain(code.qualname).chain(code.kinds);
        let is_within = |offset: Offset, end: Offset| offset < end && end - offset >= 8;
        let is_of_code = |offset: Offset| offset >= 8 && is_within(offset, code.end);
        frame.locals < 512
            && code.end <= body
            && body < 1024
            && [holder, locked].into_iter().all(|it| is_within(it, 2048))
            && of_thread.into_iter().all(|it| is_within(it, 2048))
            && of_frame.into_iter().all(|it| is_within(it, frame.locals))
            && owner < frame.locals
            && of_code.into_iter().all(is_of_code)
            && is_of_code(code.first_line)
    }
}

#[cfg(test)]
pub(in crate::frames) mod tests {
    use super::*;

    /// As 3.13.0 says it.
    pub(in crate::frames) fn told() -> Vec<u8> {
        let numbers: [u64; 41] = [
            283_320, 608, 632, // runtime
            194_968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752, 0, 7768,
            7760, // interpreter
            264, 0, 8, 16, 72, 152, 160, 232, 32, // thread
            80, 8, 0, 56, 72, 70, // frame
            208, 112, 120, 128, 136, 68, 52, 96, 104, 200, // code
        ];
        let mut bytes = b"xdebugpy\xf0\0\x0d\x03\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    #[test]
    fn what_3_13_0_says_is_what_its_headers_say() {
        let told = told();
        assert_eq!(told.len(), TOLD_BYTES);
        assert_eq!(layout(&told), Some(table::v3_13()));
    }

    #[test]
    fn what_cannot_be_is_no_layout() {
        let told = told();
        assert_eq!(layout(&told[1..]), None);
        assert_eq!(layout(&told[..TOLD_BYTES - 1]), None);
        let mut free_threaded = told.clone();
        free_threaded[16] = 1;
        assert_eq!(layout(&free_threaded), None);
        let mut wild = told;
        let frame_back = 24 + 8 * (3 + 13 + 9 + 1);
        wild[frame_back + 1] = 0xff;
        assert_eq!(layout(&wild), None);
    }
}
