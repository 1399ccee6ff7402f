//! Counters of the task's cgroups that grew: kills, throttling, limits that were hit.

use model::{CgroupLevel, Snapshot};

use super::{Change, Kind};
use crate::page::{count, safe, table};

pub(super) fn changes(from: &Snapshot, to: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    for level in &to.cgroup.chain {
        let mut levels = from.cgroup.chain.iter();
        let same =
            |other: &&CgroupLevel| other.path == level.path && other.hierarchy == level.hierarchy;
        if let Some(before) = levels.find(same) {
            let path = safe(&level.path);
            let texts = texts(before, level).into_iter();
            changes
                .extend(texts.map(|text| Change::of_all(Kind::Cgroup, format!("{text} ({path})"))));
        }
    }
    changes
}

fn texts(before: &CgroupLevel, after: &CgroupLevel) -> Vec<String> {
    let mut texts = Vec::new();
    if let (Some(before), Some(after)) = (&before.memory, &after.memory) {
        if let Some(kills) = more(before.oom_kills, after.oom_kills) {
            let processes = count(kills, "process was", "processes were");
            texts.push(format!("{processes} killed for lack of memory"));
        }
        if let Some(times) = more(before.oom_events, after.oom_events) {
            texts.push(format!("memory ran out {}", times_words(times)));
        }
        if let Some(times) = more(before.limit_hits, after.limit_hits) {
            texts.push(format!(
                "the memory limit was reached {}",
                times_words(times)
            ));
        }
        if let Some(times) = more(before.high_hits, after.high_hits) {
            texts.push(format!("memory.high was passed {}", times_words(times)));
        }
        if let (Some(before), Some(after)) = (before.usage_bytes, after.usage_bytes)
            && before.abs_diff(after) > (before / 20).max(16 << 20)
        {
            let (before, after) = (table::bytes(before), table::bytes(after));
            texts.push(format!("memory {before} -> {after}"));
        }
    }
    if let (Some(before), Some(after)) = (&before.cpu, &after.cpu)
        && let Some(periods) = more(before.throttled_periods, after.throttled_periods)
    {
        let all = more(before.periods, after.periods);
        let of = all.map_or_else(String::new, |all| format!(" of {all}"));
        let held = more(before.throttled_usec, after.throttled_usec).unwrap_or(0);
        let (seconds, tenths) = (held / 1_000_000, held / 100_000 % 10);
        texts.push(format!(
            "the CPU quota ran out in {periods}{of} periods: threads were held back for {seconds}.{tenths} s"
        ));
    }
    if let (Some(before), Some(after)) = (&before.pids, &after.pids)
        && let Some(times) = more(before.limit_hits, after.limit_hits)
    {
        texts.push(format!(
            "a fork failed at the limit of processes {}",
            times_words(times)
        ));
    }
    texts
}

fn more(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?).filter(|more| *more > 0)
}

fn times_words(times: u64) -> String {
    count(times, "time", "times")
}
