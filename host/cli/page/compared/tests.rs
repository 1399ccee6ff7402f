use diagnose::{Merged, Selection};

use super::super::tests::{LOAD, PLAIN, Place, REDUCE, job};
use super::*;

#[test]
fn two_sets_of_ranks_as_one_tree_that_says_where_they_part() {
    let rest: [Place<'_>; 1] = [("sleep", "/job/rest.py", 3)];
    let snapshot = job(&[&REDUCE, &REDUCE, &LOAD, &rest, &rest]);
    let mut looked = Looked::default();
    looked.add(&snapshot, snapshot.capture.started_at);
    let of = |ranks: &str| {
        let ranks = Some(ranks.parse().unwrap());
        Merged::of(
            &[&snapshot],
            &Selection {
                ranks,
                ..Selection::default()
            },
        )
    };
    let shown = |one: &str, other: &str| {
        let comparison = Comparison::of(&of(one), &of(other));
        page(
            &comparison,
            &looked,
            (&format!("ranks {one}"), &format!("ranks {other}")),
            PLAIN,
        )
    };
    insta::assert_snapshot!(shown("0,1,3", "2,4"), @r"
    train/x  attempt 0  node vm
    2026-11-29 14:41:03 UTC
    A  ranks 0,1,3
    B  ranks 2,4

       main (train.py)  [A: ranks 0,1, 2 threads; B: rank 2, 1 thread]
       step (train.py)
    A    all_reduce (comm.py:41)  [ranks 0,1, 2 threads]
    B    load (data.py:7)  [rank 2, 1 thread]

    in both
       sleep (rest.py:3)  [A: 1 thread, B: 1]
    ");
    insta::assert_snapshot!(shown("0", "1"), @r"
    train/x  attempt 0  node vm
    2026-11-29 14:41:03 UTC
    A  ranks 0
    B  ranks 1

    Both are at the same places.

    in both
       all_reduce (comm.py:41)  [A: 1 thread, B: 1]
    ");
}
