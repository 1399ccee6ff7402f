//! How much of a task is seen: nodes that have stored nothing for a while are told of, and judged no more.

use diagnose::{Newest, Silent, silent_after};
use model::{Snapshot, Timestamp, span_words};
use store::{Clock, Key, Place, Store};

use super::Sight;
use crate::clocks;

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
    (age > silent_after(last.capture.interval_s)).then(|| span_words(age.as_secs()))
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
    let newest = newest.iter().enumerate().map(|(index, snapshot)| {
        let clock = clocks.get(index).copied().unwrap_or_default();
        Newest {
            at: clock.common(snapshot.capture.started_at),
            is_clock_compared: index == 0 || !clock.offset.is_unknown(),
            snapshot,
        }
    });
    diagnose::silent(&newest.collect::<Vec<_>>())
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
}
