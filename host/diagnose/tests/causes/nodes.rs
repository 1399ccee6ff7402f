//! Jobs on several nodes.

use taskscope_diagnose::{Cause, State};

use crate::story::{ask_all, futex, polls, ranks, story_of};

#[test]
fn a_rank_that_is_behind_on_another_node_is_found_whatever_the_clocks_say() {
    let node = |name: &str, first: u32, behind: Option<u32>| {
        let mut snapshots = story_of(name, 8, |instant, shot| {
            shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
            for rank in first..first + 2 {
                let doing = if Some(rank) == behind {
                    polls(instant).at(&["wait_for shard.py 3", "main train.py 29"])
                } else {
                    futex("0x1").at(&["all_reduce /lib/dist.py 50", "main train.py 30"])
                };
                shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            }
        });
        if first > 0 {
            for snapshot in &mut snapshots {
                snapshot.capture.started_at = snapshot
                    .capture
                    .started_at
                    .after(std::time::Duration::from_secs(4000));
            }
        }
        snapshots
    };
    let (one, other) = (node("node-0", 0, None), node("node-1", 2, Some(3)));
    let verdict = ask_all(&[&one, &other]);
    assert_eq!(
        (verdict.verdict, verdict.cause),
        (State::Hung, Cause::RankBehind),
        "{}",
        verdict.summary
    );
    let culprit = verdict.culprit.as_ref().unwrap();
    assert_eq!((culprit.node.as_str(), culprit.rank), ("node-1", Some(3)));
    assert_eq!(ranks(&verdict), [0, 1, 2]);
}
