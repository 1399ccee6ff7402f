use diagnose::Selection;
use model::Timestamp;

use super::super::tests::{Place, job};
use super::*;

const PLAIN: Ui = Ui {
    color: false,
    terminal: false,
    width: 100,
};

#[test]
fn who_left_which_place_for_which() {
    let outer: [Place<'_>; 2] = [
        ("step", "/job/train.py", 88),
        ("main", "/job/train.py", 120),
    ];
    let at = |inner: Place<'static>| [inner, outer[0], outer[1]];
    let (reduce, load) = (
        at(("all_reduce", "/job/comm.py", 41)),
        at(("load", "/job/data.py", 7)),
    );
    let before = job(&[&load, &load, &load, &outer, &load]);
    let mut after = job(&[&reduce, &reduce, &load, &reduce]);
    let later = after.capture.started_at.as_microseconds() + 2_000_000;
    after.capture.started_at = Timestamp::from_microseconds(later).unwrap();
    let looked = |snapshot: &model::Snapshot| {
        let mut looked = Looked::default();
        looked.add(snapshot, snapshot.capture.started_at);
        looked
    };
    let moves = Moves::between(&[&before], &[&after], &Selection::default());
    insta::assert_snapshot!(page(&moves, &looked(&before), &looked(&after), PLAIN), @r"
    train/x  attempt 0  node vm
    2026-11-29 14:41:03 UTC
    -> 2026-11-29 14:41:05 UTC

    Moved
      ranks 0,1, 2 threads, below step (train.py)
        from  load (data.py:7)
        to    all_reduce (comm.py:41)
      rank 3, 1 thread, below main (train.py)
        from  step (train.py:88)
        to    all_reduce (comm.py:41) < step (train.py)

    Where they were
      rank 2, 1 thread
        load (data.py:7) < step (train.py) < main (train.py)

    Not there any more
      rank 4, 1 thread
        load (data.py:7) < step (train.py) < main (train.py)
    ");
}
