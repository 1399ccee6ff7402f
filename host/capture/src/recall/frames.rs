//! Frames that stacks have in common, each once: threads and processes of one program share most of theirs.

use std::collections::{HashMap, HashSet};

use model::{SharedFrame, Stacks};

/// Distinct frames that live in stacks.
#[derive(Debug, Default)]
pub(super) struct Frames(HashSet<SharedFrame>);

impl Frames {
    /// Replaces each frame of `stacks` by the one like it that is known, and knows those that were not.
    pub(super) fn share(&mut self, stacks: &mut Stacks) {
        // Within one process alike frames mostly are the same one already: a look at its place is cheaper than at its words.
        let mut shared = HashMap::<usize, SharedFrame>::new();
        let mut before = Vec::new();
        for frame in stacks.traces.iter_mut().flat_map(|it| &mut it.frames) {
            if let Some(known) = shared.get(&frame.place()) {
                *frame = known.clone();
                continue;
            }
            let known = self.0.get(&*frame).cloned().unwrap_or_else(|| {
                self.0.insert(frame.clone());
                frame.clone()
            });
            shared.insert(frame.place(), known.clone());
            // It lives on until the end, so that no other frame comes to lie in its place.
            before.push(std::mem::replace(frame, known));
        }
    }

    /// Forgets those that no stack has any more.
    pub(super) fn forget_unused(&mut self) {
        self.0.retain(SharedFrame::has_clones);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Frame, StackSourceName, Trace};

    fn frame(name: &str, line: i32, is_entry: bool) -> SharedFrame {
        SharedFrame::from(Frame {
            filename: "/a/train.py".to_owned(),
            is_entry,
            is_shim_entry: false,
            line,
            locals: None,
            module: None,
            name: name.to_owned(),
            short_filename: Some("/a/train.py".to_owned()),
        })
    }

    fn stacks() -> Stacks {
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
        let dive = frame("dive", 3, false);
        Stacks {
            source: StackSourceName::Embedded,
            traces: vec![
                trace(1, vec![dive.clone(), dive, frame("main", 9, true)]),
                trace(2, vec![frame("dive", 3, true), frame("dive", 3, false)]),
                trace(3, Vec::new()),
            ],
            unchanged_since: None,
            version: Some("3.11.7".to_owned()),
        }
    }

    fn places(stacks: &Stacks) -> HashSet<usize> {
        let frames = stacks.traces.iter().flat_map(|trace| &trace.frames);
        frames.map(SharedFrame::place).collect()
    }

    #[test]
    fn what_is_shared_is_what_it_was_and_alike_frames_are_the_same_one() {
        let mut frames = Frames::default();
        let (mut first, mut second) = (stacks(), stacks());
        frames.share(&mut first);
        frames.share(&mut second);
        assert_eq!((&first, &second), (&stacks(), &stacks()));
        assert_eq!(places(&first).len(), 3);
        assert_eq!(places(&first), places(&second));
    }

    #[test]
    fn frames_that_no_stack_has_are_forgotten() {
        let mut frames = Frames::default();
        let mut first = stacks();
        frames.share(&mut first);
        first.traces.truncate(1);
        frames.forget_unused();
        assert_eq!(frames.0.len(), 2);
        drop(first);
        frames.forget_unused();
        assert!(frames.0.is_empty());
    }
}
