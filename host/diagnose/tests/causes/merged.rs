//! Merged stacks: classes, tree, time, two instants and two sets of ranks.

use std::collections::BTreeMap;

use model::{Gap, GapCode, Snapshot};
use proptest::prelude::*;
use taskscope_diagnose::{
    Comparison, Level, Merged, MergedNode, Merging, Move, Moves, RankSet, Selection, Threads,
    TwoSets,
};

use crate::story::{add_thread, futex, identity, story, story_of};

const MEETS: [&str; 2] = ["reduce /srv/dist.py 5", "train /srv/train.py 9"];
const LOADS: [&str; 2] = ["load /srv/data.py 7", "train /srv/train.py 9"];

fn of_level(level: Level) -> Selection {
    Selection {
        level,
        ..Selection::default()
    }
}

fn of_ranks(ranks: &str) -> Selection {
    Selection {
        ranks: Some(ranks.parse().unwrap()),
        ..Selection::default()
    }
}

/// Ranks of which each is at one of these stacks at each instant; those without a rank are a launcher.
fn job(instants: &[&[(Option<u32>, &[&str])]]) -> Vec<Snapshot> {
    let count = u32::try_from(instants.len()).unwrap();
    story(count, |instant, shot| {
        let processes = instants[usize::try_from(instant).unwrap()];
        for (pid, (rank, frames)) in (20..).zip(processes) {
            let doing = futex("0x1").at(frames);
            match rank {
                Some(rank) => shot.rank(*rank, pid, &doing),
                None => shot.process(pid, 1, &doing),
            };
        }
    })
}

/// Frame, ranks and threads of some nodes.
fn words(nodes: &[MergedNode]) -> Vec<(&str, &str, usize)> {
    let nodes = nodes.iter();
    nodes
        .map(|it| (it.frame.as_str(), it.ranks.as_str(), it.threads))
        .collect()
}

#[test]
fn threads_at_one_place_are_one_class_and_paths_fork_where_they_differ() {
    let snapshots = job(&[&[
        (Some(0), &MEETS),
        (Some(1), &MEETS),
        (Some(2), &MEETS),
        (Some(3), &LOADS),
        (None, &MEETS),
    ]]);
    let merged = Merged::of(&[&snapshots[0]], &of_level(Level::Focus));
    let classes: Vec<(&str, usize, usize)> = merged
        .classes
        .iter()
        .map(|class| (class.ranks.as_str(), class.rank_count, class.threads))
        .collect();
    assert_eq!(classes, [("0-2", 3, 4), ("3", 1, 1)]);
    assert_eq!(merged.classes[0].others[0].pids, [24]);
    let [root] = merged.tree.as_slice() else {
        panic!("one root: {:?}", merged.tree);
    };
    assert_eq!(
        (root.frame.as_str(), root.ranks.as_str(), root.threads),
        ("train (train.py)", "0-3", 5)
    );
    let expected = [
        ("reduce (dist.py:5)", "0-2", 4),
        ("load (data.py:7)", "3", 1),
    ];
    assert_eq!(words(&root.children), expected);
    assert_eq!(root.stay, None);
}

#[test]
fn lines_count_as_the_level_says() {
    let wait = "wait /usr/lib/python3.11/threading.py";
    let at = |line: u32| {
        let line = line.to_string();
        [
            format!("{wait} {line}"),
            format!("step /srv/model.py {line}"),
            format!("run /srv/pkg/loop.py {line}"),
        ]
    };
    let mut snapshots = story(1, |_, shot| {
        for rank in 0..2 {
            let frames = at(rank + 1);
            let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
            shot.rank(
                rank,
                20 + i32::try_from(rank).unwrap(),
                &futex("0x1").at(&frames),
            );
        }
    });
    let merged = |snapshots: &[Snapshot], level| Merged::of(&[&snapshots[0]], &of_level(level));
    let by_function = merged(&snapshots, Level::Function);
    assert_eq!(by_function.classes.len(), 1);
    assert_eq!(
        by_function.classes[0].frames,
        ["run (loop.py)", "step (model.py)", "wait (threading.py)"]
    );
    let by_focus = merged(&snapshots, Level::Focus);
    assert_eq!(by_focus.classes.len(), 2);
    assert_eq!(words(&by_focus.tree), [("run (loop.py)", "0,1", 2)]);
    assert_eq!(merged(&snapshots, Level::Line).tree.len(), 2);
    // A pattern is one of paths, as everywhere.
    snapshots[0].focus_files = vec!["pkg/**".to_owned()];
    let by_focus = merged(&snapshots, Level::Focus);
    let roots: Vec<(&str, bool)> = by_focus
        .tree
        .iter()
        .map(|it| (it.frame.as_str(), it.is_focus))
        .collect();
    assert_eq!(
        roots,
        [("run (loop.py:1)", true), ("run (loop.py:2)", true)]
    );
}

#[test]
fn main_threads_alone_where_they_are_asked_for_and_ranks_alone_too() {
    let snapshots = story(1, |_, shot| {
        for rank in 0..3 {
            let pid = 20 + 10 * i32::try_from(rank).unwrap();
            let process = shot.rank(rank, pid, &futex("0x1").at(&MEETS));
            add_thread(process, pid + 1, &futex("0x2").at(&LOADS));
        }
        shot.process(10, 1, &futex("0x1").at(&["monitor launch.py 9"]));
    });
    let main = Selection {
        threads: Threads::Main,
        ..Selection::default()
    };
    let all = Merged::of(&[&snapshots[0]], &Selection::default());
    assert_eq!(all.tree.iter().map(|it| it.threads).sum::<usize>(), 7);
    let main = Merged::of(&[&snapshots[0]], &main);
    let expected = [
        ("train (train.py)", "0-2", 3),
        ("monitor (launch.py:9)", "", 1),
    ];
    assert_eq!(words(&main.tree), expected);
    let of_ranks = Merged::of(&[&snapshots[0]], &of_ranks("0,2,7-9"));
    assert_eq!(words(&of_ranks.tree), [("train (train.py)", "0,2", 4)]);
}

#[test]
fn whose_stack_was_not_read_is_said_and_why() {
    let mut snapshots = job(&[&[(Some(0), &MEETS), (Some(1), &MEETS)]]);
    snapshots[0].processes[1].pyspy = None;
    let gap = Gap::new("python_stack", GapCode::TimedOut).of(identity(21));
    snapshots[0].gaps.push(gap);
    let merged = Merged::of(&[&snapshots[0]], &Selection::default());
    let unread: Vec<(GapCode, &str)> = merged
        .unread
        .iter()
        .map(|it| (it.code, it.ranks.as_str()))
        .collect();
    assert_eq!(unread, [(GapCode::TimedOut, "1")]);
    assert_eq!(words(&merged.tree), [("train (train.py)", "0", 1)]);
    let both = job(&[&[(Some(0), &MEETS), (Some(1), &MEETS)]]);
    let moves = Moves::between(&[&both[0]], &[&snapshots[0]], &Selection::default());
    let told: Vec<(&str, bool)> = moves
        .moves
        .iter()
        .map(|it| (it.ranks.as_str(), it.is_none()))
        .collect();
    assert_eq!(told, [("0", true)], "nothing is told of rank 1");
    assert_eq!(moves.unread, merged.unread);
}

#[test]
fn over_time_a_place_has_its_share_of_looks_and_since_when_it_is_held() {
    let snapshots = job(&[
        &[(Some(0), &LOADS), (Some(1), &LOADS)],
        &[(Some(0), &MEETS), (Some(1), &LOADS)],
        &[(Some(0), &LOADS), (Some(1), &LOADS)],
        &[(Some(0), &MEETS), (Some(1), &LOADS)],
    ]);
    let all: Vec<&Snapshot> = snapshots.iter().collect();
    let merged = Merged::of(&all, &Selection::default());
    let at = |instant: usize| snapshots[instant].capture.started_at;
    let [root] = merged.tree.as_slice() else {
        panic!("one root: {:?}", merged.tree);
    };
    let stay = root.stay.unwrap();
    assert_eq!(
        (stay.looks, stay.of, stay.now, stay.since),
        (8, 8, 2, Some(at(0)))
    );
    let expected = [
        ("load (data.py:7)", "0,1", 2),
        ("reduce (dist.py:5)", "0", 1),
    ];
    assert_eq!(words(&root.children), expected);
    let loads = root.children[0].stay.unwrap();
    assert_eq!((loads.looks, loads.of, loads.now), (6, 8, 1));
    assert_eq!(
        (loads.since, loads.last),
        (Some(at(0)), at(3)),
        "rank 1 never left"
    );
    let meets = root.children[1].stay.unwrap();
    assert_eq!(
        (meets.looks, meets.of, meets.now, meets.since),
        (2, 4, 1, Some(at(3)))
    );
}

#[test]
fn a_place_that_all_have_left_says_when_it_was_last_held() {
    let snapshots = job(&[&[(Some(0), &LOADS)], &[(Some(0), &MEETS)], &[]]);
    let all: Vec<&Snapshot> = snapshots.iter().collect();
    let merged = Merged::of(&all, &Selection::default());
    for class in &merged.classes {
        let stay = class.stay.unwrap();
        let last = usize::from(class.frames[1].starts_with("reduce"));
        assert_eq!((stay.now, stay.since), (0, None), "{class:?}");
        assert_eq!(stay.last, snapshots[last].capture.started_at);
    }
}

#[test]
fn between_two_instants_it_is_told_who_left_which_place_for_which() {
    let snapshots = job(&[
        &[
            (Some(0), &LOADS),
            (Some(1), &LOADS),
            (Some(2), &LOADS),
            (None, &["wait launch.py 9"]),
        ],
        &[(Some(0), &MEETS), (Some(1), &MEETS), (Some(2), &LOADS)],
    ]);
    let moves = Moves::between(&[&snapshots[0]], &[&snapshots[1]], &Selection::default());
    let told: Vec<(bool, bool, usize, &str)> = moves
        .moves
        .iter()
        .map(|it| {
            (
                it.from.is_some(),
                it.to.is_some(),
                it.common,
                it.ranks.as_str(),
            )
        })
        .collect();
    let expected = [
        (true, true, 1, "0,1"),
        (true, true, 2, "2"),
        (true, false, 0, ""),
    ];
    assert_eq!(told, expected);
    let still: Vec<bool> = moves.moves.iter().map(Move::is_none).collect();
    assert_eq!(still, [false, true, false]);
}

#[test]
fn two_sets_of_ranks_part_where_only_one_of_them_is() {
    let snapshots = job(&[&[(Some(0), &MEETS), (Some(1), &MEETS), (Some(3), &LOADS)]]);
    let of = |ranks: &str| Merged::of(&[&snapshots[0]], &of_ranks(ranks));
    let comparison = Comparison::of(&of("0-2"), &of("3"));
    let [root] = comparison.tree.as_slice() else {
        panic!("one root: {:?}", comparison.tree);
    };
    assert!(root.differs());
    let sides: Vec<(&str, Option<&str>, Option<&str>)> = root
        .children
        .iter()
        .map(|it| {
            let ranks =
                |side: &'_ Option<taskscope_diagnose::Side>| side.as_ref().map(|side| side.threads);
            assert!(ranks(&it.one).is_some() != ranks(&it.other).is_some());
            (
                it.frame.as_str(),
                it.one.as_ref().map(|side| side.ranks.as_str()),
                it.other.as_ref().map(|side| side.ranks.as_str()),
            )
        })
        .collect();
    assert_eq!(
        sides,
        [
            ("reduce (dist.py:5)", Some("0,1"), None),
            ("load (data.py:7)", None, Some("3"))
        ]
    );
    assert!(!Comparison::of(&of("0"), &of("1")).tree[0].differs());
}

#[test]
fn two_sets_are_who_is_there_of_the_ranks_asked_for_and_without_others_all_the_rest() {
    let snapshots = job(&[&[(Some(0), &MEETS), (Some(1), &MEETS), (Some(3), &LOADS)]]);
    let all = [&snapshots[0]];
    let sets = |ranks: &str, against: Option<&str>| {
        let set = |text: &str| text.parse::<RankSet>().unwrap();
        TwoSets::of(&all, &set(ranks), against.map(set).as_ref())
    };
    let (rest, named) = (sets("0-2", None), sets("3", Some("1-2")));
    assert_eq!(
        (rest.one.as_slice(), rest.other.as_slice()),
        (&[0, 1][..], &[3][..])
    );
    assert_eq!(
        (named.one.as_slice(), named.other.as_slice()),
        (&[3][..], &[1][..])
    );
    assert_eq!(rest.there.into_iter().collect::<Vec<_>>(), [0, 1, 3]);
    assert!(sets("0-3", None).other.is_empty());
    assert!(sets("7", None).one.is_empty());
    // Whatever ranks the selection names, it is the sets that count.
    let comparison = named.compared(&all, &of_ranks("0"));
    let ranks = |side: &Option<taskscope_diagnose::Side>| side.as_ref().map(|it| it.ranks.clone());
    let root = &comparison.tree[0];
    assert_eq!(
        (ranks(&root.one), ranks(&root.other)),
        (Some("3".to_owned()), Some("1".to_owned()))
    );
}

/// Which stack each thread of each rank has at each instant, of several nodes.
type Plan = Vec<Vec<Vec<Vec<usize>>>>;

fn plans() -> impl Strategy<Value = Plan> {
    let stacks = proptest::collection::vec(0..STACKS.len(), 1..4);
    let ranks = proptest::collection::vec(stacks, 0..4);
    let instants = proptest::collection::vec(ranks, 1..4);
    proptest::collection::vec(instants, 1..4)
}

/// Innermost first.
const STACKS: [&[&str]; 6] = [
    &[
        "reduce /srv/dist.py 5",
        "step /srv/train.py 9",
        "main /srv/train.py 3",
    ],
    &[
        "reduce /srv/dist.py 6",
        "step /srv/train.py 9",
        "main /srv/train.py 3",
    ],
    &["step /srv/train.py 9", "main /srv/train.py 3"],
    &["step /srv/train.py 9", "main /srv/train.py 4"],
    &[
        "wait /usr/lib/python3.12/threading.py 1",
        "run /srv/data.py 2",
    ],
    &[],
];

fn nodes(plan: &Plan) -> Vec<Snapshot> {
    let of_node = |(node, instants): (usize, &Vec<Vec<Vec<usize>>>)| {
        let count = u32::try_from(instants.len()).unwrap();
        story_of(&format!("node-{node}"), count, |instant, shot| {
            let ranks = &instants[usize::try_from(instant).unwrap()];
            for (index, threads) in (0_u32..).zip(ranks) {
                let pid = 20 + 10 * i32::try_from(index).unwrap();
                let doing = |stack: usize| futex("0x1").at(STACKS[stack]);
                let rank = index + 4 * u32::try_from(node).unwrap();
                let process = shot.rank(rank, pid, &doing(threads[0]));
                for (tid, stack) in (pid + 1..).zip(&threads[1..]) {
                    add_thread(process, tid, &doing(*stack));
                }
            }
        })
    };
    plan.iter().enumerate().flat_map(of_node).collect()
}

/// Every node of a tree, by its path.
fn flat(merged: &Merged) -> BTreeMap<Vec<&str>, &MergedNode> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<(Vec<&str>, &MergedNode)> =
        merged.tree.iter().map(|it| (Vec::new(), it)).collect();
    while let Some((mut path, node)) = waiting.pop() {
        path.push(&node.frame);
        waiting.extend(node.children.iter().map(|child| (path.clone(), child)));
        found.insert(path, node);
    }
    found
}

fn traces(snapshots: &[Snapshot]) -> usize {
    let processes = snapshots.iter().flat_map(|it| &it.processes);
    processes
        .filter_map(|it| it.pyspy.as_ref())
        .map(|it| it.traces.len())
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_order_in_which_snapshots_are_merged_does_not_matter(
        (plan, seed) in (plans(), any::<u64>()),
    ) {
        let snapshots = nodes(&plan);
        let in_order = Merged::of(&snapshots.iter().collect::<Vec<_>>(), &Selection::default());
        let mut shuffled: Vec<&Snapshot> = snapshots.iter().collect();
        // A linear congruence is as good as any order.
        let mut state = seed;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = usize::try_from(state >> 33).unwrap() % (index + 1);
            shuffled.swap(index, other);
        }
        prop_assert_eq!(Merged::of(&shuffled, &Selection::default()), in_order);
    }

    #[test]
    fn sums_are_right_at_every_node(plan in plans()) {
        let snapshots = nodes(&plan);
        let merged = Merged::of(&snapshots.iter().collect::<Vec<_>>(), &Selection::default());
        let all = traces(&snapshots);
        let is_over_time = plan.iter().any(|instants| instants.len() > 1);
        let size = |threads: usize, stay: Option<taskscope_diagnose::Stay>| {
            stay.map_or(threads, |stay| stay.looks)
        };
        let of_classes: usize = merged.classes.iter().map(|it| size(it.threads, it.stay)).sum();
        let of_roots: usize = merged.tree.iter().map(|it| size(it.threads, it.stay)).sum();
        prop_assert_eq!((of_classes, of_roots), (all, all));
        let classes: BTreeMap<Vec<&str>, usize> = merged.classes.iter()
            .map(|it| (it.frames.iter().map(String::as_str).collect(), size(it.threads, it.stay)))
            .collect();
        for (path, node) in flat(&merged) {
            prop_assert_eq!(node.stay.is_some(), is_over_time);
            let below: usize = node.children.iter().map(|it| size(it.threads, it.stay)).sum();
            let own = classes.get(&path).copied().unwrap_or(0);
            prop_assert_eq!(size(node.threads, node.stay), below + own, "{:?}", path);
            let ranks: RankSet = node.ranks.parse().unwrap();
            prop_assert_eq!((0..20).filter(|rank| ranks.has(*rank)).count(), node.rank_count);
            prop_assert!(node.children.iter().all(|child| child.rank_count <= node.rank_count));
            if let Some(stay) = node.stay {
                prop_assert!(stay.looks <= stay.of && stay.now <= node.threads, "{:?}", stay);
                prop_assert_eq!(stay.since.is_some(), stay.now > 0);
                prop_assert!(stay.since.is_none_or(|since| since <= stay.last));
            }
        }
    }

    #[test]
    fn parts_that_are_merged_apart_add_up_to_the_whole(plan in plans()) {
        // Of one instant, so that threads add up.
        let plan: Plan = plan.into_iter().map(|mut instants| { instants.truncate(1); instants }).collect();
        let snapshots = nodes(&plan);
        let all: Vec<&Snapshot> = snapshots.iter().collect();
        let (one, other) = all.split_at(all.len() / 2);
        let of = |some: &[&Snapshot]| Merged::of(some, &Selection::default());
        let (one, other, whole) = (of(one), of(other), of(&all));
        let (one, other, whole) = (flat(&one), flat(&other), flat(&whole));
        let threads = |part: &BTreeMap<Vec<&str>, &MergedNode>, path: &Vec<&str>| {
            part.get(path).map_or(0, |node| node.threads)
        };
        for (path, node) in &whole {
            prop_assert_eq!(node.threads, threads(&one, path) + threads(&other, path));
        }
        prop_assert!(one.keys().chain(other.keys()).all(|path| whole.contains_key(path)));
    }

    #[test]
    fn each_level_parts_what_the_one_above_has_together(plan in plans()) {
        let snapshots = nodes(&plan);
        let all: Vec<&Snapshot> = snapshots.iter().collect();
        let classes = |level| Merged::of(&all, &of_level(level)).classes.len();
        let (function, focus, line) = (classes(Level::Function), classes(Level::Focus), classes(Level::Line));
        prop_assert!(function <= focus && focus <= line, "{function} {focus} {line}");
    }

    #[test]
    fn every_thread_of_either_instant_is_told_once(plan in plans()) {
        let snapshots = nodes(&plan);
        let of_node = |node: usize| format!("node-{node}");
        let ends = |pick: fn(&[&Snapshot]) -> usize| -> Vec<&Snapshot> {
            (0..plan.len()).map(|node| {
                let mine: Vec<&Snapshot> = snapshots.iter().filter(|it| it.task.node == of_node(node)).collect();
                mine[pick(&mine)]
            }).collect()
        };
        let (before, after) = (ends(|_| 0), ends(|all| all.len() - 1));
        let moves = Moves::between(&before, &after, &Selection::default());
        let threads = |snapshots: &[&Snapshot]| -> std::collections::BTreeSet<(String, Option<u64>)> {
            snapshots.iter().flat_map(|it| it.processes.iter().flat_map(|process| {
                let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
                traces.map(|trace| (it.task.node.clone(), trace.os_thread_id))
            })).collect()
        };
        let (was, is) = (threads(&before), threads(&after));
        let told: usize = moves.moves.iter().map(|it| it.threads).sum();
        prop_assert_eq!(told, was.union(&is).count());
        let there: usize = moves.moves.iter().filter(|it| it.to.is_some()).map(|it| it.threads).sum();
        prop_assert_eq!(there, is.len());
        let same = Moves::between(&after, &after, &Selection::default());
        prop_assert!(same.moves.iter().all(Move::is_none));
    }

    #[test]
    fn two_sets_of_ranks_laid_over_each_other_are_the_whole(plan in plans()) {
        let snapshots = nodes(&plan);
        let all: Vec<&Snapshot> = snapshots.iter().collect();
        let whole = Merged::of(&all, &Selection::default());
        let (one, other) = (Merged::of(&all, &of_ranks("0-5")), Merged::of(&all, &of_ranks("6-99")));
        let comparison = Comparison::of(&one, &other);
        let whole = flat(&whole);
        let mut waiting: Vec<(Vec<&str>, &taskscope_diagnose::Both)> =
            comparison.tree.iter().map(|it| (Vec::new(), it)).collect();
        let mut count = 0;
        while let Some((mut path, both)) = waiting.pop() {
            path.push(&both.frame);
            let threads = |side: &Option<taskscope_diagnose::Side>| side.as_ref().map_or(0, |it| it.threads);
            prop_assert_eq!(whole[&path].threads, threads(&both.one) + threads(&both.other));
            waiting.extend(both.children.iter().map(|child| (path.clone(), child)));
            count += 1;
        }
        prop_assert_eq!(count, whole.len());
        prop_assert!(!Comparison::of(&one, &one).tree.iter().any(taskscope_diagnose::Both::differs));
    }

    #[test]
    fn one_after_the_other_is_as_all_at_once(plan in plans()) {
        let snapshots = nodes(&plan);
        let mut merging = Merging::new(Selection::default());
        for snapshot in &snapshots {
            // Decoded anew, so that nothing of it outlives it.
            let text = serde_json::to_string(snapshot).unwrap();
            let decoded: Snapshot = serde_json::from_str(&text).unwrap();
            merging.add(&decoded, decoded.capture.started_at);
        }
        let all: Vec<&Snapshot> = snapshots.iter().collect();
        prop_assert_eq!(merging.finish(), Merged::of(&all, &Selection::default()));
    }
}
