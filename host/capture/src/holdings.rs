//! What a process that outlives its task keeps from others: devices, ports, and the pipes that somebody waits for. Links and two
//! files of the network are read, nothing that takes the lock of its memory.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use model::ProcessId;

use crate::ipc;
use crate::machine::Machine;
use crate::proc::reader::{open_process, read_link};
use crate::proc::{Reader, stat};

/// More descriptors of a process are not looked at.
const MOST: usize = 4096;

/// Devices that everybody has open and nobody waits for.
const COMMON: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/console",
    "/dev/fuse",
];

/// What a process keeps open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Devices such as `/dev/nvidia0`.
    pub devices: BTreeSet<String>,
    /// Whether its descriptors could be read, and all of them.
    pub is_whole: bool,
    /// Addresses that it listens at, such as `0.0.0.0:29500`.
    pub listens: BTreeSet<String>,
    /// Whether it has the standard output or error that we were started with, where that is a pipe: who reads it waits on.
    pub our_output: bool,
    /// Other pipes that it has open.
    pub pipes: usize,
}

/// Looks at what `process` keeps open; empty and not whole where we may not, or it is gone.
pub fn holdings(machine: &Machine, process: ProcessId) -> Holdings {
    let mut holdings = Holdings::default();
    let mut reader = Reader::new();
    let Ok(directory) = open_process(&machine.proc, process.pid) else {
        return holdings;
    };
    let stat = reader.read_record(directory.as_fd(), "stat");
    let is_it = stat
        .ok()
        .and_then(stat::parse)
        .is_some_and(|stat| stat.start_time_ticks == process.start_time_ticks);
    let Some((listed, numbers)) = reader
        .numbers(directory.as_fd(), "fd")
        .ok()
        .filter(|_| is_it)
    else {
        return holdings;
    };
    let ours = own_output(machine);
    let (mut pipes, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    for number in numbers.iter().take(MOST) {
        let Ok(target) = read_link(listed.as_fd(), &number.to_string()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        if let Some(inode) = ipc::inode_of(&target, "socket") {
            sockets.insert(inode);
        } else if target.starts_with("pipe:[") {
            holdings.our_output |= ours.contains(&target);
            pipes.insert(target);
        } else if is_device(&target) {
            holdings.devices.insert(target);
        }
    }
    holdings.is_whole = numbers.len() <= MOST;
    holdings.pipes = pipes.difference(&ours).count();
    if !sockets.is_empty() {
        for name in ["net/tcp", "net/tcp6"] {
            let content = reader.read(directory.as_fd(), name).unwrap_or_default();
            let wanted = |inode: u64| sockets.contains(&inode);
            holdings.listens.extend(ipc::listening(content, wanted));
        }
    }
    holdings
}

/// The links of our own standard output and error.
fn own_output(machine: &Machine) -> BTreeSet<String> {
    let link = |number: i32| {
        let link = std::fs::read_link(machine.proc.join(format!("self/fd/{number}"))).ok()?;
        Some(link.to_str()?.to_owned()).filter(|link| link.starts_with("pipe:["))
    };
    [1, 2].into_iter().filter_map(link).collect()
}

fn is_device(target: &str) -> bool {
    let is_common = COMMON.contains(&target)
        || target.starts_with("/dev/pts/")
        || target.starts_with("/dev/shm/")
        || target.ends_with(" (deleted)");
    target.starts_with("/dev/") && !is_common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_somebody_may_wait_for_are_told() {
        for device in [
            "/dev/nvidia0",
            "/dev/nvidiactl",
            "/dev/infiniband/uverbs0",
            "/dev/sda",
        ] {
            assert!(is_device(device), "{device}");
        }
        for other in [
            "/dev/null",
            "/dev/pts/3",
            "/dev/shm/x",
            "/tmp/dev/x",
            "socket:[3]",
        ] {
            assert!(!is_device(other), "{other}");
        }
    }
}
