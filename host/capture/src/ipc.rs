//! The `ipc` object of a snapshot: what connects processes with each other and with the outside.
//!
//! Facts only, so that a reader can follow them: who holds which end, what waits in it, who is at the other end, who
//! holds a lock and who waits for it. Nobody is stopped and nothing is written; what can block is in `crate::memory`, and of
//! descriptors in `probe`.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use model::{Gap, Ipc, Process, ProcessId};
use rustix::process::getpid;

use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::Reader;

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

mod descriptor;
mod endpoints;

mod mounts;
mod namespace;
mod probe;
mod survey;

mod futex;
mod futexes;

mod datagrams;
mod netlink;
mod sockets;
mod tcp;
mod unix;

mod arguments;
mod locks;
mod mappings;
mod shared;
mod system_calls;
mod sysv;

pub(crate) use arguments::{
    Argument, ArgumentRequest, Kind as ArgumentKind, POLLED_BYTES, polled, selected,
};
pub(crate) use descriptor::inode_of;
pub(crate) use futex::{WAITED_BYTES, Words, waited};
pub(crate) use mappings::{Mapping, parse as parse_mappings};
pub(crate) use tcp::listening;

/// What is remembered between captures.
#[derive(Debug, Default)]
pub(crate) struct IpcReader {
    is_local: OnceLock<bool>,
    /// What `maps` said, with the `RssShmem` and the program of then: while those stay, it is believed.
    mappings: Mutex<BTreeMap<ProcessId, (survey::MapsKey, Vec<mappings::Mapping>)>>,
    offered: sockets::Offered,
    prober: probe::Prober,
}

/// Returns what connects `processes`, and puts to the calls of their threads the path that each is about. Adds to `gaps` those of processes, to `machine_gaps` all others.
pub(crate) fn read(
    machine: &Machine,
    processes: &mut [Process],
    reader: &mut Reader,
    gaps: &mut Vec<Gap>,
    machine_gaps: &mut GapList,
) -> Ipc {
    let is_local = *machine
        .ipc
        .is_local
        .get_or_init(|| numbers_processes_as_we_do(machine, reader));
    let mut waits = futexes::waits(processes, machine_gaps);
    let mut endpoints = endpoints::pipes_and_sockets(processes);
    let mut survey = if is_local {
        survey::survey(machine, processes, &endpoints, &waits, reader, gaps)
    } else {
        survey::Survey::default()
    };
    futexes::add_vectors(&mut waits, &mut survey, machine_gaps);
    arguments::complete(processes, std::mem::take(&mut survey.arguments));
    endpoints::complete(&mut endpoints, processes, &survey);
    sockets::describe(machine, is_local, &mut endpoints, reader, machine_gaps);
    let (shared_memory, segments) = shared::read(processes, &survey);
    Ipc {
        endpoints,
        eventfds: endpoints::eventfds(processes),
        futexes: futexes::read(machine, processes, &waits, &survey),
        locks: locks::read(&machine.proc, processes, reader, machine_gaps),
        shared_memory,
        sysv: sysv::read(machine, processes, segments, reader, machine_gaps),
    }
}

/// Whether the proc root is that of our own PID namespace: only then its PIDs mean anything to the system calls.
fn numbers_processes_as_we_do(machine: &Machine, reader: &mut Reader) -> bool {
    if machine.own_pid() != Some(getpid().as_raw_nonzero().get()) {
        return false;
    }
    // Of a process in a namespace below that of the proc root the line has several numbers.
    let own = reader.read_path(&machine.proc.join("self/status"));
    own.is_ok_and(|content| {
        let text = String::from_utf8_lossy(content);
        let mut lines = text.lines();
        let numbers = lines.find_map(|line| line.strip_prefix("NSpid:"));
        numbers.is_none_or(|numbers| numbers.split_ascii_whitespace().count() == 1)
    })
}
