//! What was copied of a process, and how it is looked at: as if its memory were ours.
//!
//! All that was looked at in one reading is copied by one system call at the start of the next, so that a process
//! that stands where it stood costs one call. What is not there yet is copied when it is looked at. Each look is noted,
//! so that what was made from some bytes can be kept together with them (`memo.rs`).

use std::collections::BTreeMap;

use super::Trouble;
use super::memory::{Memory, Span};

/// Pieces that are nearer than this become one, bytes: less than a page, so nothing in between can be missing.
const NEAR: u64 = 256;

/// The most that is copied of one process in one reading, bytes.
const MOST_BYTES: u32 = 64 << 20;

/// The most that is copied at the start of the next reading, bytes.
const MOST_PLANNED: usize = 2 << 20;

/// After how many readings the plan is made anew although nothing was missing: it may hold what nobody looks at.
const PLAN_LASTS: u32 = 32;

/// The memory of one process as copied.
#[derive(Debug)]
pub(super) struct View {
    memory: Memory,
    /// What is copied at the start: sorted, apart from each other.
    plan: Vec<Span>,
    /// Where each piece of the plan begins in `bytes`.
    starts: Vec<usize>,
    bytes: Vec<u8>,
    /// What was copied since: address, length, where it begins in `more_bytes`.
    more: BTreeMap<u64, (usize, usize)>,
    more_bytes: Vec<u8>,
    uses: Vec<Span>,
    age: u32,
}

impl View {
    /// Nothing is copied yet.
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory,
            plan: Vec::new(),
            starts: Vec::new(),
            bytes: Vec::new(),
            more: BTreeMap::new(),
            more_bytes: Vec::new(),
            uses: Vec::new(),
            age: 0,
        }
    }

    /// Begins a reading: copies what the last one looked at. Returns whether every byte is as it was.
    pub(super) fn refresh(&mut self, scratch: &mut Vec<u8>) -> Result<bool, Trouble> {
        self.uses.clear();
        self.more.clear();
        self.more_bytes.clear();
        let missing = self.memory.read(&self.plan, scratch)?;
        let is_same = missing.is_empty() && !self.plan.is_empty() && *scratch == self.bytes;
        std::mem::swap(&mut self.bytes, scratch);
        for index in missing.into_iter().rev() {
            let start = self.starts[index];
            self.bytes.drain(start..start + self.plan[index].size());
            self.plan.remove(index);
            self.index();
        }
        Ok(is_same)
    }

    /// Ends a reading: what was looked at is what the next one begins with. Returns whether that differs from before.
    pub(super) fn settle(&mut self) -> bool {
        self.age += 1;
        // Of each process the room for them would be as large as what is copied.
        let mut spans = std::mem::take(&mut self.uses);
        if self.more.is_empty() && self.age < PLAN_LASTS {
            return false;
        }
        self.age = 0;
        let plan = join(&mut spans);
        let mut bytes = Vec::new();
        for span in &plan {
            // What lies between two pieces is not known: the next reading finds a difference, and looks again.
            let start = bytes.len();
            bytes.resize(start + span.size(), 0);
        }
        let differs = plan != self.plan;
        if differs {
            self.plan = plan;
            self.bytes = bytes;
            self.index();
        }
        self.more.clear();
        self.more_bytes = Vec::new();
        differs
    }

    /// Returns `length` bytes at `at`, copied now if they were not.
    pub(super) fn bytes(&mut self, at: u64, length: usize) -> Result<&[u8], Trouble> {
        let span = span(at, length)?;
        self.uses.push(span);
        if !self.has(span) {
            self.load(&[span])?;
        }
        // Twice, because a slice that is returned early stays borrowed to the end.
        if let Some(start) = self.planned(span) {
            return Ok(&self.bytes[start..start + length]);
        }
        let start = self
            .found(span)
            .ok_or(Trouble::Torn("an address leads nowhere"))?;
        Ok(&self.more_bytes[start..start + length])
    }

    /// Returns whether `span` is copied already.
    pub(super) fn has(&self, span: Span) -> bool {
        self.planned(span).is_some() || self.found(span).is_some()
    }

    /// Copies those of `spans` that are there and not copied yet, by one call.
    pub(super) fn load(&mut self, spans: &[Span]) -> Result<(), Trouble> {
        let new = spans.iter().filter(|span| !self.has(**span));
        let mut wanted: Vec<Span> = new.copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let length: usize = wanted.iter().map(|span| span.size()).sum();
        let copied = u32::try_from(self.more_bytes.len() + length);
        if !copied.is_ok_and(|copied| copied <= MOST_BYTES) {
            return Err(Trouble::Torn("there is more than a stack can be"));
        }
        let mut bytes = Vec::new();
        let mut missing = self
            .memory
            .read(&wanted, &mut bytes)?
            .into_iter()
            .peekable();
        let mut start = self.more_bytes.len();
        self.more_bytes.append(&mut bytes);
        for (index, span) in wanted.iter().enumerate() {
            if missing.next_if_eq(&index).is_none() {
                self.more.insert(span.at, (span.size(), start));
            }
            start += span.size();
        }
        Ok(())
    }

    /// Where in the list of looks we are, for `since`.
    pub(super) fn mark(&self) -> usize {
        self.uses.len()
    }

    /// What was looked at since `mark`.
    pub(super) fn since(&self, mark: usize) -> &[Span] {
        &self.uses[mark..]
    }

    /// Forgets what was looked at since `mark`: it need not be copied next time.
    pub(super) fn forget(&mut self, mark: usize) {
        self.uses.truncate(mark);
    }

    /// Copies `spans` again, for comparing; they go one behind the other into `bytes`. Returns whether all are there.
    pub(super) fn again(&mut self, spans: &[Span], bytes: &mut Vec<u8>) -> Result<bool, Trouble> {
        Ok(self.memory.read(spans, bytes)?.is_empty())
    }

    fn planned(&self, span: Span) -> Option<usize> {
        let index = self.plan.partition_point(|piece| piece.at <= span.at);
        let piece = self.plan.get(index.checked_sub(1)?)?;
        let inside = usize::try_from(span.at - piece.at).ok()?;
        let fits = inside.checked_add(span.size())? <= piece.size();
        fits.then_some(self.starts[index - 1] + inside)
    }

    fn found(&self, span: Span) -> Option<usize> {
        let (&at, &(length, start)) = self.more.range(..=span.at).next_back()?;
        let inside = usize::try_from(span.at - at).ok()?;
        (inside.checked_add(span.size())? <= length).then_some(start + inside)
    }

    fn index(&mut self) {
        let mut start = 0;
        let begins = self.plan.iter().map(|span| {
            let this = start;
            start += span.size();
            this
        });
        self.starts = begins.collect();
    }
}

/// Checks that there can be `length` bytes at `at`.
pub(super) fn span(at: u64, length: usize) -> Result<Span, Trouble> {
    let fits = u32::try_from(length)
        .ok()
        .filter(|&length| length > 0 && at > 0 && at < 1 << 56 && length < MOST_BYTES);
    let length = fits.ok_or(Trouble::Torn("an address or a length is none"))?;
    Ok(Span { at, length })
}

/// Returns `spans` sorted, with those that overlap or are near joined; nothing if that is too much to copy each time.
pub(super) fn join(spans: &mut [Span]) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    let mut total = 0;
    for span in spans {
        let end = span.at + u64::from(span.length);
        if let Some(last) = joined.last_mut()
            && let Some(last_end) = last.end()
            && span.at <= last_end + NEAR
        {
            let grown = end.max(last_end) - last.at;
            last.length = u32::try_from(grown).unwrap_or(u32::MAX);
        } else {
            joined.push(*span);
        }
    }
    for span in &joined {
        total += span.size();
    }
    if total > MOST_PLANNED {
        joined.clear();
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let memory = vec![(0x1000, (0..=255).collect()), (0x8000, vec![9; 64])];
        View::new(Memory::Pieces(memory))
    }

    #[test]
    fn what_was_looked_at_is_copied_at_the_start_of_the_next_reading() {
        let (mut view, mut scratch) = (view(), Vec::new());
        assert!(!view.refresh(&mut scratch).unwrap());
        assert_eq!(view.bytes(0x1004, 2).unwrap(), [4, 5]);
        assert_eq!(view.bytes(0x1010, 1).unwrap(), [16]);
        assert_eq!(view.bytes(0x8000, 64).unwrap(), [9; 64]);
        assert!(view.settle());
        let expected = [(0x1004, 13), (0x8000, 64)].map(|(at, length)| Span { at, length });
        assert_eq!(view.plan, expected);
        assert!(
            !view.refresh(&mut scratch).unwrap(),
            "what lies between was not known"
        );
        assert_eq!(view.bytes(0x1010, 1).unwrap(), [16]);
        assert!(!view.settle());
        assert!(view.refresh(&mut scratch).unwrap());
    }

    #[test]
    fn what_is_gone_is_left_out_of_the_plan_and_the_rest_is_right() {
        let (mut view, mut scratch) = (view(), Vec::new());
        view.refresh(&mut scratch).unwrap();
        for at in [0x1004, 0x1200 - 0x100 - 4, 0x8001] {
            view.bytes(at, 2).unwrap();
        }
        view.settle();
        view.memory = Memory::Pieces(vec![(0x8000, vec![7; 64])]);
        assert!(!view.refresh(&mut scratch).unwrap());
        assert_eq!(view.bytes(0x8001, 2).unwrap(), [7, 7]);
        assert!(view.bytes(0x1004, 2).is_err());
    }

    #[test]
    fn no_address_and_no_length_is_too_odd() {
        let mut view = view();
        for (at, length) in [
            (0, 1),
            (u64::MAX, 8),
            (0x1000, 0),
            (0x1000, usize::MAX),
            (0x1fff, 2),
        ] {
            assert!(view.bytes(at, length).is_err(), "{at:x} {length}");
        }
    }
}
