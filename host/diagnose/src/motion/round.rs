//! Whether a main thread has come round: it was seen at a later line of a function, and then at an earlier one.

use model::SharedFrame;

/// The lines of a function between which it went back, as far out as that was seen.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// How many functions lie outside.
    depth: usize,
    frame: SharedFrame,
    lines: (i32, i32),
}

/// The outermost functions first.
fn outward(frames: &[SharedFrame]) -> impl Iterator<Item = &SharedFrame> {
    frames.iter().rev()
}

fn is_same_function(one: &SharedFrame, other: &SharedFrame) -> bool {
    one.name == other.name && one.filename == other.filename
}

impl Round {
    /// What is known of it with one more look at the stack.
    pub(super) fn see(
        known: Option<Self>,
        before: &[SharedFrame],
        now: &[SharedFrame],
    ) -> Option<Self> {
        let pairs = outward(before).zip(outward(now)).enumerate();
        let mut elsewhere = pairs
            .skip_while(|(_, (then, now))| is_same_function(then, now) && then.line == now.line);
        let new = elsewhere.next().and_then(|(depth, (then, now))| {
            let goes_back = is_same_function(then, now) && now.line < then.line;
            goes_back.then(|| Self {
                depth,
                frame: now.clone(),
                lines: (now.line, then.line),
            })
        });
        match (known, new) {
            (Some(known), Some(new)) if known.is_of(new.depth, &new.frame) => Some(Self {
                lines: (
                    known.lines.0.min(new.lines.0),
                    known.lines.1.max(new.lines.1),
                ),
                ..known
            }),
            (Some(known), Some(new)) if known.depth <= new.depth => Some(known),
            (known, new) => new.or(known),
        }
    }

    fn is_of(&self, depth: usize, frame: &SharedFrame) -> bool {
        self.depth == depth && is_same_function(&self.frame, frame)
    }

    /// Whether a stack is within the lines that it has come round to, in a call from there.
    pub(super) fn holds(&self, frames: &[SharedFrame]) -> bool {
        let (first, last) = self.lines;
        // What turns in the innermost function alone is one call.
        if self.depth + 1 >= frames.len() {
            return false;
        }
        let mut here = outward(frames).skip(self.depth);
        let here = here.next().filter(|frame| self.is_of(self.depth, frame));
        here.is_some_and(|frame| (first..=last).contains(&frame.line))
    }
}
