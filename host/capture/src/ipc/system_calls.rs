//! Which calls that threads wait in are about file locks and System V objects, by their names: numbers differ from one kind of
//! program to the next.

use model::{SysvKind, Thread};

use crate::call::narrow_argument;

/// The one call of 32-bit x86 for all of System V: what it is to do is its first argument, the object its second
/// (`linux/ipc.h`).
const SEMAPHORES: [u32; 2] = [1, 4];
const MESSAGES: [u32; 2] = [11, 12];

/// Whether `thread` may wait for a file lock.
pub(super) fn locks_a_file(thread: &Thread) -> bool {
    let call = thread.call.as_ref();
    call.is_some_and(|call| matches!(call.name.as_str(), "fcntl" | "fcntl64" | "flock"))
}

/// Returns the System V object that `thread` waits for.
pub(super) fn sysv_object(thread: &Thread) -> Option<(SysvKind, i64)> {
    let (kind, at) = match thread.call.as_ref()?.name.as_str() {
        "msgrcv" | "msgsnd" => (SysvKind::Messages, 0),
        "semop" | "semtimedop" | "semtimedop_time64" => (SysvKind::Semaphores, 0),
        // Above is a version.
        "ipc" => match narrow_argument(thread, 0)? & 0xffff {
            wish if SEMAPHORES.contains(&wish) => (SysvKind::Semaphores, 1),
            wish if MESSAGES.contains(&wish) => (SysvKind::Messages, 1),
            _ => return None,
        },
        _ => return None,
    };
    Some((kind, narrow_argument(thread, at)?.into()))
}

#[cfg(test)]
mod tests {
    use model::SystemCall;

    use super::*;

    fn thread(name: &str, line: &str) -> Thread {
        let name = name.to_owned();
        Thread {
            call: Some(SystemCall {
                name,
                ..SystemCall::default()
            }),
            syscall: Some(line.to_owned()),
            ..Thread::default()
        }
    }

    #[test]
    fn waits_are_told_by_the_name_of_the_call() {
        assert!(locks_a_file(&thread("flock", "73 0x3 0x2")));
        assert!(locks_a_file(&thread("fcntl64", "221 0x3 0x7 0xff80")));
        assert!(!locks_a_file(&thread("read", "3 0x3 0x2")));
        assert!(!locks_a_file(&Thread::default()));
    }

    #[test]
    fn an_object_is_where_its_call_has_it() {
        let object = |name: &str, line: &str| sysv_object(&thread(name, line));
        let (semaphores, messages) = (SysvKind::Semaphores, SysvKind::Messages);
        assert_eq!(object("semop", "65 0x8 0x7ffd 0x1"), Some((semaphores, 8)));
        assert_eq!(object("msgrcv", "401 0x5 0xff80"), Some((messages, 5)));
        assert_eq!(object("ipc", "117 0x10001 0x9 0x1"), Some((semaphores, 9)));
        assert_eq!(object("ipc", "117 0xc 0x9 0x1"), Some((messages, 9)));
        assert_eq!(
            object("ipc", "117 0x15 0x9 0x1"),
            None,
            "it attaches a segment"
        );
        assert_eq!(object("semop", "65"), None);
        assert_eq!(object("read", "0 0x8"), None);
    }
}
