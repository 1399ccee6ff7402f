//! Which mounts are of file systems of this machine, from `/proc/PID/mountinfo`: others can keep one waiting.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use crate::proc::Reader;
use crate::proc::reader::open_process;

const LOCAL: [&str; 10] = [
    "btrfs", "devtmpfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs",
];

/// More than this of the file is not read.
const LIMIT: usize = 1 << 20;

/// The mounts that were asked about, by number; a number is of one mount in all namespaces.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    known: BTreeMap<u64, bool>,
}

impl Mounts {
    /// Whether the mount `id`, in which the process `pid` has a file open, is of a file system of this machine.
    pub(super) fn is_local(&mut self, proc: &Path, pid: i32, id: u64, reader: &mut Reader) -> bool {
        if !self.known.contains_key(&id)
            && let Ok(directory) = open_process(proc, pid)
            && let Ok((content, _)) = reader.read_up_to(directory.as_fd(), "mountinfo", LIMIT)
        {
            self.known.extend(parse(&String::from_utf8_lossy(content)));
        }
        *self.known.entry(id).or_insert(false)
    }
}

/// A line is `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS`.
fn parse(text: &str) -> impl Iterator<Item = (u64, bool)> {
    text.lines().filter_map(|line| {
        let id = line.split(' ').next()?.parse().ok()?;
        let (_, kind) = line.split_once(" - ")?;
        let kind = kind.split(' ').next()?;
        Some((id, LOCAL.contains(&kind)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_of_this_machine_are_local() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext4 /dev/root rw\n37 35 0:50 / /data rw - nfs4 server:/ rw\n38 35 0:51 / /x rw - fuse.sshfs a rw\nodd\n";
        let mounts: BTreeMap<_, _> = parse(text).collect();
        assert_eq!(
            mounts,
            BTreeMap::from([(36, true), (37, false), (38, false)])
        );
    }
}
