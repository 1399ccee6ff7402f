//! Nodes that have stored nothing for a while: what they showed then is no news now.

use std::time::Duration;

use model::{Snapshot, Timestamp};
use serde::Serialize;

use crate::ranges::ranges;
use crate::ranks::ranks_of;

/// A node is silent where its newest snapshot is older than the newest of all by so many of its intervals, …
const INTERVALS: f64 = 3.0;
/// … and by so much.
const LEAST: Duration = Duration::from_mins(1);

/// Returns after how long without a snapshot a node is silent that takes one each `interval_s` seconds.
pub fn silent_after(interval_s: Option<f64>) -> Duration {
    let usual = interval_s.unwrap_or(0.0) * INTERVALS;
    LEAST.max(Duration::try_from_secs_f64(usual).unwrap_or_default())
}

/// A node of which nothing new is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Silent {
    /// How much older its newest snapshot is than the newest of all, seconds, as far as clocks can be compared.
    pub behind_s: u64,
    /// When it last stored one, by its own clock.
    pub last: Timestamp,
    /// Its name.
    pub node: String,
    /// The ranks that were there.
    pub ranks: String,
}

impl Silent {
    /// Returns it as a sentence.
    pub fn words(&self) -> String {
        let one = self.ranks.parse::<u64>().is_ok();
        let whose = match (self.ranks.as_str(), one) {
            ("", _) => format!("node {}", self.node),
            (ranks, true) => format!("rank {ranks}'s node ({})", self.node),
            (ranks, false) => format!("the node of ranks {ranks} ({})", self.node),
        };
        format!(
            "{whose} has stored nothing since {} UTC, {} s before the others; it is not judged",
            self.last.human(),
            self.behind_s
        )
    }
}

/// Returns which of the nodes with these newest snapshots are silent; `ahead` is how far the clock of each is ahead of the first's,
/// microseconds; where that is not known it is taken to be right.
pub fn silent(newest: &[&Snapshot], ahead: &[i64]) -> Vec<Silent> {
    let common = |index: usize| {
        let at = newest[index].capture.started_at.as_microseconds();
        at.saturating_sub(ahead.get(index).copied().unwrap_or(0))
    };
    let latest = (0..newest.len()).map(common).max().unwrap_or(0);
    let silent = newest.iter().enumerate().filter_map(|(index, snapshot)| {
        let behind = latest.saturating_sub(common(index));
        let behind = Duration::from_micros(u64::try_from(behind).unwrap_or(0));
        (behind > silent_after(snapshot.capture.interval_s)).then(|| Silent {
            behind_s: behind.as_secs(),
            last: snapshot.capture.started_at,
            node: snapshot.task.node.clone(),
            ranks: ranges(ranks_of(snapshot)),
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
        // Its clock is 190 s behind: it stored the snapshot but 10 s before.
        assert_eq!(silent(&[&one, &two], &[0, -190_000_000]), []);
        // And one that looks as new as the other is five minutes old.
        let [one, two] = [newest("a", "1", 400), newest("b", "5", 400)];
        assert_eq!(silent(&[&one, &two], &[]), []);
        assert_eq!(silent(&[&one, &two], &[0, 300_000_000])[0].behind_s, 300);
    }

    #[test]
    fn who_is_silent_is_said_with_its_ranks() {
        let silent = |ranks: &str| Silent {
            behind_s: 190,
            last: Timestamp::from_microseconds(1_796_000_000_000_000).unwrap(),
            node: "node-1".to_owned(),
            ranks: ranks.to_owned(),
        };
        assert_eq!(
            silent("5").words(),
            "rank 5's node (node-1) has stored nothing since 2026-11-30 00:53:20 UTC, 190 s before the others; it is not judged"
        );
        assert!(
            silent("4-7")
                .words()
                .starts_with("the node of ranks 4-7 (node-1) has")
        );
        assert!(silent("").words().starts_with("node node-1 has"));
    }
}
