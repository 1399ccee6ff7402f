//! A file system that matters to the task, and how full it is.

use serde::{Deserialize, Serialize};

/// One place of the task, and the file system that holds it, by statvfs(3) and `/proc/PID/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Room for a user without rights: `f_bavail` times `f_frsize`. This and the other numbers are absent where the
    /// file system did not answer, and a gap says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_available: Option<u64>,
    /// Free, what is reserved for root included: `f_bfree` times `f_frsize`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_free: Option<u64>,
    /// `f_blocks` times `f_frsize`; 0 where the file system has no size, such as an unlimited tmpfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// `f_ffree`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// `f_files`; 0 where the file system makes inodes as it needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes_total: Option<u64>,
    /// Whether writes are refused: `f_flag`, `ST_RDONLY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_read_only: Option<bool>,
    /// Where it is mounted, as the task sees it: `mountinfo`, fifth field. This, `source` and `type` are absent where the
    /// path is not below a mount that `mountinfo` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// The path that was asked, as the task sees it.
    pub path: String,
    /// What the task uses it for.
    pub purpose: MountPurpose,
    /// The device, server or name that is mounted: `mountinfo`, the field after the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The type of the file system, such as `ext4` or `fuse.sshfs`: `mountinfo`, the field after the hyphen.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// What a task uses a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountPurpose {
    /// `/dev/shm`.
    SharedMemory,
    /// The working directory of the main process.
    WorkingDirectory,
    /// Its temporary files: `TMPDIR` where that is known, else `/tmp`.
    Temporary,
    /// Our own spool.
    Spool,
    /// Another file system that the main process may write to, where no room or no inode is left on it. So is read what a later
    /// version says.
    #[serde(other)]
    Elsewhere,
}
