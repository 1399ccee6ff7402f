//! From the runtime to every frame: interpreters, thread states, chains of frames.
//!
//! The process runs meanwhile. Each word that leads on is noted with its value, so that it can be compared in the end.

use super::Trouble;
use super::code::Place;
use super::layout::{FrameKind, Gil, Offset, Top};
use super::object::{Kind, Objects};
use super::view::{View, span};

const MOST_INTERPRETERS: usize = 64;
const MOST_THREADS: usize = 1 << 16;

/// The most frames of one thread.
const MOST_FRAMES: usize = 1 << 16;

/// The most frames of one process.
const MOST_FRAMES_IN_ALL: usize = 500_000;

/// The most that is copied of one piece of a data stack in one go, bytes.
const LONGEST_CHUNK: u64 = 1 << 20;

/// The most pieces of a data stack that are looked at.
const MOST_CHUNKS: usize = 4096;

/// Owners of frames (`_frameowner`): a thread, a generator, a frame object, the C stack.
const C_STACK: u8 = 3;

/// One thread state.
#[derive(Debug)]
pub(super) struct RawThread {
    /// The `pthread_t`.
    pub(super) id: u64,
    pub(super) native_id: Option<u64>,
    pub(super) owns_gil: bool,
    /// Innermost first.
    pub(super) frames: Vec<RawFrame>,
}

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawFrame {
    pub(super) at: u64,
    pub(super) code: u64,
    pub(super) place: Place,
    pub(super) globals: u64,
    pub(super) is_entry: bool,
    /// It has no code: the C loop was entered above it.
    pub(super) is_shim: bool,
}

/// Words that have to be the same when they are read again.
#[derive(Debug, Default)]
pub(super) struct Checks(pub(super) Vec<(u64, u64)>);

/// A look at everything.
pub(super) struct Walk<'a> {
    pub(super) objects: &'a mut Objects,
    pub(super) view: &'a mut View,
    pub(super) checks: Checks,
    /// The address of `_PyRuntime`.
    pub(super) runtime: u64,
}

impl Walk<'_> {
    /// Returns every thread of every interpreter, and the first word of the dict of all modules of the main one.
    pub(super) fn threads(&mut self) -> Result<(Vec<RawThread>, u64), Trouble> {
        let layout = self.objects.layout.clone();
        let mut threads = Vec::new();
        let mut frames = 0;
        let mut interpreters = 0;
        let mut modules = 0;
        let mut interpreter =
            self.checked(self.runtime.wrapping_add(u64::from(layout.interpreters)))?;
        if interpreter == 0 {
            return Err(Trouble::Torn("its interpreter has not started yet"));
        }
        while interpreter != 0 {
            interpreters += 1;
            if interpreters > MOST_INTERPRETERS {
                return Err(Trouble::Torn("there are too many interpreters"));
            }
            let holder = self.gil_holder(interpreter)?;
            modules = interpreter.wrapping_add(u64::from(layout.interpreter.modules));
            let mut at =
                self.checked(interpreter.wrapping_add(u64::from(layout.interpreter.threads)))?;
            while at != 0 {
                let (thread, next) = self.thread(interpreter, at, holder)?;
                frames += thread.frames.len();
                threads.push(thread);
                if threads.len() > MOST_THREADS || frames > MOST_FRAMES_IN_ALL {
                    return Err(Trouble::Torn("there are too many threads or frames"));
                }
                at = next;
            }
            interpreter =
                self.checked(interpreter.wrapping_add(u64::from(layout.interpreter.next)))?;
        }
        Ok((threads, modules))
    }

    fn checked(&mut self, at: u64) -> Result<u64, Trouble> {
        let word = self.view.word(at)?;
        self.checks.0.push((at, word));
        Ok(word)
    }

    /// Returns the address of the thread state that holds the lock, or 0.
    fn gil_holder(&mut self, interpreter: u64) -> Result<u64, Trouble> {
        match self.objects.layout.gil {
            Gil::Current(offset) => self.view.word(self.runtime.wrapping_add(u64::from(offset))),
            Gil::Lock {
                lock,
                holder,
                locked,
            } => {
                let lock = self.view.word(interpreter.wrapping_add(u64::from(lock)))?;
                let (from, to) = (holder.min(locked), holder.max(locked) + 8);
                let lock = self.view.part(lock, from, to)?;
                // -1 before it is made.
                Ok(if lock.half(locked) == 1 {
                    lock.word(holder)
                } else {
                    0
                })
            }
        }
    }

    fn thread(
        &mut self,
        interpreter: u64,
        at: u64,
        holder: u64,
    ) -> Result<(RawThread, u64), Trouble> {
        let fields = self.objects.layout.thread.clone();
        let top = match fields.top {
            Top::Here(offset) => offset,
            Top::CFrame { cframe, .. } => cframe,
        };
        let offsets = [
            Some(fields.next),
            Some(fields.interpreter),
            Some(fields.id),
            fields.native_id,
        ];
        let all = offsets.into_iter().flatten().chain([top]);
        let (from, to) = all.fold((Offset::MAX, 0), |(from, to), offset| {
            (from.min(offset), to.max(offset + 8))
        });
        let state = self.view.part(at, from, to)?;
        if state.word(fields.interpreter) != interpreter {
            return Err(Trouble::Torn("a thread belongs to no interpreter"));
        }
        let next = state.word(fields.next);
        let top_word = state.word(top);
        let mut thread = RawThread {
            id: state.word(fields.id),
            native_id: fields.native_id.map(|offset| state.word(offset)),
            owns_gil: at == holder,
            frames: Vec::new(),
        };
        self.checks
            .0
            .push((at.wrapping_add(u64::from(fields.next)), next));
        self.checks
            .0
            .push((at.wrapping_add(u64::from(top)), top_word));
        let innermost = match fields.top {
            Top::CFrame { current, .. } if top_word != 0 => {
                self.checked(top_word.wrapping_add(u64::from(current)))?
            }
            _ => top_word,
        };
        let chunks = fields
            .chunk
            .map(|offset| Chunks::of(at.wrapping_add(u64::from(offset))));
        thread.frames = self.chain(innermost, chunks)?;
        Ok((thread, next))
    }

    /// Follows frames outwards.
    fn chain(&mut self, mut at: u64, mut chunks: Option<Chunks>) -> Result<Vec<RawFrame>, Trouble> {
        let mut frames = Vec::new();
        let length = usize::from(self.objects.layout.frame.locals);
        while at != 0 {
            if frames.len() >= MOST_FRAMES {
                return Err(Trouble::Torn("a stack has no end"));
            }
            if let Some(chunks) = &mut chunks {
                chunks.load(self.view, at, length)?;
            }
            let (frame, back) = self.frame(at)?;
            frames.push(frame);
            at = back;
        }
        Ok(frames)
    }

    fn frame(&mut self, at: u64) -> Result<(RawFrame, u64), Trouble> {
        let fields = self.objects.layout.frame.clone();
        let (from, to) = match fields.kind {
            // The count of references before it changes all the time.
            FrameKind::Object { .. } => (8, fields.at + 8),
            FrameKind::Plain { .. } => (0, fields.locals),
        };
        let part = self.view.part(at, from, to)?;
        let (code, back) = (part.word(fields.code), part.word(fields.back));
        let globals = part.word(fields.globals);
        let (place, is_entry, is_shim) = match fields.kind {
            FrameKind::Object { unit } => {
                let distance = part.half(fields.at).cast_signed();
                (
                    Place::Distance(distance.saturating_mul(unit).max(-1)),
                    true,
                    false,
                )
            }
            FrameKind::Plain { owner, entry } => {
                let is_entry = entry.is_some_and(|offset| part.byte(offset) != 0);
                let owner = part.byte(owner);
                if owner > C_STACK {
                    return Err(Trouble::Torn("a frame belongs to nobody"));
                }
                (
                    Place::Address(part.word(fields.at)),
                    is_entry,
                    owner == C_STACK || code == 0,
                )
            }
        };
        if matches!(fields.kind, FrameKind::Object { .. }) {
            self.objects.expect(self.view, at, Kind::Frame)?;
        }
        self.checks
            .0
            .push((at.wrapping_add(u64::from(fields.code)), code));
        self.checks
            .0
            .push((at.wrapping_add(u64::from(fields.back)), back));
        let frame = RawFrame {
            at,
            code,
            place,
            globals,
            is_entry,
            is_shim,
        };
        Ok((frame, back))
    }
}

/// The pieces of a thread's data stack, in which its frames lie one behind the other (`_PyStackChunk`: the one before,
/// its size in bytes, how many words of it are used, then these).
struct Chunks {
    /// Where the address of the next one is.
    next: Option<u64>,
    is_newest: bool,
    count: usize,
}

impl Chunks {
    fn of(pointer: u64) -> Self {
        Self {
            next: Some(pointer),
            is_newest: true,
            count: 0,
        }
    }

    /// Copies pieces until one has `length` bytes at `at`, or none is left: then the frame lies somewhere else.
    fn load(&mut self, view: &mut View, at: u64, length: usize) -> Result<(), Trouble> {
        while !view.has(span(at, length)?)
            && let Some(pointer) = self.next.take()
            && self.count < MOST_CHUNKS
        {
            let mark = view.mark();
            let chunk = view.word(pointer)?;
            if chunk == 0 {
                break;
            }
            let head = view.part(chunk, 0, 24)?;
            let (size, used) = (head.word(8), head.word(16));
            let end = if self.is_newest {
                // What is used of the newest is in the thread state.
                view.word(pointer.wrapping_add(8))?.wrapping_sub(chunk)
            } else {
                used.saturating_mul(8).saturating_add(24)
            };
            let end = if end > 24 && end <= size { end } else { size };
            // The innermost frame may be half made behind the end.
            let end = end
                .saturating_add(length as u64)
                .min(size.max(24))
                .min(LONGEST_CHUNK);
            view.forget(mark);
            view.load(&[span(chunk, usize::try_from(end).unwrap_or(0))?])?;
            self.next = Some(chunk);
            self.is_newest = false;
            self.count += 1;
        }
        Ok(())
    }
}

impl Checks {
    /// Reads all words again. Returns whether they are the same; `words` are those that are compared.
    pub(super) fn hold(&self, view: &mut View) -> Result<bool, Trouble> {
        let mut spans = Vec::with_capacity(self.0.len());
        for &(at, _) in &self.0 {
            spans.push(span(at, 8)?);
        }
        let spans = super::view::join(&mut spans);
        let mut bytes = Vec::new();
        if !view.again(&spans, &mut bytes)? {
            return Ok(false);
        }
        let mut starts = Vec::with_capacity(spans.len());
        let mut start = 0;
        for span in &spans {
            starts.push(start);
            start += span.size();
        }
        let is_same = |&(at, word): &(u64, u64)| {
            let index = spans.partition_point(|span| span.at <= at).checked_sub(1)?;
            let inside = usize::try_from(at - spans[index].at).ok()?;
            let start = starts[index] + inside;
            (bytes.get(start..start + 8)? == word.to_le_bytes()).then_some(())
        };
        Ok(self.0.iter().all(|check| is_same(check).is_some()))
    }
}
