use model::SharedFrame;

use super::*;

fn frame(name: &str, file: &str, line: i32) -> SharedFrame {
    Frame {
        filename: file.to_owned(),
        is_entry: true,
        is_shim_entry: false,
        line,
        locals: None,
        module: None,
        name: name.to_owned(),
        short_filename: None,
    }
    .into()
}

/// Stacks are given innermost first, with the rank of their process.
fn merged(stacks: &[(Option<u64>, &[SharedFrame])], level: Level) -> Merged {
    let mut labels = Labels::default();
    let mut classes: HashMap<Vec<u32>, Vec<Member>> = HashMap::new();
    for (pid, (rank, frames)) in (1..).zip(stacks) {
        let place = labels.place(frames, level, &["train.py".to_owned()]);
        let process = ProcessId {
            pid,
            start_time_ticks: 1,
        };
        classes.entry(place).or_default().push(Member {
            node: 0,
            process,
            rank: *rank,
        });
    }
    finish(&labels, &classes)
}

#[test]
fn threads_at_one_place_are_one_class_and_paths_fork_where_they_differ() {
    let meets = [
        frame("reduce", "/lib/d.py", 5),
        frame("train", "/srv/train.py", 9),
    ];
    let loads = [
        frame("load", "/srv/data.py", 7),
        frame("train", "/srv/train.py", 9),
    ];
    let stacks: [(Option<u64>, &[SharedFrame]); 5] = [
        (Some(0), &meets),
        (Some(1), &meets),
        (Some(2), &meets),
        (Some(3), &loads),
        (None, &meets),
    ];
    let merged = merged(&stacks, Level::Function);
    let classes: Vec<(&str, usize, &[i32])> = merged
        .classes
        .iter()
        .map(|class| (class.ranks.as_str(), class.threads, class.pids.as_slice()))
        .collect();
    assert_eq!(classes, [("0-2", 4, &[5][..]), ("3", 1, &[][..])]);
    let [root] = merged.tree.as_slice() else {
        panic!("one root: {:?}", merged.tree);
    };
    assert_eq!(
        (root.frame.as_str(), root.ranks.as_str(), root.threads),
        ("train (train.py:9)", "0-3", 5)
    );
    let below: Vec<(&str, &str)> = root
        .children
        .iter()
        .map(|node| (node.frame.as_str(), node.ranks.as_str()))
        .collect();
    assert_eq!(
        below,
        [("reduce (d.py:5)", "0-2"), ("load (data.py:7)", "3")]
    );
}

#[test]
fn lines_count_in_focus_files_and_for_the_innermost_frame_of_the_job_alone() {
    let at = |line| {
        [
            frame("wait", "/usr/lib/python3.11/threading.py", line),
            frame("step", "/srv/model.py", line),
            frame("run", "/srv/loop.py", line),
        ]
    };
    let (one, other) = (at(1), at(2));
    let stacks: [(Option<u64>, &[SharedFrame]); 2] = [(Some(0), &one), (Some(1), &other)];
    let merged_by_function = merged(&stacks, Level::Function);
    assert_eq!(merged_by_function.classes.len(), 2);
    assert_eq!(merged_by_function.tree[0].frame, "run (loop.py)");
    assert_eq!(merged_by_function.tree[0].ranks, "0,1");
    assert_eq!(merged(&stacks, Level::Line).tree.len(), 2);
}
