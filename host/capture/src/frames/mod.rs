//! Our own reader of the frames of `CPython` 3.8 to 3.13: Python stacks straight from the memory of a process.
//!
//! In the order of a reading: `memory` copies pieces, `view` remembers which, `layout` says where things lie, `walk` goes
//! from the runtime to every frame, `code` and `lines` name function, file and line, `names` and `tids` the threads,
//! `numbers` what the step clock wants. The process runs meanwhile, so in the end every word that led on is read again,
//! and what differs is read anew. Nothing in it is believed: each length has a limit, each object its type.

mod code;
mod dict;
mod layout;
mod lines;
mod memo;
mod memory;
mod names;
mod numbers;
mod object;
mod tids;
mod view;
mod walk;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::fs::File;
use std::io;
use std::rc::Rc;

use serde_json::Number;

use code::{Code, Codes};
use dict::Hints;
use layout::{Layout, TOLD_BYTES};
use memo::Memo;
use memory::Memory;
use names::Names;
pub(crate) use numbers::WantedNumbers;
use numbers::{Found, Variables};
use object::{Objects, Types};
use tids::Tids;
use view::View;
use walk::{Checks, RawFrame, RawThread, Walk};

/// How often a process is looked at until what is seen fits together.
const ATTEMPTS: u32 = 4;

/// The file of a code object that only leads into Python.
const SHIM: &str = "<shim>";

/// Why there are no frames.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The kernel lets us read nothing; its answer.
    Barred(io::Error),
    /// The process has ended.
    Gone,
    /// What was read does not fit together: it changed meanwhile, or is no `CPython` that we know.
    Torn(&'static str),
}

/// The stacks of one process.
#[derive(Debug)]
pub(crate) struct Look {
    /// In the order of the interpreter: the newest thread first.
    pub(crate) threads: Vec<Thread>,
    /// Numbers that were asked for.
    pub(crate) numbers: Vec<FrameNumber>,
}

/// One thread of Python.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The `pthread_t`.
    pub(crate) id: u64,
    /// The kernel's id as the process itself counts its threads, where it can be told.
    pub(crate) kernel_id: Option<u64>,
    /// The name that `threading` gave it.
    pub(crate) name: Option<Rc<str>>,
    /// Whether it held the interpreter lock.
    pub(crate) owns_gil: bool,
    /// Innermost first.
    pub(crate) frames: Vec<Frame>,
}

/// One frame.
#[derive(Debug)]
pub(crate) struct Frame {
    raw: RawFrame,
    code: Rc<Code>,
    /// From 1; 0 where the instruction has none.
    pub(crate) line: i32,
    /// Whether the C loop was entered anew for it (up to 3.11).
    pub(crate) is_entry: bool,
    /// Whether the frame outside of it is no Python.
    pub(crate) is_shim_entry: bool,
}

impl Frame {
    /// Returns the function: the qualified name where there is one.
    pub(crate) fn function(&self) -> &str {
        &self.code.name
    }

    /// Returns the source file.
    pub(crate) fn file(&self) -> &str {
        &self.code.file
    }
}

/// A number that a frame holds.
#[derive(Debug)]
pub(crate) struct FrameNumber {
    /// The index of the thread in the look.
    pub(crate) thread: usize,
    /// The index of the frame in the thread.
    pub(crate) frame: usize,
    /// The name of the variable.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) value: Number,
}

/// The reader of one process; it keeps what it knows of it from one reading to the next.
#[derive(Debug)]
pub(crate) struct Frames {
    runtime: u64,
    objects: Objects,
    view: View,
    codes: Codes,
    hints: Hints,
    variables: Variables,
    names: Option<Memo<Rc<Names>>>,
    last_names: Rc<Names>,
    tids: Tids,
    last: Option<Rc<Look>>,
}

impl Frames {
    /// Opens the process `pid`, a `CPython` 3.`minor` whose `_PyRuntime` is at `runtime`. Nothing for a version that is not
    /// known. Errors: its memory cannot be read.
    pub(crate) fn open(pid: i32, minor: u64, runtime: u64) -> Result<Option<Self>, Trouble> {
        Self::of(Memory::Call(pid), pid, minor, runtime)
    }

    /// The same by its memory, which was opened by somebody who may.
    pub(crate) fn open_handed(
        memory: File,
        pid: i32,
        minor: u64,
        runtime: u64,
    ) -> Result<Option<Self>, Trouble> {
        Self::of(Memory::File(memory), pid, minor, runtime)
    }

    /// The same where the system call is barred.
    #[cfg(test)]
    pub(crate) fn open_by_file(
        pid: i32,
        minor: u64,
        runtime: u64,
    ) -> Result<Option<Self>, Trouble> {
        Self::of(Memory::by_file(pid)?, pid, minor, runtime)
    }

    fn of(memory: Memory, pid: i32, minor: u64, runtime: u64) -> Result<Option<Self>, Trouble> {
        let mut view = View::new(memory);
        let told = view.bytes(runtime, TOLD_BYTES)?;
        let Some(layout) = Layout::of(minor, told) else {
            return Ok(None);
        };
        Ok(Some(Self {
            runtime,
            objects: Objects {
                layout,
                types: Types::default(),
            },
            view,
            codes: Codes::default(),
            hints: Hints::default(),
            variables: Variables::new(),
            names: None,
            last_names: Rc::default(),
            tids: Tids::of(pid),
            last: None,
        }))
    }

    /// Reads all stacks, and the numbers that are wanted. Errors: nothing may be read, or nothing fits together.
    pub(crate) fn read(
        &mut self,
        wanted: &WantedNumbers,
        scratch: &mut Vec<u8>,
    ) -> Result<Rc<Look>, Trouble> {
        let mut trouble = Trouble::Torn("");
        for attempt in 1..=ATTEMPTS {
            match self.attempt(wanted, scratch, attempt == ATTEMPTS) {
                Err(Trouble::Torn(words)) => trouble = Trouble::Torn(words),
                other => return other,
            }
        }
        Err(trouble)
    }

    /// Forgets what was read, so that the next reading looks at everything.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.variables.clear();
    }

    /// Returns our id and the kernel's state letter of a thread that calls itself `id`; nothing if it has no such thread.
    pub(crate) fn state(&mut self, id: u64) -> Option<(u64, char)> {
        self.tids.state(id)
    }

    fn attempt(
        &mut self,
        wanted: &WantedNumbers,
        scratch: &mut Vec<u8>,
        is_last: bool,
    ) -> Result<Rc<Look>, Trouble> {
        let is_same = self.view.refresh(scratch)?;
        if is_same && let Some(last) = &self.last {
            return Ok(Rc::clone(last));
        }
        self.last = None;
        self.codes.begin();
        let mut walk = Walk {
            objects: &mut self.objects,
            view: &mut self.view,
            checks: Checks::default(),
            runtime: self.runtime,
        };
        let (raw, modules) = walk.threads()?;
        let mut checks = walk.checks;
        let codes = raw.iter().flat_map(|thread| &thread.frames);
        let codes: Vec<u64> = codes
            .filter(|frame| !frame.is_shim)
            .map(|frame| frame.code)
            .collect();
        self.codes.prefetch(&self.objects, &mut self.view, &codes)?;
        self.read_names(modules);
        let mut look = Look {
            threads: Vec::with_capacity(raw.len()),
            numbers: Vec::new(),
        };
        for thread in &raw {
            let thread = self.thread(thread)?;
            look.threads.push(thread);
        }
        let numbers = self.numbers(wanted, &look)?;
        let of_numbers = numbers.iter().flat_map(|(_, _, found)| &found.checks.0);
        checks.0.extend(of_numbers);
        // A thread that never stands still is shown as it seemed to be: each frame is one, but the caller of one instant may
        // have the callee of the next.
        let holds = checks.hold(&mut self.view)?;
        if !holds && !is_last {
            return Err(Trouble::Torn("its stacks changed while they were read"));
        }
        for (thread, frame, found) in numbers {
            if holds || found.checks.hold(&mut self.view)? {
                look.numbers.push(FrameNumber {
                    thread,
                    frame,
                    name: wanted.name(found.name).to_owned(),
                    value: found.value,
                });
            }
        }
        self.view.settle();
        let look = Rc::new(look);
        self.last = Some(Rc::clone(&look));
        Ok(look)
    }

    /// Names that cannot be read now are as they were.
    fn read_names(&mut self, modules: u64) {
        let known = self.names.take();
        let (objects, view, hints) = (&mut self.objects, &mut self.view, &mut self.hints);
        if let Ok(names) = names::read(objects, view, hints, known, modules) {
            self.last_names = Rc::clone(&names.value);
            self.names = Some(names);
        }
    }

    fn thread(&mut self, raw: &RawThread) -> Result<Thread, Trouble> {
        let mut frames: Vec<Frame> = Vec::with_capacity(raw.frames.len());
        for frame in &raw.frames {
            let code = if frame.is_shim {
                None
            } else {
                let code = self
                    .codes
                    .get(&mut self.objects, &mut self.view, frame.code)?;
                Some(code).filter(|code| !code.file.is_empty() && *code.file != *SHIM)
            };
            match code {
                Some(code) => frames.push(Frame {
                    raw: *frame,
                    line: code.line(frame.place)?,
                    code,
                    is_entry: frame.is_entry,
                    is_shim_entry: false,
                }),
                None => {
                    if let Some(inner) = frames.last_mut() {
                        inner.is_shim_entry = true;
                    }
                }
            }
        }
        if let Some(outermost) = frames.last_mut() {
            outermost.is_shim_entry = true;
        }
        Ok(Thread {
            id: raw.id,
            kernel_id: raw
                .native_id
                .or_else(|| self.tids.kept(&mut self.view, raw.id)),
            name: self.last_names.get(&raw.id).cloned(),
            owns_gil: raw.owns_gil,
            frames,
        })
    }

    /// Reads what is wanted, with the index of the thread and of the frame.
    fn numbers(
        &mut self,
        wanted: &WantedNumbers,
        look: &Look,
    ) -> Result<Vec<(usize, usize, Found)>, Trouble> {
        let mut numbers = Vec::new();
        if wanted.is_empty() {
            return Ok(numbers);
        }
        let main_file = look.main_file();
        for (thread, read) in look.threads.iter().enumerate() {
            for (index, frame) in read.frames.iter().enumerate() {
                if main_file != Some(frame.file()) && !wanted.names(frame.file()) {
                    continue;
                }
                let (objects, view, hints) = (&mut self.objects, &mut self.view, &mut self.hints);
                let of = (&frame.raw, frame.function());
                let found = wanted.of_frame(objects, view, hints, &mut self.variables, of)?;
                numbers.extend(found.into_iter().map(|found| (thread, index, found)));
            }
        }
        Ok(numbers)
    }
}

/// Reads a line table as those of 3.`minor` are.
#[cfg(test)]
pub(crate) fn line_for_tests(
    minor: u64,
    table: &[u8],
    first_line: i32,
    offset: i32,
) -> Option<i32> {
    let told = layout::told_for_tests();
    let lines = Layout::of(minor, &told)?.code.lines;
    lines::line(lines, table, first_line, offset)
}

impl Look {
    /// Returns the file of the outermost module of the main thread, which is the oldest.
    fn main_file(&self) -> Option<&str> {
        let mut frames = self.threads.last()?.frames.iter().rev();
        frames
            .find(|frame| frame.function() == "<module>")
            .map(Frame::file)
    }
}
