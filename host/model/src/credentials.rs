//! As whom a process runs, and what it is barred from.

use serde::{Deserialize, Serialize};

/// Users, groups and restrictions of a process, from `/proc/PID/status` (kernel: `fs/proc/array.c`). Ids are those of
/// the user namespace of the collector; 65534 stands for one that it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Whether a core dump of it is allowed and others of its user may look into it (`prctl(PR_SET_DUMPABLE)`), told by
    /// the owner of the files in its `/proc/PID`. Absent where that does not tell, as for the processes of root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dumpable: Option<bool>,
    /// Second number of `Gid`.
    pub effective_gid: u32,
    /// Second number of `Uid`.
    pub effective_uid: u32,
    /// `NoNewPrivs`; absent before Linux 4.10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_new_privs: Option<bool>,
    /// First number of `Gid`.
    pub real_gid: u32,
    /// First number of `Uid`.
    pub real_uid: u32,
    /// `Seccomp`; absent where the kernel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<SeccompMode>,
}

/// How system calls are filtered, `seccomp(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeccompMode {
    /// Not at all.
    Off,
    /// Only read, write, exit and sigreturn.
    Strict,
    /// By a BPF program.
    Filter,
    /// A mode that we do not know.
    Unknown,
}
