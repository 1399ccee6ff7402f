//! `/proc/PID/maps`: the files in memory and System V segments among the mappings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A file in memory that a process maps, all its mappings added up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    /// Of a System V segment this is its id.
    pub(crate) inode: u64,
    pub(crate) name: String,
}

/// Returns what is mapped of `/dev/shm`, memfds and System V segments.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Mapping> {
    let mut found = BTreeMap::<(&[u8], u64), u64>::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Some((name, inode, length)) = line_of(line) {
            *found.entry((name, inode)).or_default() += length;
        }
    }
    let mappings = found.into_iter().map(|((name, inode), bytes)| Mapping {
        bytes,
        inode,
        name: String::from_utf8_lossy(name).into_owned(),
    });
    mappings.collect()
}

/// A line is `START-END PERMISSIONS OFFSET DEVICE INODE   NAME`.
fn line_of(line: &[u8]) -> Option<(&[u8], u64, u64)> {
    // Most lines have no such name: they are not taken apart.
    let slash = line.iter().position(|&byte| byte == b'/')?;
    let (numbers, name) = line.split_at(slash);
    let wanted: [&[u8]; 3] = [b"/dev/shm/", b"/memfd:", b"/SYSV"];
    if !wanted.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let numbers = std::str::from_utf8(numbers).ok()?;
    let mut fields = numbers.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let inode = fields.nth(3)?.parse().ok()?;
    Some((name, inode, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &[u8] = b"55d0c8a00000-55d0c8a01000 r--p 00000000 fe:00 131 /usr/bin/python3.11\n7f0000000000-7f0000001000 rw-s 00000000 00:1a 5 /dev/shm/torch_1 x\n7f0000002000-7f0000004000 rw-s 00001000 00:1a 5 /dev/shm/torch_1 x\n7f0000005000-7f0000006000 rw-s 00000000 00:01 2048 /memfd:buf (deleted)\n7f0000007000-7f0000008000 rw-s 00000000 00:01 32769 /SYSV00000000 (deleted)\n7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\nodd /dev/shm/x\n";

    #[test]
    fn mappings_of_one_file_are_added_up() {
        let mapping = |name: &str, inode, bytes| Mapping {
            bytes,
            inode,
            name: name.to_owned(),
        };
        let expected = [
            mapping("/SYSV00000000 (deleted)", 32769, 4096),
            mapping("/dev/shm/torch_1 x", 5, 12288),
            mapping("/memfd:buf (deleted)", 2048, 4096),
        ];
        assert_eq!(parse(REAL), expected);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&[&bytes[..], b" /dev/shm/"].concat());
        }
    }
}
