use diagnose::Selection;
use model::Timestamp;

use super::super::tests::{LOAD, OUTER, PLAIN, REDUCE, job};
use super::*;

#[test]
fn who_left_which_place_for_which() {
    let before = job(&[&LOAD, &LOAD, &LOAD, &OUTER, &LOAD]);
    let mut after = job(&[&REDUCE, &REDUCE, &LOAD, &REDUCE]);
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
