//! What two processes did meanwhile, and what they hold: told where it is many times as much.

use model::{Endpoint, Process, size_words};

use super::{Difference, Side, tell};
use crate::case::Case;

/// Counters differ where one is so many times the other, …
const TIMES: u64 = 2;
/// … and by so many bytes, or faults.
const BYTES: u64 = 1 << 20;
const FAULTS: u64 = 1000;

/// Returns a count of a process.
type Count<'f> = &'f dyn Fn(&Process) -> Option<u64>;
/// Returns a count as people write it.
type Words<'f> = &'f dyn Fn(u64) -> String;

/// What grew over the window.
pub(super) fn grown(
    found: &mut Vec<Difference>,
    case: &Case<'_>,
    one: &Side<'_>,
    other: &Side<'_>,
) {
    let growth = |side: &Side<'_>, count: &dyn Fn(&Process) -> Option<u64>| {
        count(side.process)?.checked_sub(count(side.before?)?)
    };
    let of_io = |process: &Process, key: &str| process.proc.io.get(key)?.parse::<u64>().ok();
    let read = |process: &Process| of_io(process, "rchar");
    let written = |process: &Process| of_io(process, "wchar");
    let minor = |process: &Process| process.proc.minor_faults;
    let major = |process: &Process| process.proc.major_faults;
    let ticks = |process: &Process| Some(process.proc.utime_ticks? + process.proc.stime_ticks?);
    let hz = one.snapshot.machine.clock_ticks_per_second.max(1);
    let seconds = |ticks: u64| format!("{}.{} s", ticks / hz, ticks % hz * 10 / hz);
    let number = |count: u64| count.to_string();
    let asked: [(&str, Count<'_>, u64, &str, Words<'_>); 5] = [
        ("read meanwhile", &read, BYTES, "proc/io/rchar", &size_words),
        (
            "written meanwhile",
            &written,
            BYTES,
            "proc/io/wchar",
            &size_words,
        ),
        (
            "faults meanwhile",
            &minor,
            FAULTS,
            "proc/minor_faults",
            &number,
        ),
        (
            "faults that waited for a disk meanwhile",
            &major,
            10,
            "proc/major_faults",
            &number,
        ),
        (
            "CPU time meanwhile",
            &ticks,
            hz,
            "proc/utime_ticks",
            &seconds,
        ),
    ];
    for (what, count, least, path, words) in asked {
        if let (Some(suspect), Some(twin)) = (growth(one, count), growth(other, count))
            && differ(suspect, twin, least)
        {
            let paths = Some((path.to_owned(), path.to_owned()));
            let said = (words(suspect), words(twin));
            tell(found, case, (one, other), what, said, paths);
        }
    }
}

/// What they hold, and what waits in their sockets.
pub(super) fn held(found: &mut Vec<Difference>, case: &Case<'_>, one: &Side<'_>, other: &Side<'_>) {
    let memory = |side: &Side<'_>| side.process.memory.as_ref().map(|it| it.rss_bytes);
    if let (Some(suspect), Some(twin)) = (memory(one), memory(other))
        && differ(suspect, twin, 64 * BYTES)
    {
        let path = "memory/rss_bytes".to_owned();
        let said = (size_words(suspect), size_words(twin));
        let paths = Some((path.clone(), path));
        tell(found, case, (one, other), "resident memory", said, paths);
    }
    let (suspect, twin) = (queued(one), queued(other));
    if differ(suspect, twin, 4096) {
        let said = (size_words(suspect), size_words(twin));
        tell(
            found,
            case,
            (one, other),
            "waits in its sockets",
            said,
            None,
        );
    }
}

fn differ(one: u64, other: u64, least: u64) -> bool {
    one.abs_diff(other) >= least && one.max(other) >= one.min(other).saturating_mul(TIMES)
}

/// Bytes that wait to be sent or read in the sockets of a process.
fn queued(side: &Side<'_>) -> u64 {
    let endpoints = side.snapshot.ipc.endpoints.iter();
    let is_own = |endpoint: &&Endpoint| {
        let mut owners = endpoint.owners.iter();
        owners.any(|owner| owner.identity == side.process.identity)
    };
    let queues = endpoints.filter(is_own).filter_map(|endpoint| {
        let tcp = endpoint.tcp.as_ref().filter(|tcp| tcp.state != "listen")?;
        Some(u64::from(tcp.send_queue) + u64::from(tcp.receive_queue))
    });
    queues.sum()
}
