//! The distinct stacks of a snapshot, each string and frame once.

use std::collections::HashMap;

use crate::{Frame, ProcessId, SharedFrame, Snapshot};

/// The distinct Python stacks of a snapshot, in the order of processes, then of traces, so that the same snapshot
/// always gives the same indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackTable {
    /// Distinct strings; string 0 is empty.
    pub strings: Vec<String>,
    /// Distinct frames.
    pub frames: Vec<FrameEntry>,
    /// Stack `i` is `frame_ids[offsets[i] .. offsets[i + 1]]`; one longer than there are stacks.
    pub offsets: Vec<u32>,
    /// Indices into `frames`, innermost frame first.
    pub frame_ids: Vec<u32>,
    /// For each trace of each process, in order: the process, the index of the trace, the index of its stack.
    pub traces: Vec<(ProcessId, usize, u32)>,
}

/// One distinct frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameEntry {
    /// Index of the function's name in `strings`.
    pub function: u32,
    /// Index of the file's path in `strings`.
    pub file: u32,
    /// The line, 0 where unknown.
    pub line: u32,
}

impl StackTable {
    /// Returns the table of `snapshot`.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut builder = Builder::default();
        builder.string("");
        builder.table.offsets.push(0);
        for process in &snapshot.processes {
            let Some(stacks) = &process.pyspy else {
                continue;
            };
            for (index, trace) in stacks.traces.iter().enumerate() {
                let ids = trace
                    .frames
                    .iter()
                    .map(|frame| builder.shared(frame))
                    .collect();
                let stack = builder.stack(ids);
                builder.table.traces.push((process.identity, index, stack));
            }
        }
        builder.table
    }
}

#[derive(Default)]
struct Builder<'a> {
    table: StackTable,
    strings: HashMap<&'a str, u32>,
    frames: HashMap<FrameEntry, u32>,
    /// By their places: of a frame that many stacks share the texts are looked up once.
    shared: HashMap<usize, u32>,
    stacks: HashMap<Vec<u32>, u32>,
}

impl<'a> Builder<'a> {
    fn string(&mut self, text: &'a str) -> u32 {
        *self
            .strings
            .entry(text)
            .or_insert_with(|| push(&mut self.table.strings, text.to_owned()))
    }

    fn shared(&mut self, frame: &'a SharedFrame) -> u32 {
        if let Some(&known) = self.shared.get(&frame.place()) {
            return known;
        }
        let index = self.frame(frame);
        self.shared.insert(frame.place(), index);
        index
    }

    fn frame(&mut self, frame: &'a Frame) -> u32 {
        let entry = FrameEntry {
            function: self.string(&frame.name),
            file: self.string(&frame.filename),
            line: u32::try_from(frame.line).unwrap_or(0),
        };
        *self
            .frames
            .entry(entry)
            .or_insert_with(|| push(&mut self.table.frames, entry))
    }

    fn stack(&mut self, ids: Vec<u32>) -> u32 {
        if let Some(&known) = self.stacks.get(&ids) {
            return known;
        }
        let index = length(&self.table.offsets) - 1;
        self.table.frame_ids.extend_from_slice(&ids);
        self.table.offsets.push(length(&self.table.frame_ids));
        self.stacks.insert(ids, index);
        index
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    length(list) - 1
}

fn length<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a snapshot is far smaller than 2^32 items")
}
