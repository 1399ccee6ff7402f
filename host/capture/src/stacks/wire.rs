//! What the collector and a stack helper say to each other, after `Hello` in postcard's format.
//!
//! helper: `Hello`; then, per `Request` of the collector, one `Answer` a process in the order of the request, each
//! sent as soon as it is known, so that what was done before a deadline is kept. Before it the helper may say `NeedsMemory`,
//! which is answered as `helper::passing` says.

use model::{Frame, GapCode, ProcessId, SharedFrame, StackSourceName, Step, Trace};
use serde::{Deserialize, Serialize};
use serde_json::Number;

pub(super) use crate::helper::frame::{pack as encode, unpack as decode};

/// The version of this protocol.
pub(super) const PROTOCOL: u32 = 5;

/// Processes to read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// Files whose frames are asked for numbers, beside the main module's.
    pub(super) focus: Vec<String>,
    /// All that the helper keeps handles for from now on: those of this request and those that other requests name.
    pub(super) keep: Vec<ProcessId>,
    /// Names of variables whose numbers are wanted.
    pub(super) locals: Vec<String>,
    /// Whether to read while the process runs.
    pub(super) nonblocking: bool,
    /// What to read now, in this order.
    pub(super) processes: Vec<ProcessId>,
}

/// What became of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// What became of it.
    pub(super) outcome: Outcome,
    /// The process.
    pub(super) process: ProcessId,
}

/// What became of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// Its stacks.
    Traces {
        /// Numbers of frames.
        numbers: Vec<PackedNumber>,
        /// Who read them.
        source: StackSourceName,
        /// The stacks.
        stacks: Packed,
        /// The version of the interpreter, where its memory tells.
        version: Option<String>,
    },
    /// It is not known yet: the helper may not open its memory, and asks to be handed it.
    NeedsMemory,
    /// It is not Python, as far as py-spy can tell.
    NotPython,
    /// It could not be read.
    Refused {
        /// Why.
        code: GapCode,
        /// The system's own words.
        detail: String,
        /// What to do about it.
        remedy: Option<String>,
    },
}

/// The stacks of one process, each string and frame once: a tenth of the bytes of py-spy's JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Packed {
    /// Distinct strings.
    pub(super) strings: Vec<String>,
    /// Distinct frames.
    pub(super) frames: Vec<PackedFrame>,
    /// Threads in py-spy's order.
    pub(super) threads: Vec<PackedThread>,
}

/// One distinct frame: function and file (indices of strings), line, `is_entry`, `is_shim_entry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct PackedFrame(
    pub(super) u32,
    pub(super) u32,
    pub(super) i32,
    pub(super) bool,
    pub(super) bool,
);

/// One thread; the fields are those of `model::Trace`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PackedThread {
    pub(super) active: bool,
    /// Indices of frames, innermost first.
    pub(super) frames: Vec<u32>,
    pub(super) os_thread_id: Option<u64>,
    pub(super) owns_gil: bool,
    pub(super) thread_id: u64,
    pub(super) thread_name: Option<String>,
}

/// A number of a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PackedNumber {
    /// The index of the thread.
    pub(super) thread: u32,
    /// The index of the frame in the thread.
    pub(super) frame: u32,
    /// The name of the variable.
    pub(super) name: String,
    /// What it holds.
    pub(super) value: PackedValue,
}

/// A `Number` in a shape whose reader need not ask what comes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum PackedValue {
    /// An integer below 2^63.
    Integer(i64),
    /// An integer from 2^63 on.
    Large(u64),
    /// A float; finite, as JSON has no other.
    Float(f64),
}

impl PackedValue {
    /// Returns `number` in this shape.
    pub(super) fn of(number: &Number) -> Self {
        let integer = number.as_i64().map(Self::Integer);
        let integer = integer.or_else(|| number.as_u64().map(Self::Large));
        let value = integer.or_else(|| number.as_f64().map(Self::Float));
        value.expect("a number is an integer or a float")
    }

    fn unpack(self) -> Option<Number> {
        match self {
            Self::Integer(value) => Some(value.into()),
            Self::Large(value) => Some(value.into()),
            Self::Float(value) => Number::from_f64(value),
        }
    }
}

impl PackedNumber {
    /// Returns it with what `traces` tell of its frame; nothing when an index leads nowhere.
    pub(super) fn unpack(self, traces: &[Trace]) -> Option<Step> {
        let thread = at(traces, self.thread)?;
        let frame = at(&thread.frames, self.frame)?;
        Some(Step {
            file: frame.filename.clone(),
            function: frame.name.clone(),
            line: frame.line,
            name: self.name,
            thread_id: thread.os_thread_id,
            value: self.value.unpack()?,
        })
    }
}

impl Packed {
    /// Returns the traces of `pid`; nothing when an index leads nowhere.
    pub(super) fn unpack(&self, pid: i32) -> Option<Vec<Trace>> {
        let frames = self.frames.iter().map(|&frame| self.frame(frame));
        let frames: Vec<SharedFrame> = frames.collect::<Option<_>>()?;
        self.threads
            .iter()
            .map(|thread| {
                let frames = thread
                    .frames
                    .iter()
                    .map(|&index| at(&frames, index).cloned());
                Some(Trace {
                    active: thread.active,
                    frames: frames.collect::<Option<_>>()?,
                    os_thread_id: thread.os_thread_id,
                    owns_gil: thread.owns_gil,
                    pid,
                    process_info: None,
                    thread_id: thread.thread_id,
                    thread_name: thread.thread_name.clone(),
                })
            })
            .collect()
    }

    fn frame(&self, frame: PackedFrame) -> Option<SharedFrame> {
        let PackedFrame(name, file, line, is_entry, is_shim_entry) = frame;
        let filename = at(&self.strings, file)?.clone();
        let frame = Frame {
            short_filename: Some(filename.clone()),
            filename,
            is_entry,
            is_shim_entry,
            line,
            locals: None,
            module: None,
            name: at(&self.strings, name)?.clone(),
        };
        Some(frame.into())
    }
}

fn at<T>(list: &[T], index: u32) -> Option<&T> {
    list.get(usize::try_from(index).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Packed {
        Packed {
            strings: vec!["/a/train.py".into(), "step".into()],
            frames: vec![PackedFrame(1, 0, 42, true, false)],
            threads: vec![PackedThread {
                active: true,
                frames: vec![0, 0],
                os_thread_id: None,
                owns_gil: true,
                thread_id: 140_000_000_000_001,
                thread_name: Some("MainThread".into()),
            }],
        }
    }

    #[test]
    fn an_answer_survives_the_pipe_and_opens_into_py_spys_shape() {
        let process = "7:8".parse().unwrap();
        let answer = Answer {
            outcome: Outcome::Traces {
                numbers: Vec::new(),
                source: StackSourceName::Own,
                stacks: packed(),
                version: Some("3.11.7".into()),
            },
            process,
        };
        let back: Answer = decode(&encode(&answer).unwrap()[4..]).unwrap();
        let Outcome::Traces {
            stacks: packed,
            source: StackSourceName::Own,
            version: Some(_),
            ..
        } = back.outcome
        else {
            panic!("{back:?}")
        };
        let traces = packed.unpack(7).unwrap();
        assert_eq!(traces.len(), 1);
        assert_eq!(traces[0].frames.len(), 2);
        let frame = &traces[0].frames[1];
        assert_eq!((frame.name.as_str(), frame.line), ("step", 42));
        assert_eq!(frame.filename, "/a/train.py");
        assert_eq!(frame.short_filename.as_deref(), Some("/a/train.py"));
    }

    #[test]
    fn an_index_that_leads_nowhere_is_refused() {
        let mut wrong = packed();
        wrong.threads[0].frames.push(1);
        assert_eq!(wrong.unpack(7), None);
        let mut wrong = packed();
        wrong.frames[0].0 = 2;
        assert_eq!(wrong.unpack(7), None);
    }

    #[test]
    fn a_number_comes_with_its_frame_or_not_at_all() {
        let traces = packed().unpack(7).unwrap();
        let mut number = PackedNumber {
            thread: 0,
            frame: 1,
            name: "i".into(),
            value: PackedValue::Integer(5),
        };
        let step = number.clone().unpack(&traces).unwrap();
        assert_eq!((step.function.as_str(), step.line), ("step", 42));
        number.frame = 2;
        assert_eq!(number.unpack(&traces), None);
    }

    #[test]
    fn every_number_that_a_frame_can_hold_comes_back_as_it_was() {
        let integers = [i64::MIN, -1, 0, i64::MAX].map(Number::from);
        let large = [u64::MAX, 1 << 63].map(Number::from);
        let floats = [0.5, -0.0, 1e300].map(|value| Number::from_f64(value).unwrap());
        for number in integers.into_iter().chain(large).chain(floats) {
            let value = PackedValue::of(&number);
            let back: PackedValue = decode(&encode(&value).unwrap()[4..]).unwrap();
            assert_eq!(back.unpack(), Some(number));
        }
        assert_eq!(PackedValue::Float(f64::NAN).unpack(), None);
    }
}
