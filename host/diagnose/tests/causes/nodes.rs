//! Jobs on several nodes.

use taskscope_diagnose::{Cause, State};

use crate::story::{ask_all, call, futex, on, polls, ranks, story_of};

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

/// A client on one node and the server on another: who waits is seen here, who should answer there, and each end of the connection
/// tells of the other.
#[test]
fn a_server_on_another_node_that_does_not_answer_is_named_by_what_both_nodes_show() {
    let ends = ("10.0.0.1:5000", "10.0.0.2:443");
    let client = story_of("node-0", 6, |_, shot| {
        let reads = on("recvfrom", 4, "socket:[1]").at(&["fetch client.py 3"]);
        shot.process(20, 1, &reads);
        shot.tcp("socket:[1]", &[20], (ends.0, ends.1, "established"), None);
    });
    let server = |hides: bool| {
        story_of("node-1", 6, |_, shot| {
            // The same number as on the other node: it is another socket.
            shot.process(20, 1, &call("pause").at(&["serve server.py 3"]));
            if !hides {
                shot.tcp("socket:[1]", &[20], (ends.1, ends.0, "established"), None);
            }
        })
    };
    let verdict = ask_all(&[&client, &server(false)]);
    let right = (State::Hung, Cause::WaitingForPeer);
    assert_eq!(
        (verdict.verdict, verdict.cause),
        right,
        "{}",
        verdict.summary
    );
    assert_eq!(verdict.culprit.as_ref().unwrap().node, "node-1");
    assert_eq!(verdict.victims[0].node, "node-0");
    let shown = |node: &str, path: &str| {
        let mut evidence = verdict.evidence.iter();
        evidence.any(|it| it.node == node && it.path == path)
    };
    assert!(shown("node-0", "/ipc/endpoints/0/tcp/remote"));
    assert!(shown("node-1", "/ipc/endpoints/0/tcp/local"));
    assert!(shown("node-1", "/ipc/endpoints/0/owners"));
    // Where the other node does not show its end, nobody there is blamed.
    let verdict = ask_all(&[&client, &server(true)]);
    let blamed = verdict.culprit.as_ref().map(|it| it.node.as_str());
    assert_ne!(blamed, Some("node-1"), "{}", verdict.summary);
}
