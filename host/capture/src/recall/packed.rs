//! Stacks in little memory: threads of one program share most of their frames.

use std::collections::HashMap;

use model::{Frame, StackSourceName, Stacks, Trace};

/// Stacks, each distinct frame once.
#[derive(Debug)]
pub(super) struct PackedStacks {
    frames: Vec<Frame>,
    source: StackSourceName,
    /// Each with no frames of its own, and the indices of those it has.
    traces: Vec<(Trace, Vec<u32>)>,
    version: Option<String>,
}

impl PackedStacks {
    pub(super) fn pack(stacks: &Stacks) -> Self {
        let mut packed = Self {
            frames: Vec::new(),
            source: stacks.source,
            traces: Vec::with_capacity(stacks.traces.len()),
            version: stacks.version.clone(),
        };
        let mut known = HashMap::new();
        for trace in &stacks.traces {
            let indices = trace.frames.iter().map(|frame| {
                let place = (&frame.filename, &frame.name, frame.line);
                let index = *known.entry(place).or_insert(packed.frames.len());
                if packed.frames.get(index) == Some(frame) {
                    return index;
                }
                // The first of its place, or one that differs in something else.
                packed.frames.push(frame.clone());
                packed.frames.len() - 1
            });
            let indices = indices.map(|index| u32::try_from(index).expect("frames fit in memory"));
            let indices = indices.collect();
            packed.traces.push((without_frames(trace), indices));
        }
        packed
    }

    pub(super) fn unpack(&self) -> Stacks {
        let frame = |&index: &u32| self.frames[index as usize].clone();
        let traces = self.traces.iter().map(|(trace, frames)| Trace {
            frames: frames.iter().map(frame).collect(),
            ..trace.clone()
        });
        Stacks {
            source: self.source,
            traces: traces.collect(),
            unchanged_since: None,
            version: self.version.clone(),
        }
    }
}

fn without_frames(trace: &Trace) -> Trace {
    Trace {
        active: trace.active,
        frames: Vec::new(),
        os_thread_id: trace.os_thread_id,
        owns_gil: trace.owns_gil,
        pid: trace.pid,
        process_info: trace.process_info.clone(),
        thread_id: trace.thread_id,
        thread_name: trace.thread_name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, line: i32, is_entry: bool) -> Frame {
        Frame {
            filename: "/a/train.py".to_owned(),
            is_entry,
            is_shim_entry: false,
            line,
            locals: None,
            module: None,
            name: name.to_owned(),
            short_filename: Some("/a/train.py".to_owned()),
        }
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed_and_alike_frames_are_kept_once() {
        let trace = |thread_id, frames| Trace {
            active: false,
            frames,
            os_thread_id: Some(thread_id),
            owns_gil: thread_id == 1,
            pid: 7,
            process_info: None,
            thread_id,
            thread_name: Some(format!("thread {thread_id}")),
        };
        let dive = || frame("dive", 3, false);
        let stacks = Stacks {
            source: StackSourceName::Embedded,
            traces: vec![
                trace(1, vec![dive(), dive(), frame("main", 9, true)]),
                trace(2, vec![frame("dive", 3, true), dive(), dive()]),
                trace(3, Vec::new()),
            ],
            unchanged_since: None,
            version: Some("3.11.7".to_owned()),
        };
        let packed = PackedStacks::pack(&stacks);
        assert_eq!(packed.unpack(), stacks);
        assert_eq!(packed.frames.len(), 3);
    }
}
