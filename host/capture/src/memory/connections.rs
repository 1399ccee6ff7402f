//! What of the memory of a process connects it with others: words of futexes, and files in memory that it maps.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use model::ProcessId;

use super::service::{Service, Sink};
use super::wire::Piece;
use super::words;
use crate::ipc::parse_mappings;
use crate::proc::{Reader, stat};

/// More than this of a `maps` file is not searched.
const MAPS_LIMIT: usize = 8 << 20;

/// Reads the words at `addresses`, and `maps` where there is a time until which that may begin.
pub(super) fn read(
    service: &mut Service,
    directory: &OwnedFd,
    id: ProcessId,
    addresses: &[u64],
    maps_until: Option<Instant>,
    sink: &mut Sink<'_>,
) {
    let directory = directory.as_fd();
    if !is_same(&mut service.reader, directory, id) {
        return;
    }
    if !addresses.is_empty() {
        sink.say(Piece::BeginsWords);
        sink.flush();
        let read: BTreeMap<u64, _> = addresses
            .iter()
            .map(|&address| (address, words::read(id.pid, directory, address)))
            .collect();
        // The call takes a PID: the words are of this process only if it is there after the reads as well.
        if is_same(&mut service.reader, directory, id) {
            for (address, words) in read {
                sink.say(Piece::Word(address, words.map_err(Into::into)));
            }
        }
    }
    let Some(until) = maps_until else { return };
    if Instant::now() > until {
        return sink.say(Piece::Maps(None));
    }
    sink.say(Piece::BeginsMaps);
    sink.flush();
    let content = service.reader.read_up_to(directory, "maps", MAPS_LIMIT);
    let mappings = content.map(|(content, _)| parse_mappings(content));
    sink.say(Piece::Maps(Some(mappings.map_err(Into::into))));
}

fn is_same(reader: &mut Reader, directory: BorrowedFd<'_>, id: ProcessId) -> bool {
    let stat = reader.read(directory, "stat").ok().and_then(stat::parse);
    stat.is_some_and(|stat| stat.start_time_ticks == id.start_time_ticks)
}
