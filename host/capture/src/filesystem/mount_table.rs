//! `/proc/PID/mountinfo`: which file system a path of a process is on.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::BufReader;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

/// File systems of the machine itself: who asks one of them waits for no server.
const LOCAL: [&str; 8] = [
    "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs",
];
/// So many are asked.
const MOST: usize = 32;

/// The mounts that a process sees.
#[derive(Debug, Default)]
pub(super) struct MountTable(Vec<MountInfo>);

impl MountTable {
    /// Reads those of the process in `directory`; none where that cannot be read.
    pub(super) fn read(directory: &Path) -> Self {
        let file = fs::File::open(directory.join("mountinfo")).ok();
        let infos = file.and_then(|file| MountInfos::from_buf_read(BufReader::new(file)).ok());
        let mut mounts = infos.map(|infos| infos.0).unwrap_or_default();
        for mount in &mut mounts {
            mount.mount_point = unescaped(&mount.mount_point);
        }
        Self(mounts)
    }

    /// Returns where the local file systems are mounted that may be written to, each once; of very many the first.
    pub(super) fn writable(&self) -> impl Iterator<Item = &Path> {
        let mut seen = BTreeSet::new();
        let is_local = |mount: &&MountInfo| LOCAL.contains(&mount.fs_type.as_str());
        let is_writable = |mount: &&MountInfo| {
            let options = [&mount.mount_options, &mount.super_options];
            options.iter().all(|options| !options.contains_key("ro"))
        };
        let mounts = self.0.iter().filter(is_local).filter(is_writable);
        let mounts = mounts.filter(move |mount| seen.insert(mount.majmin.clone()));
        mounts.take(MOST).map(|mount| mount.mount_point.as_path())
    }

    /// Returns the mount that `path`, which has no links in it, is on: walks down as the kernel does, so that a mount
    /// covers what was mounted below its place before.
    pub(super) fn of(&self, path: &Path) -> Option<&MountInfo> {
        let around = |mount: &&MountInfo| path.starts_with(&mount.mount_point);
        let depth = |mount: &&MountInfo| mount.mount_point.components().count();
        let is_top = |mount: &&MountInfo| {
            let mut others = self.0.iter().filter(|other| other.mnt_id != mount.mnt_id);
            !others.any(|other| other.mnt_id == mount.pid)
        };
        let mut current = self.0.iter().filter(around).find(is_top)?;
        for _ in &self.0 {
            let below = self
                .0
                .iter()
                .filter(|mount| mount.pid == current.mnt_id && mount.mnt_id != current.mnt_id);
            match below.filter(around).min_by_key(depth) {
                Some(next) => current = next,
                None => break,
            }
        }
        Some(current)
    }
}

/// Returns the path that the kernel wrote with `\040` for a space, and so for tabs, newlines and backslashes.
fn unescaped(path: &Path) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    while let Some((&first, rest)) = bytes.split_first() {
        let octal = (first == b'\\').then(|| rest.get(..3)).flatten();
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(octal.unwrap_or(first));
        bytes = if octal.is_some() { &rest[3..] } else { rest };
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
25 27 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw
30 25 0:27 / /dev/shm rw,relatime - tmpfs later rw
41 27 0:51 / /data rw - ext4 covered rw
42 41 0:52 / /data/old rw - ext4 hidden rw
43 41 0:53 / /data rw - xfs covering rw
40 27 0:50 / /mnt/with\\040space rw,relatime shared:1 - fuse.sshfs host:/data rw
";

    fn table() -> MountTable {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("mountinfo"), MOUNTS).unwrap();
        MountTable::read(directory.path())
    }

    #[test]
    fn a_path_is_on_the_mount_that_is_nearest_and_newest() {
        let table = table();
        let source = |path: &str| table.of(Path::new(path)).unwrap().mount_source.clone();
        assert_eq!(source("/dev/shm").as_deref(), Some("later"));
        assert_eq!(source("/dev/shmem").as_deref(), Some("/dev/vda"));
        assert_eq!(source("/data/old/a").as_deref(), Some("covering"));
        let spaced = table.of(Path::new("/mnt/with space/a")).unwrap();
        assert_eq!(spaced.fs_type, "fuse.sshfs");
    }

    #[test]
    fn local_file_systems_that_may_be_written_to_are_there_once() {
        let directory = tempfile::tempdir().unwrap();
        let mounts = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 254:0 /a /bound rw,relatime - ext4 /dev/vda rw
29 27 0:31 / /image ro,relatime - squashfs image ro
30 27 0:32 / /read ro,relatime - ext4 /dev/vdb ro
31 27 0:33 / /scratch rw,relatime - tmpfs scratch rw,size=4k
32 27 0:34 / /far rw,relatime - nfs4 server:/far rw
";
        fs::write(directory.path().join("mountinfo"), mounts).unwrap();
        let table = MountTable::read(directory.path());
        let found: Vec<&Path> = table.writable().collect();
        assert_eq!(found, [Path::new("/"), Path::new("/scratch")]);
    }

    #[test]
    fn without_a_table_nothing_is_known() {
        let table = MountTable::read(Path::new("/nowhere"));
        assert!(table.of(Path::new("/")).is_none());
    }
}
