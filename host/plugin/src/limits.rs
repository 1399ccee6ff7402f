//! What a plugin may use and say. Deadlines are in the settings; the rest is here.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Annotations of one answer.
pub(crate) const ANNOTATIONS: usize = 50_000;
/// Findings of one answer.
pub(crate) const FINDINGS: usize = 1_000;
/// Pieces of evidence of one finding.
pub(crate) const EVIDENCE: usize = 64;
/// Bytes of a key and of a finding's kind.
pub(crate) const KEY_BYTES: usize = 64;
/// Bytes of a text, a message, a pointer and a piece of evidence.
pub(crate) const TEXT_BYTES: usize = 4 << 10;
/// Bytes that a guest may hand over in one call, its answer included; wasmtime counts them.
pub(crate) const HANDED_OVER_BYTES: usize = 16 << 20;
/// Bytes that `query` answers.
pub(crate) const QUERY_BYTES: usize = 1 << 20;
/// Lines that a guest may log in one call.
pub(crate) const LOG_LINES: u32 = 64;
/// Keys of a guest's state.
pub(crate) const STATE_KEYS: usize = 256;
/// Bytes of a guest's state, keys and values together.
pub(crate) const STATE_BYTES: usize = 1 << 20;
/// Calls of one instance, after which a new one is made: linear memory never shrinks and some runtimes leak.
pub(crate) const CALLS: u32 = 1_000;
/// Handles that a guest may hold.
pub(crate) const HANDLES: usize = 1_024;
/// Snapshots that may wait for one sink.
pub(crate) const QUEUE: usize = 8;
/// Bytes that they may have together as JSON. One may wait however large it is.
pub(crate) const QUEUE_BYTES: u64 = 8 << 20;
/// Requests of one call.
pub(crate) const REQUESTS: u32 = 64;
/// Bytes of a URL.
pub(crate) const URL_BYTES: usize = 8 << 10;
/// Headers of a request.
pub(crate) const HEADERS: usize = 64;
/// Bytes of the headers of a request.
pub(crate) const HEADER_BYTES: usize = 32 << 10;
/// Bytes of the headers of an answer.
pub(crate) const ANSWERED_HEADER_BYTES: usize = 64 << 10;
/// Bytes of the body of an answer.
pub(crate) const ANSWER_BYTES: usize = 1 << 20;
/// Bytes of an object that a sink may read.
pub(crate) const OBJECT_BYTES: u64 = 8 << 20;
/// Paths that a sink may list.
pub(crate) const PATHS: usize = 10_000;
/// The longest rest that a plugin may ask for.
pub(crate) const LONGEST_REST: Duration = Duration::from_mins(5);
/// How long a plugin rests that failed so often in a row.
pub(crate) const DISABLED: Duration = Duration::from_mins(10);
/// So often.
pub(crate) const FAILURES: u32 = 5;
/// When a component is compiled again that could not be compiled for no fault of its own.
pub(crate) const COMPILE_REST: Duration = Duration::from_mins(5);
/// How many times what it had after its start an instance may have, before it is made anew.
pub(crate) const GROWTH: usize = 4;
/// Bytes of a component.
pub(crate) const COMPONENT_BYTES: u64 = 128 << 20;

const TABLE_ELEMENTS: usize = 100_000;
/// Core instances, tables and memories; a component has several.
const PARTS: usize = 64;

/// Counts the memory of one store.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What all linear memories may have together, bytes.
    pub(crate) cap: usize,
    /// Whether the guest once wanted more.
    pub(crate) refused: bool,
    /// What they have, bytes.
    pub(crate) used: usize,
}

impl Memory {
    pub(crate) fn new(cap: u64) -> Self {
        Self {
            cap: usize::try_from(cap).unwrap_or(usize::MAX),
            refused: false,
            used: 0,
        }
    }

    /// Whether so much is used that the next call may well go over.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.refused || self.used > self.cap / 4 * 3
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.used.saturating_sub(current).saturating_add(desired);
        if total > self.cap {
            // The guest sees a failed allocation and may say so itself.
            self.refused = true;
            return Ok(false);
        }
        self.used = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS)
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memories_of_a_component_count_together() {
        let mut memory = Memory::new(100);
        let grown = [(0, 40), (0, 40), (40, 60), (40, 61)]
            .map(|(from, to)| memory.memory_growing(from, to, None).unwrap());
        assert_eq!(grown, [true, true, true, false]);
        assert_eq!((memory.used, memory.refused), (100, true));
    }
}
