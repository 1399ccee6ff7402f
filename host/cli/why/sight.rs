//! How much of a task is seen: nodes that have stored nothing for a while are told of, and judged no more.

use std::time::Duration;

use model::{Snapshot, Timestamp};
use serde::Serialize;
use store::{Clock, Key, Place, Store};

use super::Sight;
use crate::clocks;

/// A node is silent where its newest snapshot is older than the newest of all by so many of its intervals, …
const INTERVALS: f64 = 3.0;
/// … and by so much.
const LEAST: Duration = Duration::from_mins(1);

/// A node of which nothing new is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Silent {
    /// How much older its newest snapshot is than the newest of all, seconds, by the clocks.
    pub(crate) behind_s: u64,
    /// Whether something that both saw tells how its clock stands to that of the others.
    pub(crate) is_clock_compared: bool,
    /// When it last stored one, by its own clock.
    pub(crate) last: Timestamp,
    /// Its name.
    pub(crate) node: String,
    /// The ranks that were there.
    pub(crate) ranks: String,
}

impl Silent {
    /// Returns it as a sentence.
    pub(crate) fn words(&self) -> String {
        let one = self.ranks.parse::<u64>().is_ok();
        let whose = match (self.ranks.as_str(), one) {
            ("", _) => format!("node {}", self.node),
            (ranks, true) => format!("rank {ranks}'s node ({})", self.node),
            (ranks, false) => format!("the node of ranks {ranks} ({})", self.node),
        };
        let by = if self.is_clock_compared {
            ""
        } else {
            ", if its clock is right"
        };
        format!(
            "{whose} has stored nothing since {} UTC, {} before the others{by}; it is not judged",
            self.last.human(),
            clocks::span(i64::try_from(self.behind_s).unwrap_or(i64::MAX))
        )
    }
}

/// Whether one of several nodes looks silent while nobody knows how its clock stands.
pub(super) fn is_any_silent(nodes: &[Vec<Snapshot>]) -> bool {
    !silent(&newest(nodes), &[]).is_empty()
}

/// Returns how the clock of each node stands to that of the first one.
pub(super) async fn clocks(
    store: &Store,
    place: &Place,
    nodes: &[Vec<Snapshot>],
) -> anyhow::Result<Vec<Clock>> {
    let newest = newest(nodes);
    let Some((first, rest)) = newest.split_first() else {
        return Ok(Vec::new());
    };
    let key = Key {
        place: Place {
            node: first.task.node.clone(),
            ..place.clone()
        },
        id: first.capture.id,
    };
    let others: Vec<String> = rest.iter().map(|it| it.task.node.clone()).collect();
    Ok(clocks::together(store, &key, &others).await?.clocks)
}

/// Returns how old the newest snapshot of all is, in words, where it is so old that something must have kept others from coming.
pub(crate) fn age(sight: &Sight, now: Timestamp) -> Option<String> {
    let newest = newest(&sight.nodes);
    let last = newest
        .into_iter()
        .max_by_key(|it| it.capture.completed_at)?;
    let age = now.since(last.capture.completed_at);
    let is_old = age > LEAST.max(usual(last));
    is_old.then(|| clocks::span(i64::try_from(age.as_secs()).unwrap_or(i64::MAX)))
}

/// The time that a few snapshots of a node take.
fn usual(snapshot: &Snapshot) -> Duration {
    let interval = snapshot.capture.interval_s.unwrap_or(0.0);
    Duration::try_from_secs_f64(interval * INTERVALS).unwrap_or_default()
}

/// Takes the nodes out of `nodes` that are silent, and says which; `clocks` is how their clocks stand to the first one's. Where that
/// is not known they are taken as they are.
pub(super) fn take_the_silent(nodes: &mut Vec<Vec<Snapshot>>, clocks: &[Clock]) -> Vec<Silent> {
    let silent = silent(&newest(nodes), clocks);
    nodes.retain(|snapshots| {
        let last = snapshots.last();
        let name = last.map(|it| it.task.node.as_str());
        silent.iter().all(|it| Some(it.node.as_str()) != name)
    });
    silent
}

fn newest(nodes: &[Vec<Snapshot>]) -> Vec<&Snapshot> {
    nodes.iter().filter_map(|it| it.last()).collect()
}

/// Which of the nodes with these newest snapshots are silent; `clocks` is how the clock of each stands to the first's.
fn silent(newest: &[&Snapshot], clocks: &[Clock]) -> Vec<Silent> {
    let clock = |index: usize| clocks.get(index).copied().unwrap_or_default();
    let common = |index: usize| clock(index).common(newest[index].capture.started_at);
    let Some(latest) = (0..newest.len()).max_by_key(|index| common(*index)) else {
        return Vec::new();
    };
    let is_compared = |index: usize| index == 0 || !clock(index).offset.is_unknown();
    let silent = newest.iter().enumerate().filter_map(|(index, snapshot)| {
        let behind = common(latest).saturating_sub(common(index));
        let behind = Duration::from_micros(u64::try_from(behind).unwrap_or(0));
        (behind > LEAST.max(usual(snapshot))).then(|| Silent {
            behind_s: behind.as_secs(),
            is_clock_compared: is_compared(index) && is_compared(latest),
            last: snapshot.capture.started_at,
            node: snapshot.task.node.clone(),
            ranks: diagnose::ranges(diagnose::ranks_of(snapshot)),
        })
    });
    silent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The newest snapshot of a node with one rank, so many seconds after the beginning.
    fn newest(node: &str, rank: &str, seconds: i64) -> Snapshot {
        let at = Timestamp::from_microseconds(1_796_000_000_000_000 + seconds * 1_000_000).unwrap();
        let id = model::SnapshotId {
            stamp: at,
            sequence: 7,
        };
        let document = serde_json::json!({
            "capture": {"completed_at": at, "duration_ms": 20.0, "id": id, "interval_s": 10.0, "sequence": 7, "started_at": at},
            "cgroup": {"files": {}, "path": null, "version": 2},
            "collector_version": "0",
            "filesystem": {"shared_memory": {"available": false, "path": "/dev/shm"}},
            "focus_files": [],
            "ipc": {"endpoints": []},
            "machine": {"boot_id": null, "clock_ticks_per_second": 100, "cpu_count": 8, "kernel_release": null,
                "load_average": null, "memory_available_bytes": null, "memory_total_bytes": null, "page_size_bytes": 4096},
            "annotations": [{"key": "rank", "plugin": "ranks", "target": {"process": "5:1"}, "value": {"number": 0.0}}],
            "processes": [{
                "cgroup": [], "cmdline": [], "command": "", "distributed_environment": {"RANK": rank}, "exe": null,
                "identity": "4:1", "matches_pattern": false, "pid": 4, "ppid": 1, "python_candidate": true,
                "proc": {"file_descriptors": [], "io": {}, "kernel_stack": [], "limits": [], "schedstat": null, "status": {},
                    "syscall": null, "threads": [], "wchan": null},
                "pyspy": null, "start_time_ticks": 1, "state": "S",
            }],
            "schema_version": "1.1",
            "task": {"attempt": 0, "host": node, "node": node, "pathspec": "a/b"},
        });
        serde_json::from_value(document).unwrap()
    }

    /// A clock that is known to be so many seconds ahead.
    fn ahead(seconds: i64) -> Clock {
        let ahead = seconds * 1_000_000;
        Clock {
            ahead,
            offset: store::Offset {
                least: Some(ahead - 1),
                most: Some(ahead + 1),
            },
        }
    }

    #[test]
    fn a_node_is_silent_by_the_time_that_its_clock_stands_for() {
        let [one, two] = [newest("a", "1", 400), newest("b", "5", 200)];
        let found = silent(&[&one, &two], &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (
                found[0].node.as_str(),
                found[0].ranks.as_str(),
                found[0].behind_s
            ),
            ("b", "5", 200)
        );
        assert!(!found[0].is_clock_compared);
        // Its clock is 190 s behind: it stored the snapshot but 10 s before.
        assert_eq!(silent(&[&one, &two], &[Clock::default(), ahead(-190)]), []);
        // Three hours off is as good.
        let hours = newest("b", "5", 400 + 3 * 3600);
        let clocks = [Clock::default(), ahead(3 * 3600)];
        assert_eq!(silent(&[&one, &hours], &clocks), []);
        assert_eq!(silent(&[&one, &hours], &[])[0].node, "a");
        // And one that looks as new as the other is five minutes old.
        let [one, two] = [newest("a", "1", 400), newest("b", "5", 400)];
        assert_eq!(silent(&[&one, &two], &[]), []);
        let found = silent(&[&one, &two], &[Clock::default(), ahead(300)]);
        assert_eq!((found[0].behind_s, found[0].is_clock_compared), (300, true));
    }

    #[test]
    fn who_is_silent_is_said_with_its_ranks() {
        let silent = |ranks: &str| Silent {
            behind_s: 190,
            is_clock_compared: ranks != "4-7",
            last: Timestamp::from_microseconds(1_796_000_000_000_000).unwrap(),
            node: "node-1".to_owned(),
            ranks: ranks.to_owned(),
        };
        assert_eq!(
            silent("5").words(),
            "rank 5's node (node-1) has stored nothing since 2026-11-30 00:53:20 UTC, 3m10s before the others; it is not judged"
        );
        let several = silent("4-7").words();
        assert!(
            several.starts_with("the node of ranks 4-7 (node-1) has")
                && several.contains("before the others, if its clock is right;"),
            "{several}"
        );
        assert!(silent("").words().starts_with("node node-1 has"));
    }
}
