//! Futexes: which word a thread waits for, from its `syscall` text, and who holds it, from the word (`linux/futex.h`).

use std::collections::BTreeSet;

use model::FutexOwnerSource;
use serde::{Deserialize, Serialize};

/// The number of the system call `futex` on this machine; 32-bit programs have others and are left out.
const NUMBER: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("202")
} else if cfg!(target_arch = "aarch64") {
    Some("98")
} else {
    None
};

const PRIVATE: u64 = 128;
const CLOCK_REALTIME: u64 = 256;
const TID: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;
/// What glibc puts into the word of an ordinary mutex that others wait for.
const LOCKED_WITH_WAITERS: u32 = 2;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) address: u64,
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

/// Returns the futex that a thread with this `syscall` text waits for.
pub(super) fn wait_of(syscall: &str) -> Option<Wait> {
    let mut fields = syscall.split(' ');
    if fields.next() != NUMBER {
        return None;
    }
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (address, operation, value) = (argument()?, argument()?, argument()?);
    let private = operation & PRIVATE != 0;
    let (operation, expects) = match operation & !(PRIVATE | CLOCK_REALTIME) {
        0 => ("wait", true),
        6 => ("lock_pi", false),
        9 => ("wait_bitset", true),
        11 => ("wait_requeue_pi", true),
        13 => ("lock_pi2", false),
        _ => return None,
    };
    // An argument of 32 bits comes in a register of 64.
    let expected = u32::try_from(value & u64::from(u32::MAX)).ok();
    Some(Wait {
        address,
        expected: expected.filter(|_| expects),
        operation,
        private,
    })
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
    use proptest::prelude::*;

    fn wait(operation: &'static str, expected: Option<u32>) -> Wait {
        Wait {
            address: 0x7f00_0000_1000,
            expected,
            operation,
            private: true,
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_kernels_text_of_a_wait_is_read() {
        let real = "202 0x7f1c2c001000 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd1e2c4b10 0x7f1c2f8a1f8e";
        let expected = Wait {
            address: 0x7f1c_2c00_1000,
            ..wait("wait_bitset", Some(0))
        };
        assert_eq!(wait_of(real), Some(expected));
        let lock = wait_of("202 0x10 0x86 0x0 0x0 0x0 0x0 0x1 0x2").unwrap();
        assert_eq!((lock.operation, lock.expected), ("lock_pi", None));
        let high = wait_of("202 0x10 0x0 0xffffffff80000005 0x0 0x0 0x0 0x1 0x2").unwrap();
        assert_eq!((high.expected, high.private), (Some(0x8000_0005), false));
    }

    #[test]
    fn what_is_no_wait_for_a_futex_is_left_out() {
        let wake = "202 0x10 0x81 0x1 0x0 0x0 0x0 0x1 0x2";
        for text in [
            "running",
            "-1 0x1 0x2",
            "0 0x0 0x0 0x0",
            wake,
            "202 0x10",
            "202 x y z",
            "",
        ] {
            assert_eq!(wait_of(text), None, "{text}");
        }
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
            let _ = wait_of(&text);
        }
    }
}
