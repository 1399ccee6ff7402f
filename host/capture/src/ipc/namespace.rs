//! Whether what a process numbers is what we number: TIDs in its memory, ids of System V objects.

use std::os::fd::AsFd;

use crate::machine::Machine;
use crate::proc::reader::{open_process, read_link};

/// Whether the process lives in our own namespace of the kind `name`, such as `pid`. Of a recorded machine, where we do
/// not live, every process counts as one that does.
pub(super) fn is_ours(machine: &Machine, pid: i32, name: &str) -> bool {
    let link = |pid| {
        let directory = open_process(&machine.proc, pid).ok()?;
        read_link(directory.as_fd(), &format!("ns/{name}")).ok()
    };
    let Some(own) = machine.own_pid() else {
        return true;
    };
    let ours = link(own);
    ours.is_some() && ours == link(pid)
}
