//! What of the memory of a process connects it with others: words of futexes, arguments of calls, and files in memory that
//! it maps.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use model::ProcessId;
use rustix::io::Errno;

use super::MAPS_LIMIT;
use super::service::{Service, Sink};
use super::wire::{Job, Piece, Task};
use super::words::Memory;
use crate::ipc::{
    Argument, ArgumentKind, ArgumentRequest, POLLED_BYTES, WAITED_BYTES, parse_mappings, polled,
    selected, waited,
};
use crate::proc::{Reader, stat, text};

/// Reads what `job` asks for; `maps` only if that may begin before `maps_until`.
pub(super) fn read(
    service: &mut Service,
    directory: &OwnedFd,
    job: &Job,
    maps_until: Instant,
    sink: &mut Sink<'_>,
) {
    let Job { id, task } = job;
    let Task::Connections {
        arguments,
        maps,
        words,
    } = task
    else {
        return;
    };
    let directory = directory.as_fd();
    if !is_same(&mut service.reader, directory, *id) {
        return;
    }
    let mut memory = Memory::of(*id, directory, service, sink);
    read_words(&mut memory, directory, *id, words);
    for wanted in arguments {
        memory.sink.say(Piece::BeginsArgument(wanted.kind));
        memory.sink.flush();
        let argument = argument(&mut memory, directory, wanted);
        let argument = argument.map_err(Into::into);
        let piece = Piece::Argument(wanted.tid, wanted.kind, argument);
        memory.sink.say(piece);
    }
    if !maps {
        return;
    }
    if Instant::now() > maps_until {
        return sink.say(Piece::Maps(None));
    }
    sink.say(Piece::BeginsMaps);
    sink.flush();
    let content = service.reader.read_up_to(directory, "maps", MAPS_LIMIT);
    let mappings = content.map(|(content, _)| parse_mappings(content));
    sink.say(Piece::Maps(Some(mappings.map_err(Into::into))));
}

/// The call takes a PID: the words are of this process only if it is there after the reads as well.
fn read_words(
    memory: &mut Memory<'_, '_>,
    directory: BorrowedFd<'_>,
    id: ProcessId,
    addresses: &[u64],
) {
    if addresses.is_empty() {
        return;
    }
    memory.sink.say(Piece::BeginsWords);
    memory.sink.flush();
    let read: BTreeMap<u64, _> = addresses
        .iter()
        .map(|&address| (address, memory.futex(address)))
        .collect();
    if is_same(&mut memory.service.reader, directory, id) {
        for (address, words) in read {
            let piece = Piece::Word(address, words.map_err(Into::into));
            memory.sink.say(piece);
        }
    }
}

/// What is read is of the call only if the thread waits in it before and after. That file is reached through the directory
/// of the process, which leads to no other one: the process is there after the read as well.
fn argument(
    memory: &mut Memory<'_, '_>,
    directory: BorrowedFd<'_>,
    wanted: &ArgumentRequest,
) -> io::Result<Argument> {
    let first = wanted.addresses.first().copied().unwrap_or_default();
    let argument = match wanted.kind {
        ArgumentKind::Path => {
            let path = memory.text(first)?;
            Argument::Path(String::from_utf8_lossy(&path).into_owned())
        }
        ArgumentKind::Polled(count) => {
            Argument::Polled(polled(&up_to(memory, first, count * POLLED_BYTES)?))
        }
        ArgumentKind::Selected(count) => {
            let mut all = vec![0; count.div_ceil(8)];
            for &address in &wanted.addresses {
                let set = up_to(memory, address, all.len())?;
                all.iter_mut().zip(set).for_each(|(all, set)| *all |= set);
            }
            Argument::Polled(selected(&all, count))
        }
        ArgumentKind::Waited(count) => {
            let list = up_to(memory, first, count * WAITED_BYTES)?;
            let mut words = Vec::new();
            for wait in waited(&list) {
                words.push(match memory.futex(wait.address) {
                    Err(error) if error.raw_os_error() == Some(Errno::FAULT.raw_os_error()) => None,
                    words => Some(words?),
                });
            }
            Argument::Waited(list, words)
        }
    };
    let file = format!("task/{}/syscall", wanted.tid);
    let reader = &mut memory.service.reader;
    let now = reader.read(directory, &file).map(text::line)?;
    if now != wanted.call {
        return Err(Errno::NOENT.into());
    }
    Ok(argument)
}

/// Reads what is at `address`, as much of `length` as there is.
fn up_to(memory: &mut Memory<'_, '_>, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let length = memory.bytes(address, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn is_same(reader: &mut Reader, directory: BorrowedFd<'_>, id: ProcessId) -> bool {
    let stat = reader.read(directory, "stat").ok().and_then(stat::parse);
    stat.is_some_and(|stat| stat.start_time_ticks == id.start_time_ticks)
}
