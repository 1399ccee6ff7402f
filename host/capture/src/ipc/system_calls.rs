//! Which waits in the kernel's `syscall` text are about file locks and System V objects, by the numbers of this machine.

use model::SysvKind;

struct Numbers {
    locking: &'static [u16],
    messages: &'static [u16],
    semaphores: &'static [u16],
}

/// `fcntl` and `flock`; `msgrcv` and `msgsnd`; `semop` and `semtimedop`.
const NUMBERS: Numbers = if cfg!(target_arch = "x86_64") {
    Numbers {
        locking: &[72, 73],
        messages: &[69, 70],
        semaphores: &[65, 220],
    }
} else if cfg!(target_arch = "aarch64") {
    Numbers {
        locking: &[25, 32],
        messages: &[188, 189],
        semaphores: &[192, 193],
    }
} else {
    Numbers {
        locking: &[],
        messages: &[],
        semaphores: &[],
    }
};

/// Whether a thread with this text may wait for a file lock.
pub(super) fn locks_a_file(syscall: &str) -> bool {
    parts(syscall).is_some_and(|(number, _)| NUMBERS.locking.contains(&number))
}

/// Returns the System V object that a thread with this text waits for.
pub(super) fn sysv_object(syscall: &str) -> Option<(SysvKind, i64)> {
    let (number, first) = parts(syscall)?;
    let kind = match number {
        _ if NUMBERS.messages.contains(&number) => SysvKind::Messages,
        _ if NUMBERS.semaphores.contains(&number) => SysvKind::Semaphores,
        _ => return None,
    };
    Some((kind, first))
}

/// The number and the first argument.
fn parts(syscall: &str) -> Option<(u16, i64)> {
    let mut fields = syscall.split(' ');
    let number = fields.next()?.parse().ok()?;
    let first = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    // An int in a register of 64 bits.
    let first = u32::try_from(first & u64::from(u32::MAX)).ok()?;
    Some((number, i64::from(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn waits_are_told_by_number() {
        assert!(locks_a_file("73 0x3 0x2 0x0 0x0 0x0 0x0 0x1 0x2"));
        assert!(!locks_a_file("730 0x3 0x2"));
        assert!(!locks_a_file("running"));
        assert_eq!(
            sysv_object("65 0x8 0x7ffd 0x1 0x0 0x0 0x0 0x1 0x2"),
            Some((SysvKind::Semaphores, 8))
        );
        assert_eq!(sysv_object("0 0x8"), None);
    }
}
