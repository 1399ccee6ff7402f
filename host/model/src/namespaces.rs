//! Which namespaces processes live in: `namespaces[]` of a snapshot.

use serde::{Deserialize, Serialize};

/// One distinct set of namespaces; processes name it by its index. A number is the inode in the link `/proc/PID/ns/NAME`
/// (kernel: `fs/nsfs.c`): equal numbers, same namespace. Absent: this kernel has no such namespace, or the process was ending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSet {
    /// The cgroup namespace: what it sees as the root of its cgroup paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<u64>,
    /// The IPC namespace: System V objects and POSIX message queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc: Option<u64>,
    /// The mount namespace: which files are where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mnt: Option<u64>,
    /// The network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<u64>,
    /// Whether these are the collector's own, as far as both are known.
    pub ours: bool,
    /// The PID namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// The user namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// The UTS namespace: host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uts: Option<u64>,
}
