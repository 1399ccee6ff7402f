//! `/proc/PID/mountinfo`: which file system a path of a process is on.

use std::ffi::OsString;
use std::fs;
use std::io::BufReader;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

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
    fn without_a_table_nothing_is_known() {
        let table = MountTable::read(Path::new("/nowhere"));
        assert!(table.of(Path::new("/")).is_none());
    }
}
