//! Snapshots of several nodes are put in one order, and those of one instant are found, whatever the clocks say.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use model::{Endpoint, EndpointKind, Snapshot, TcpFacts, Timestamp};
use taskscope_store::{Key, Location, Place, Since, Store, Timeline, encode};

mod sample;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
/// Rounds in which each node takes a snapshot, one after the other.
const ROUNDS: u64 = 12;
const INTERVAL: i64 = 10 * SECOND;
/// How far the clocks are wrong. The connections are between the first and the second, and the second and the third.
const AHEAD: [i64; 3] = [0, HOUR, -5 * HOUR];

fn place(node: usize) -> Place {
    let mut task = sample::task();
    task.node = format!("node-{node}");
    Place::of(&task)
}

/// One end of a connection on which the lower node sends 1 kB a second.
fn endpoint(node: usize, other: usize, at: i64) -> Endpoint {
    let address = |node: usize| format!("10.0.0.{}:29500", node + 1);
    let bytes = u64::try_from(at / 1000).unwrap();
    let (sent, received) = if node < other { (bytes, 0) } else { (0, bytes) };
    Endpoint {
        kind: Some(EndpointKind::Tcp),
        target: format!("socket:[{node}{other}]"),
        tcp: Some(TcpFacts {
            bytes_acknowledged: Some(sent),
            bytes_received: Some(received),
            local: address(node),
            remote: address(other),
            ..TcpFacts::default()
        }),
        ..Endpoint::default()
    }
}

/// What `node` sees in a round: it looks a second after the node before it.
fn seen(node: usize, round: u64) -> Snapshot {
    let mut snapshot = sample::snapshot(round);
    let turn = i64::try_from(node).unwrap() * SECOND;
    let truth = i64::try_from(round).unwrap() * INTERVAL + turn;
    let start = sample::time(0).as_microseconds();
    let shown = Timestamp::from_microseconds(start + truth + AHEAD[node]).unwrap();
    snapshot.task.node = format!("node-{node}");
    snapshot.capture.started_at = shown;
    snapshot.capture.completed_at = shown;
    snapshot.capture.id.stamp = shown;
    let neighbours = [
        node.checked_sub(1),
        Some(node + 1).filter(|&it| it < AHEAD.len()),
    ];
    let others = neighbours.into_iter().flatten();
    snapshot.ipc.endpoints = others.map(|other| endpoint(node, other, truth)).collect();
    snapshot
}

fn put(directory: &Path, snapshot: &Snapshot) {
    let key = Key {
        place: Place::of(&snapshot.task),
        id: snapshot.capture.id,
    };
    let path = directory.join(key.to_string());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, encode(snapshot).unwrap()).unwrap();
}

fn store(directory: &Path) -> Store {
    Store::open(&Location::parse(".", directory).unwrap()).unwrap()
}

async fn timeline(directory: &Path, instant: Option<Timestamp>) -> Timeline {
    let places = (0..AHEAD.len()).map(place).collect();
    let mut shown = Vec::new();
    let store = store(directory);
    let read = store.timeline(places, Since::Start, instant, |done| shown.push(done));
    let timeline = read.await.unwrap();
    assert_eq!(shown.last(), Some(&3));
    timeline
}

/// Node and round of each, first to last.
fn rounds(timeline: &Timeline) -> Vec<(usize, u64)> {
    let ordered = timeline.in_order().into_iter();
    ordered
        .map(|(node, entry)| (node, entry.id.sequence))
        .collect()
}

fn put_all(directory: &Path) {
    for node in 0..AHEAD.len() {
        for round in 0..ROUNDS {
            put(directory, &seen(node, round));
        }
    }
}

#[tokio::test]
async fn the_newest_of_each_node_is_its_last_whatever_its_clock_says() {
    let directory = tempfile::tempdir().unwrap();
    put_all(directory.path());
    let timeline = timeline(directory.path(), None).await;
    let newest = timeline.at_the_end().into_iter();
    let newest: Vec<Option<u64>> = newest.map(|key| Some(key?.id.sequence)).collect();
    assert_eq!(newest, [Some(ROUNDS - 1); 3]);
    let store = store(directory.path());
    let nobody = store.timeline(vec![place(9)], Since::Recent, None, |_| {});
    assert_eq!(nobody.await.unwrap().at_the_end(), [None]);
}

#[tokio::test]
async fn nodes_whose_clocks_are_hours_apart_are_in_the_order_of_what_they_saw() {
    let directory = tempfile::tempdir().unwrap();
    put_all(directory.path());
    let timeline = timeline(directory.path(), None).await;
    for (node, ahead) in timeline.nodes.iter().zip(AHEAD) {
        let (offset, clock) = (node.clock.offset, node.clock);
        assert!(
            offset.least.unwrap() <= ahead && ahead <= offset.most.unwrap(),
            "{clock:?}"
        );
        assert!((clock.ahead - ahead).abs() < INTERVAL, "{clock:?}");
    }
    let ordered = rounds(&timeline);
    assert_eq!(
        ordered.len(),
        AHEAD.len() * usize::try_from(ROUNDS).unwrap()
    );
    // What is a whole round apart is never the other way round; by the clocks, all would be.
    for (position, (node, round)) in ordered.iter().enumerate() {
        for (other, later) in &ordered[position..] {
            assert!(
                later + 1 >= *round,
                "{node} {round} before {other} {later}: {ordered:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_snapshots_of_one_instant_are_of_one_round() {
    let directory = tempfile::tempdir().unwrap();
    put_all(directory.path());
    for round in [0, 2, 6, ROUNDS - 1] {
        let instant = seen(0, round).capture.started_at;
        let found = timeline(directory.path(), Some(instant)).await.at(instant);
        let found: Vec<u64> = found.iter().flatten().map(|it| it.id.sequence).collect();
        assert_eq!(found.len(), AHEAD.len());
        assert!(
            found.iter().all(|it| it.abs_diff(round) <= 1),
            "{round}: {found:?}"
        );
        assert_eq!(found[0], round);
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_disorders_no_node() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..ROUNDS {
        let mut snapshot = seen(0, round);
        if round >= ROUNDS / 2 {
            let capture = &mut snapshot.capture;
            let back = std::time::Duration::from_hours(1);
            capture.started_at = capture.started_at.before(back);
            capture.id.stamp = capture.started_at;
        }
        put(directory.path(), &snapshot);
        put(directory.path(), &seen(2, round));
    }
    let timeline = timeline(directory.path(), None).await;
    let of_first = rounds(&timeline).into_iter().filter(|(node, _)| *node == 0);
    let sequences: Vec<u64> = of_first.map(|(_, round)| round).collect();
    assert_eq!(sequences, (0..ROUNDS).collect::<Vec<_>>());
    // The second node of the attempt has nothing at all.
    assert_eq!(timeline.at(seen(0, 0).capture.started_at)[1], None);
}
