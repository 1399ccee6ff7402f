//! Futexes: which word a thread waits for, from its call, and who holds it, from the word (`linux/futex.h`).

use std::collections::BTreeSet;

use model::{FutexOwnerSource, Thread};
use serde::{Deserialize, Serialize};

use crate::call::{argument, narrow_argument};

const PRIVATE: u32 = 128;
const CLOCK_REALTIME: u32 = 256;
/// The size of a `struct futex_waitv`.
pub(crate) const WAITED_BYTES: usize = 24;
/// The operation of those that `futex_waitv` waits for: the first of them to be woken ends it.
const VECTOR: &str = "waitv";
const TID: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;
/// What glibc puts into the word of an ordinary mutex that others wait for.
const LOCKED_WITH_WAITERS: u32 = 2;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) address: u64,
    pub(super) expected: Option<u32>,
    pub(super) operation: &'static str,
    pub(super) private: bool,
}

/// What was read at the address of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Words {
    pub(crate) value: u32,
    /// The number eight bytes further on: if it is a mutex of glibc, the TID of its owner.
    pub(crate) third: Option<u32>,
}

/// Returns the futex that `thread` waits for. The several of a `futex_waitv` are in its memory: see [`waited`].
pub(super) fn wait_of(thread: &Thread) -> Option<Wait> {
    let (flags, operation, expected) = match thread.call.as_ref()?.name.as_str() {
        "futex" | "futex_time64" => {
            let flags = narrow_argument(thread, 1)?;
            let (operation, expects) = match flags & !(PRIVATE | CLOCK_REALTIME) {
                0 => ("wait", true),
                6 => ("lock_pi", false),
                9 => ("wait_bitset", true),
                11 => ("wait_requeue_pi", true),
                13 => ("lock_pi2", false),
                _ => return None,
            };
            let expected = narrow_argument(thread, 2)?;
            (flags, operation, expects.then_some(expected))
        }
        // The word, its value, which wakers count, flags.
        "futex_wait" => {
            let expected = narrow_argument(thread, 1)?;
            (narrow_argument(thread, 3)?, "wait", Some(expected))
        }
        _ => return None,
    };
    Some(Wait {
        address: argument(thread, 0)?,
        expected,
        operation,
        private: flags & PRIVATE != 0,
    })
}

/// Returns the futexes in `struct futex_waitv` (64 bits that are expected, of which a word of 32 bits has the lower ones; the
/// address; flags; nothing), which are the same of 32-bit programs.
pub(crate) fn waited(bytes: &[u8]) -> Vec<Wait> {
    let entries = bytes.chunks_exact(WAITED_BYTES);
    let word = |entry: &[u8], at: usize| {
        let bytes = entry.get(at..at + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let waits = entries.filter_map(|entry| {
        let flags = u32::from_ne_bytes(entry.get(16..20)?.try_into().ok()?);
        Some(Wait {
            address: word(entry, 8)?,
            expected: u32::try_from(word(entry, 0)? & u64::from(u32::MAX)).ok(),
            operation: VECTOR,
            private: flags & PRIVATE != 0,
        })
    });
    waits.collect()
}

/// Returns the TID of the owner, where the lock keeps one. `threads` are those of the process, `all` those of the task.
pub(super) fn owner(
    wait: &Wait,
    words: Words,
    threads: &BTreeSet<i32>,
    all: &BTreeSet<i32>,
) -> Option<(i32, FutexOwnerSource)> {
    let tid = i32::try_from(words.value & TID).ok().filter(|&tid| tid > 0);
    if wait.operation.starts_with("lock_pi") {
        return Some((tid?, FutexOwnerSource::PiWord));
    }
    if words.value & WAITERS != 0 {
        return Some((
            tid.filter(|tid| all.contains(tid))?,
            FutexOwnerSource::RobustWord,
        ));
    }
    let is_mutex = words.value == LOCKED_WITH_WAITERS && wait.expected == Some(LOCKED_WITH_WAITERS);
    let third = words.third.filter(|_| is_mutex)?;
    let candidates = if wait.private { threads } else { all };
    let owner = i32::try_from(third).ok()?;
    candidates
        .contains(&owner)
        .then_some((owner, FutexOwnerSource::MutexField))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SystemCall;
    use proptest::prelude::*;

    fn wait(operation: &'static str, expected: Option<u32>) -> Wait {
        Wait {
            address: 0x7f00_0000_1000,
            expected,
            operation,
            private: true,
        }
    }

    fn wait_of(name: &str, line: &str) -> Option<Wait> {
        let name = name.to_owned();
        super::wait_of(&Thread {
            call: Some(SystemCall {
                name,
                ..SystemCall::default()
            }),
            syscall: Some(line.to_owned()),
            ..Thread::default()
        })
    }

    #[test]
    fn the_kernels_text_of_a_wait_is_read() {
        let real = "202 0x7f1c2c001000 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd1e2c4b10 0x7f1c2f8a1f8e";
        let expected = Wait {
            address: 0x7f1c_2c00_1000,
            ..wait("wait_bitset", Some(0))
        };
        assert_eq!(wait_of("futex", real), Some(expected));
        let lock = wait_of("futex", "202 0x10 0x86 0x0 0x0 0x0 0x0 0x1 0x2").unwrap();
        assert_eq!((lock.operation, lock.expected), ("lock_pi", None));
        let high = "202 0x10 0x0 0xffffffff80000005 0x0 0x0 0x0 0x1 0x2";
        let high = wait_of("futex", high).unwrap();
        assert_eq!((high.expected, high.private), (Some(0x8000_0005), false));
    }

    #[test]
    fn other_calls_for_the_same_have_their_arguments_elsewhere() {
        let narrow = "422 0x804b000 0x80 0x2 0x0 0x0 0xff86375c 0xff863740 0x804901d";
        let narrow = wait_of("futex_time64", narrow).unwrap();
        assert_eq!((narrow.address, narrow.expected), (0x0804_b000, Some(2)));
        let new = wait_of("futex_wait", "455 0x10 0x2 0xffffffff 0x82 0x0 0x1").unwrap();
        let expected = Wait {
            address: 0x10,
            ..wait("wait", Some(2))
        };
        assert_eq!(new, expected);
    }

    #[test]
    fn each_word_of_a_vector_is_one_that_is_waited_for() {
        let mut bytes = Vec::new();
        for (expected, address, flags) in [(2_u64, 0x7f10_u64, 0x82_u32), (u64::MAX, 0x10, 2)] {
            bytes.extend(expected.to_ne_bytes());
            bytes.extend(address.to_ne_bytes());
            bytes.extend(flags.to_ne_bytes());
            bytes.extend([0; 4]);
        }
        bytes.push(1);
        let waits = waited(&bytes);
        let of = |wait: &Wait| (wait.address, wait.expected, wait.private);
        let expected = [(0x7f10, Some(2), true), (0x10, Some(u32::MAX), false)];
        assert_eq!(waits.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(waits[0].operation, "waitv");
    }

    #[test]
    fn what_is_no_wait_for_a_futex_is_left_out() {
        let wake = "202 0x10 0x81 0x1 0x0 0x0 0x0 0x1 0x2";
        for text in ["running", wake, "202 0x10", "202 x y z", ""] {
            assert_eq!(wait_of("futex", text), None, "{text}");
        }
        assert_eq!(wait_of("read", "0 0x0 0x0 0x0"), None);
        assert_eq!(super::wait_of(&Thread::default()), None);
    }

    #[test]
    fn an_owner_is_named_only_where_the_lock_keeps_one() {
        let threads = BTreeSet::from([7, 8]);
        let all = BTreeSet::from([7, 8, 9]);
        let of = |wait: Wait, value, third| owner(&wait, Words { value, third }, &threads, &all);
        let (owner, stranger) = (4711, 10);
        let pi = FutexOwnerSource::PiWord;
        assert_eq!(
            of(wait("lock_pi", None), WAITERS | owner, None),
            Some((4711, pi))
        );
        let robust = Some((9, FutexOwnerSource::RobustWord));
        assert_eq!(
            of(wait("wait", Some(WAITERS | 9)), WAITERS | 9, None),
            robust
        );
        assert_eq!(
            of(
                wait("wait", Some(WAITERS | stranger)),
                WAITERS | stranger,
                None
            ),
            None
        );
        let mutex = wait("wait", Some(2));
        let field = Some((8, FutexOwnerSource::MutexField));
        assert_eq!(of(mutex, 2, Some(8)), field);
        assert_eq!(of(mutex, 2, Some(9)), None, "of another process");
        let shared = Wait {
            private: false,
            ..mutex
        };
        assert!(of(shared, 2, Some(9)).is_some());
        assert_eq!(of(mutex, 0, Some(8)), None, "it was let go since");
        // A semaphore: 0, and whatever stands behind it.
        assert_eq!(of(wait("wait_bitset", Some(0)), 0, Some(8)), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "202 (0x[0-9a-f]{0,20} ?){0,6}") {
            let _ = wait_of("futex", &text);
        }
    }
}
