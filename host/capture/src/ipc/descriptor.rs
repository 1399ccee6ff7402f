//! What the `fdinfo` of a descriptor says about it: access, inode, mount, counters, locks.

use model::{FileDescriptor, Owner, PipeEnd, Process};

const ACCESS_MODE: u64 = 0o3;
const WRITE_ONLY: u64 = 0o1;
const READ_WRITE: u64 = 0o2;
const DIRECTORY: u64 = 0o200_000;
const PATH_ONLY: u64 = 0o10_000_000;

/// Returns the number behind a link text such as `pipe:[51628]`.
pub(crate) fn inode_of(target: &str, kind: &str) -> Option<u64> {
    let number = target.strip_prefix(kind)?.strip_prefix(":[")?;
    number.strip_suffix(']')?.parse().ok()
}

/// Returns which end of a pipe the descriptor is, if its flags are known.
pub(super) fn end(descriptor: &FileDescriptor) -> Option<PipeEnd> {
    Some(match flags(descriptor)? & ACCESS_MODE {
        0 => PipeEnd::Read,
        WRITE_ONLY => PipeEnd::Write,
        READ_WRITE => PipeEnd::Both,
        _ => return None,
    })
}

/// Whether it can be of a FIFO: a name outside `/dev` and `/proc`, nothing read or written at a position, no directory.
pub(super) fn may_be_fifo(descriptor: &FileDescriptor) -> bool {
    let is_named = descriptor.target.starts_with('/')
        && !["/dev/", "/proc/", "/sys/", "/memfd:"]
            .iter()
            .any(|prefix| descriptor.target.starts_with(prefix));
    is_named
        && number(descriptor, "pos") == Some(0)
        && flags(descriptor).is_some_and(|flags| flags & (DIRECTORY | PATH_ONLY) == 0)
}

/// Whether it is of a file in memory.
pub(super) fn is_shared_file(target: &str) -> bool {
    target.starts_with("/memfd:") || target.starts_with("/dev/shm/")
}

/// Returns the decimal number under `key` of its `fdinfo`.
pub(super) fn number(descriptor: &FileDescriptor, key: &str) -> Option<u64> {
    descriptor.info.as_ref()?.get(key)?.parse().ok()
}

/// Returns the text under `key` of its `fdinfo`.
pub(super) fn text<'a>(descriptor: &'a FileDescriptor, key: &str) -> Option<&'a str> {
    descriptor.info.as_ref()?.get(key).map(String::as_str)
}

/// Returns the holder of a descriptor of `process`.
pub(super) fn owner(process: &Process, descriptor: &FileDescriptor, end: Option<PipeEnd>) -> Owner {
    Owner {
        end,
        fd: descriptor.fd.clone(),
        identity: process.identity,
        pid: process.pid,
    }
}

fn flags(descriptor: &FileDescriptor) -> Option<u64> {
    let octal = text(descriptor, "flags")?;
    u64::from_str_radix(octal, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn descriptor(target: &str, flags: &str, pos: &str) -> FileDescriptor {
        let info = [("flags", flags), ("pos", pos)];
        let info = info.map(|(key, value)| (key.to_owned(), value.to_owned()));
        FileDescriptor {
            fd: "3".to_owned(),
            info: Some(BTreeMap::from(info)),
            target: target.to_owned(),
        }
    }

    #[test]
    fn ends_are_told_by_the_access_mode_alone() {
        let end_of = |flags| end(&descriptor("pipe:[1]", flags, "0"));
        assert_eq!(end_of("00"), Some(PipeEnd::Read));
        assert_eq!(end_of("02000001"), Some(PipeEnd::Write));
        assert_eq!(end_of("04002"), Some(PipeEnd::Both));
        assert_eq!(end_of("03"), None);
        assert_eq!(end_of("odd"), None);
    }

    #[test]
    fn inodes_are_read_from_link_texts_of_their_kind_only() {
        assert_eq!(inode_of("pipe:[51628]", "pipe"), Some(51628));
        assert_eq!(inode_of("socket:[51628]", "pipe"), None);
        assert_eq!(inode_of("pipe:[x]", "pipe"), None);
        assert_eq!(inode_of("/tmp/pipe:[1]", "pipe"), None);
    }

    #[test]
    fn only_names_that_can_be_a_fifo_are_asked_about() {
        assert!(may_be_fifo(&descriptor("/tmp/fifo", "0100001", "0")));
        assert!(!may_be_fifo(&descriptor("/tmp/file", "0100001", "17")));
        assert!(!may_be_fifo(&descriptor("/tmp", "0300000", "0")));
        assert!(!may_be_fifo(&descriptor("/dev/null", "02", "0")));
        assert!(!may_be_fifo(&descriptor("pipe:[1]", "01", "0")));
    }
}
