//! What the obituaries of a run amount to, in about three lines: who ended first, how, and what followed.

use std::time::Duration;

use diagnose::{first_end, is_of_rank, is_told_to_end};
use model::{BetweenLooks, Circumstance, Ending, Holder, Obituary, ProcessId, Timestamp, Unseen};

use crate::page::{base_name, count, safe, table};

/// So many groups of those that followed are told.
const MOST_GROUPS: usize = 4;

/// The main process of a task and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MainEnd {
    pub(crate) process: ProcessId,
    pub(crate) ending: Ending,
    /// Its place in the order of the ends, where it was told.
    pub(crate) order: Option<u64>,
    /// When the task was over; none where that is only now.
    pub(crate) at: Option<Timestamp>,
    /// When somebody told it to end, soon before it did.
    pub(crate) told_at: Option<Timestamp>,
}

/// Who is told to end does so within this time, as launchers, batch systems and containers give it, or goes on.
const GRACE: Duration = Duration::from_mins(1);

/// Returns when a task that was over at `over` was told to end, of all the times when it was; none where it went on for long.
pub(crate) fn told_at(times: &[Timestamp], over: Timestamp) -> Option<Timestamp> {
    let is_recent = |at: &&Timestamp| **at <= over && over.since(**at) <= GRACE;
    times.iter().find(is_recent).copied()
}

/// Returns the lines: none where everything went well. `notable` is in the order of the ends.
pub(crate) fn words(notable: &[Obituary], main: MainEnd, unseen: &Unseen) -> Vec<String> {
    let root = main.process;
    let mut lines = Vec::new();
    // Who ends after the task was not why, nor who does once it was told to end.
    let is_before = |one: &&Obituary| {
        let is_by_itself = main.told_at.is_none_or(|at| one.ended_at < at);
        let is_in_time = main.at.is_none_or(|at| one.ended_at <= at);
        is_by_itself && (is_in_time || main.order.is_some_and(|order| one.order <= order))
    };
    let before_it: Vec<&Obituary> = notable.iter().filter(is_before).collect();
    if let Some(first) = first_end(&before_it, root, main.ending) {
        let rest: Vec<&Obituary> = notable
            .iter()
            .filter(|other| other.order > first.order && other.process != root)
            .collect();
        lines.push(headline(first, !rest.is_empty()));
        lines.extend(before(first));
        lines.extend(followed(first, &rest));
        lines.extend(
            first
                .circumstances
                .iter()
                .filter_map(remedy)
                .map(|it| format!("  {it}")),
        );
    }
    if unseen.out_of_memory > 0 {
        let processes = count(unseen.out_of_memory, "process", "processes");
        lines.push(format!(
            "{processes} of the task that nobody had seen before was killed for want of memory"
        ));
    }
    lines.extend(unseen.between_looks.as_ref().and_then(crashed));
    lines
}

/// `3 more processes died between two looks: SIGKILL, SIGSEGV twice`
fn crashed(between: &BetweenLooks) -> Option<String> {
    let killed = between.killed.iter().map(|(&signal, &count)| {
        let core_dumped = false;
        let ending = Ending::Killed {
            core_dumped,
            signal,
        };
        (ending, count)
    });
    let crashed: Vec<(Ending, u64)> = killed.filter(|(it, _)| !is_told_to_end(*it)).collect();
    let all: u64 = crashed.iter().map(|(_, count)| count).sum();
    let parts = crashed.iter().map(|(ending, count)| match count {
        1 => ending.to_string(),
        count => format!("{count} of {ending}"),
    });
    let parts: Vec<String> = parts.collect();
    (all > 0).then(|| {
        let processes = count(all, "process", "processes");
        format!(
            "{processes} of the task died between two looks, reaped by the parent: {}",
            parts.join(", ")
        )
    })
}

/// Whether words may be about it: it was not an exit with 0, or it was a rank's.
pub(crate) fn is_notable(one: &Obituary) -> bool {
    one.rank.is_some() || one.ending != Ending::Exited(0)
}

/// Returns how the main process ended: as we were told, or as its obituary says where we were not. Without both it lives, or all
/// was well.
pub(crate) fn known_end(told: Ending, notable: &[Obituary], root: ProcessId) -> Ending {
    if told != Ending::Unknown {
        return told;
    }
    let mut ends = notable.iter();
    let own = ends.find(|one| one.process == root);
    own.map_or(Ending::Exited(0), |one| one.ending)
}

/// `rank 3 (pid 812) died first: SIGKILL, out of memory in its cgroup, 11.8 of 12 GiB`
fn headline(one: &Obituary, has_followers: bool) -> String {
    let verb = if one.ending.signal().is_some() {
        "died"
    } else {
        "ended"
    };
    let first = if has_followers { " first" } else { "" };
    let core = match one.ending {
        Ending::Killed {
            core_dumped: true, ..
        } => " (core dumped)",
        _ => "",
    };
    let around = one
        .circumstances
        .iter()
        .map(|one| format!(", {}", circumstance(one)));
    let around: String = around.collect();
    let how = one.ending;
    format!("{} {verb}{first}: {how}{core}{around}", who(one))
}

fn who(one: &Obituary) -> String {
    let pid = one.process.pid;
    match (one.rank, one.role.as_deref()) {
        (Some(rank), None | Some("rank")) => format!("rank {rank} (pid {pid})"),
        (Some(rank), Some(role)) => format!("{} of rank {rank} (pid {pid})", safe(role)),
        (None, _) if one.name.is_empty() => format!("process {pid}"),
        (None, _) => format!("{} (pid {pid})", safe(&one.name)),
    }
}

fn circumstance(one: &Circumstance) -> String {
    match one {
        Circumstance::OutOfMemory { cgroup: None, .. } => {
            "killed for want of memory of the machine".to_owned()
        }
        Circumstance::OutOfMemory {
            limit_bytes,
            usage_bytes,
            ..
        } => match usage_bytes.zip(*limit_bytes) {
            Some((usage, limit)) => {
                format!(
                    "out of memory in its cgroup, {}",
                    of(usage.min(limit), limit)
                )
            }
            None => "out of memory in its cgroup".to_owned(),
        },
        Circumstance::SharedMemoryFull {
            available_bytes,
            path,
            total_bytes,
        } => {
            let used = total_bytes.saturating_sub(*available_bytes);
            format!("{} was full, {}", safe(path), of(used, *total_bytes))
        }
        Circumstance::DiskFull {
            inodes_available: Some(_),
            path,
            ..
        } => format!("no inode was left for {}", safe(path)),
        Circumstance::DiskFull {
            path, total_bytes, ..
        } => format!(
            "the disk of {} was full, {}",
            safe(path),
            table::bytes(*total_bytes)
        ),
        Circumstance::DescriptorsExhausted { limit, open } => {
            format!("{open} files were open of {limit} that may be")
        }
    }
}

fn remedy(one: &Circumstance) -> Option<&'static str> {
    match one {
        Circumstance::SharedMemoryFull { .. } => Some(
            "more of it: `docker run --shm-size=8g`, or in Kubernetes an emptyDir with `medium: Memory` at /dev/shm",
        ),
        Circumstance::DescriptorsExhausted { .. } => Some(
            "more of them: `ulimit -n 65536` before the command, or `docker run --ulimit nofile=65536`",
        ),
        Circumstance::OutOfMemory { .. } | Circumstance::DiskFull { .. } => None,
    }
}

/// Two numbers of bytes in one unit: `11.8 of 12.0 GiB`.
fn of(part: u64, whole: u64) -> String {
    let (part, whole) = (table::bytes(part), table::bytes(whole));
    match (part.split_once(' '), whole.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} of {whole}"),
        _ => format!("{part} of {whole}"),
    }
}

/// `  last seen 1.2 s before in decode (scenario.py:16), 9.1 GiB resident; most was held by …`
fn before(one: &Obituary) -> Option<String> {
    let mut parts = Vec::new();
    if let Some((at, trace)) = one.stack_at.zip(one.stack.as_ref())
        && let Some(frame) = trace.frames.first()
    {
        let (name, file) = (safe(&frame.name), safe(base_name(&frame.filename)));
        let ago = ago(at, one.ended_at);
        parts.push(format!(
            "last seen {ago} before in {name} ({file}:{})",
            frame.line
        ));
    }
    if let Some(memory) = one.memory {
        let ago = ago(memory.at, one.ended_at);
        let seen = if parts.is_empty() {
            format!(" {ago} before")
        } else {
            String::new()
        };
        parts.push(format!("{} resident{seen}", table::bytes(memory.rss_bytes)));
    }
    let holders = one.circumstances.iter().find_map(|one| match one {
        Circumstance::OutOfMemory { holders, .. } if holders.len() > 1 => Some(holders),
        _ => None,
    });
    let held = holders.map(|holders| {
        let holders: Vec<String> = holders.iter().map(holder).collect();
        format!("; most was held by {}", holders.join(", "))
    });
    (!parts.is_empty()).then(|| format!("  {}{}", parts.join(", "), held.unwrap_or_default()))
}

fn holder(holder: &Holder) -> String {
    let who = match holder.rank {
        Some(rank) => format!("rank {rank}"),
        None => safe(&holder.name),
    };
    format!(
        "{who} (pid {}) {}",
        holder.process.pid,
        table::bytes(holder.rss_bytes)
    )
}

/// `  ranks 0-2 ended by SIGTERM 80 ms later`
fn followed(first: &Obituary, rest: &[&Obituary]) -> Option<String> {
    let ranks: Vec<&&Obituary> = rest.iter().filter(|one| is_of_rank(one)).collect();
    let (told, noun) = if ranks.is_empty() {
        (rest.iter().collect(), false)
    } else {
        (ranks, true)
    };
    // By how they ended, in the order of the first of each.
    let mut groups = Vec::<(Ending, Vec<&Obituary>)>::new();
    for one in told {
        match groups.iter_mut().find(|(ending, _)| *ending == one.ending) {
            Some((_, group)) => group.push(one),
            None => groups.push((one.ending, vec![one])),
        }
    }
    let more = groups.len().saturating_sub(MOST_GROUPS);
    let mut parts: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|(ending, group)| {
            let later = later(first, group);
            match ending {
                Ending::Killed { .. } => format!("{} ended by {ending} {later}", all(group, noun)),
                Ending::Exited(_) => format!("{} {ending} {later}", all(group, noun)),
                Ending::Unknown => format!("{} ended {later}, {ending}", all(group, noun)),
            }
        })
        .collect();
    if more > 0 {
        parts.push(format!("others in {more} more ways"));
    }
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

/// `ranks 0-2`, `rank 1 (pid 7)`, `3 others`
fn all(group: &[&Obituary], by_rank: bool) -> String {
    match group {
        [one] => who(one),
        _ if by_rank => {
            let ranks = group.iter().filter_map(|one| one.rank);
            format!("ranks {}", diagnose::ranges(ranks))
        }
        _ => format!("{} others", group.len()),
    }
}

fn later(first: &Obituary, group: &[&Obituary]) -> String {
    let after = |one: &Obituary| (one.elapsed_ms - first.elapsed_ms).max(0.0);
    match group {
        [one] => format!("{} later", milliseconds(after(one))),
        [one, .., last] => {
            let (from, to) = (milliseconds(after(one)), milliseconds(after(last)));
            if from == to {
                format!("{from} later")
            } else {
                format!("{from} to {to} later")
            }
        }
        [] => String::new(),
    }
}

fn ago(at: Timestamp, ended_at: Timestamp) -> String {
    milliseconds(ended_at.since(at).as_secs_f64() * 1e3)
}

fn milliseconds(count: f64) -> String {
    match count {
        ..1.0 => "under 1 ms".to_owned(),
        ..999.5 => format!("{count:.0} ms"),
        ..99_950.0 => format!("{:.1} s", count / 1e3),
        _ => format!("{:.0} min", count / 6e4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(pid: i32) -> ProcessId {
        ProcessId {
            pid,
            start_time_ticks: 1,
        }
    }

    /// One that ended so many milliseconds after the collector began.
    fn ended(pid: i32, rank: Option<u64>, status: i32, elapsed_ms: u32) -> Obituary {
        let at = Timestamp::parse("2026-11-30T00:00:00Z").unwrap();
        Obituary {
            circumstances: Vec::new(),
            cpu: None,
            elapsed_ms: f64::from(elapsed_ms),
            ended_at: at,
            ended_after: None,
            ending: Ending::from_wait_status(status),
            last_snapshot: None,
            memory: None,
            name: "train.py".to_owned(),
            order: u64::from(elapsed_ms),
            ppid: 1,
            process: id(pid),
            rank,
            role: None,
            stack: None,
            stack_at: None,
        }
    }

    fn said(notable: &[Obituary], main: Ending) -> Vec<String> {
        let root = notable.iter().find(|one| one.process == id(1));
        let main = MainEnd {
            process: id(1),
            ending: main,
            order: root.map(|root| root.order),
            at: root.map(|root| root.ended_at),
            told_at: None,
        };
        words(notable, main, &Unseen::default())
    }

    /// A launcher that is told to end ends its ranks and fails: that is no news. One that was gone before is.
    #[test]
    fn who_ends_once_the_task_was_told_to_end_is_not_the_first() {
        let at = |milliseconds: u64| {
            let begin = Timestamp::parse("2026-11-30T00:00:00Z").unwrap();
            begin.after(Duration::from_millis(milliseconds))
        };
        let one = |pid: i32, rank: Option<u64>, status: i32, elapsed_ms: u32| Obituary {
            ended_at: at(elapsed_ms.into()),
            ..ended(pid, rank, status, elapsed_ms)
        };
        let ends = [
            one(7, Some(0), 15, 120),
            one(8, Some(1), 9, 180),
            one(1, None, 0x0100, 200),
        ];
        let told = |told_at: Option<Timestamp>| {
            let main = MainEnd {
                process: id(1),
                ending: Ending::Exited(1),
                order: Some(200),
                at: Some(at(200)),
                told_at,
            };
            words(&ends, main, &Unseen::default())
        };
        assert_eq!(told(Some(at(100))), Vec::<String>::new());
        assert_eq!(told(Some(at(150)))[0], "rank 0 (pid 7) died first: SIGTERM");
        assert_eq!(told(None)[0], "rank 0 (pid 7) died first: SIGTERM");
        // Long before, and after: it is what it did since that counts.
        let times = [at(100), at(70_000)];
        assert_eq!(told_at(&times, at(75_000)), Some(at(70_000)));
        assert_eq!(told_at(&times, at(50)), None);
    }

    #[test]
    fn the_first_death_is_named_with_its_cgroup_and_what_followed() {
        const GIB: u64 = 1 << 30;
        let mut first = ended(812, Some(3), 9, 1000);
        first.circumstances.push(Circumstance::OutOfMemory {
            cgroup: Some("/sys/fs/cgroup/job".to_owned()),
            holders: Vec::new(),
            limit_bytes: Some(12 * GIB),
            usage_bytes: Some(12 * GIB - GIB / 5),
        });
        let others = (0..3).map(|rank| ended(809, Some(rank), 15, 1080));
        let launcher = ended(1, None, 0x0100, 1200);
        let all: Vec<Obituary> = [first]
            .into_iter()
            .chain(others)
            .chain([launcher])
            .collect();
        assert_eq!(
            said(&all, Ending::Exited(1)),
            [
                "rank 3 (pid 812) died first: SIGKILL, out of memory in its cgroup, 11.8 of 12.0 GiB",
                "  ranks 0-2 ended by SIGTERM 80 ms later",
            ]
        );
    }

    #[test]
    fn what_ends_as_it_should_is_not_spoken_of() {
        // A command of a script that fails, a pool that ends its workers, and a task that was told to end.
        let small = [ended(7, None, 0x0100, 5), ended(8, None, 15, 9)];
        assert!(said(&small, Ending::Exited(0)).is_empty());
        let ranks = [ended(7, Some(0), 15, 5), ended(1, None, 15, 9)];
        assert!(said(&ranks, Ending::from_wait_status(15)).is_empty());
        assert!(said(&ranks, Ending::Exited(143)).is_empty());
        assert!(said(&[ended(1, None, 0x0300, 5)], Ending::Exited(3)).is_empty());
    }

    #[test]
    fn a_crash_is_told_even_if_the_task_goes_on_to_succeed() {
        let worker = [ended(7, None, 0x8b, 5)];
        let lines = said(&worker, Ending::Exited(0));
        assert_eq!(lines, ["train.py (pid 7) died: SIGSEGV (core dumped)"]);
    }

    #[test]
    fn who_is_ended_after_the_main_process_is_no_cause() {
        let mut late = ended(7, None, 9, 9);
        late.ended_at = Timestamp::parse("2026-11-30T00:00:01Z").unwrap();
        let all = [ended(1, None, 0, 5), late];
        assert!(said(&all, Ending::Exited(0)).is_empty());
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!(milliseconds(0.2), "under 1 ms");
        assert_eq!(milliseconds(80.4), "80 ms");
        assert_eq!(milliseconds(1240.0), "1.2 s");
        assert_eq!(milliseconds(120_000.0), "2 min");
    }
}
