//! Pipes and sockets that processes of the task hold.

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The `ipc` object of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipc {
    /// Every pipe and socket that a watched process holds, sorted by target.
    pub endpoints: Vec<Endpoint>,
}

/// One pipe or socket and who holds a descriptor of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// In the order of processes, then of descriptors.
    pub owners: Vec<Owner>,
    /// `pipe:[INODE]` or `socket:[INODE]`, the link text of `/proc/PID/fd/FD`.
    pub target: String,
}

/// One descriptor of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The descriptor number, as text (schema 1.0).
    pub fd: String,
    /// The process.
    pub identity: ProcessId,
    /// Its PID.
    pub pid: i32,
}
