//! Diffs of a hand-made snapshot and what became of it.

use std::time::Duration;

use model::{CgroupLevel, CgroupMemory, Frame, ProcessId, SharedFrame, Snapshot};

use super::{Kind, compare, page};
use crate::page::tests::{PLAIN, a_process, snapshot};

/// Ten seconds later, with nothing else changed.
fn later(snapshot: &Snapshot) -> Snapshot {
    let mut later = snapshot.clone();
    later.capture.started_at = later.capture.started_at.after(Duration::from_secs(10));
    later.capture.sequence += 1;
    later.capture.id.sequence += 1;
    later
}

fn lines(from: &Snapshot, to: &Snapshot) -> Vec<String> {
    let page = page(&compare(from, to), PLAIN);
    page.lines().skip(2).map(str::to_owned).collect()
}

/// The process of `pid`, to change.
fn process(snapshot: &mut Snapshot, pid: i32) -> &mut model::Process {
    let mut processes = snapshot.processes.iter_mut();
    processes.find(|process| process.pid == pid).unwrap()
}

fn move_main_thread(snapshot: &mut Snapshot, line: i32) {
    let traces = &mut process(snapshot, 101).pyspy.as_mut().unwrap().traces;
    let frame = Frame {
        line,
        ..(*traces[0].frames[1]).clone()
    };
    traces[0].frames[1] = SharedFrame::from(frame);
    traces[0].frames.remove(0);
}

#[test]
fn where_nothing_changed_the_page_is_one_line_and_where_each_rank_stands() {
    let from = snapshot();
    let expected = [
        "",
        "Stands where it stood",
        "  rank 0 (101): still at all_reduce (comm.py:41) < step (train.py:88) < …, waits in the kernel: futex_do_wait",
        "  rank 0 (101) thread prefetch: still at run (data.py:7)",
        "",
        "Nothing moved.",
    ];
    assert_eq!(lines(&from, &later(&from)), expected);
}

#[test]
fn what_came_and_went_and_moved_is_told_and_the_most_telling_first() {
    let from = snapshot();
    let mut to = later(&from);
    to.processes.retain(|process| process.pid != 103);
    let new = a_process(104, 101, 'S', &["/usr/bin/cat", "x"], None, "pipe_read");
    to.processes.push(serde_json::from_value(new).unwrap());
    to.processes[3].identity = ProcessId {
        pid: 104,
        start_time_ticks: 9,
    };
    move_main_thread(&mut to, 92);
    process(&mut to, 101).memory.as_mut().unwrap().rss_bytes = 300 << 20;
    process(&mut to, 101).proc.utime_ticks = Some(900);
    process(&mut to, 102).state = 'S';
    to.gaps.retain(|gap| gap.what == "python_stack");
    let expected = [
        "",
        "Ended",
        "  103: is gone: [python3]",
        "",
        "Came",
        "  104: came, from 101: cat x",
        "",
        "State",
        "  rank 1 (102): disk sleep (D) -> sleeping",
        "",
        "Stands where it stood",
        "  rank 0 (101) thread prefetch: still at run (data.py:7)",
        "",
        "Moved",
        "  rank 0 (101): all_reduce (comm.py:41) < step (train.py:88) < … -> step (train.py:92) < main (train.py:120) < …",
        "",
        "Memory (RSS)",
        "  rank 0 (101): 240 MiB -> 300 MiB",
        "",
        "Seen again",
        "  rank 0 (101), rank 1 (102): task/*/stack: denied",
        "",
        "Done meanwhile",
        "  PID  PART    STEP  CPU     SWITCHES  READ  WRITTEN",
        "  101  rank 0        50.0 %  ?         ?     ?",
        "  2 processes did nothing: 100, 102",
    ];
    assert_eq!(lines(&from, &to), expected);
}

#[test]
fn a_kill_for_lack_of_memory_comes_first() {
    let level = |kills| CgroupLevel {
        hierarchy: "unified".to_owned(),
        memory: Some(CgroupMemory {
            oom_kills: Some(kills),
            ..CgroupMemory::default()
        }),
        path: "/sys/fs/cgroup/job".to_owned(),
        ..CgroupLevel::default()
    };
    let mut from = snapshot();
    from.cgroup.chain = vec![level(1)];
    let mut to = later(&from);
    to.cgroup.chain = vec![level(3)];
    process(&mut to, 102).state = 'Z';
    process(&mut to, 102).proc.exit_signal = Some(9);
    let diff = compare(&from, &to);
    let texts: Vec<(Kind, &str)> = diff
        .changes
        .iter()
        .map(|change| (change.kind, change.text.as_str()))
        .collect();
    assert_eq!(
        texts[..2],
        [
            (
                Kind::Cgroup,
                "2 processes were killed for lack of memory (/sys/fs/cgroup/job)"
            ),
            (
                Kind::Went,
                "killed by signal 9; its parent 100 has not waited for it"
            ),
        ]
    );
}

#[test]
fn after_a_restart_of_the_machine_nothing_else_is_compared() {
    let mut from = snapshot();
    from.machine.boot_id = Some("a".to_owned());
    let mut to = later(&from);
    to.machine.boot_id = Some("b".to_owned());
    let diff = compare(&from, &to);
    assert_eq!(diff.changes.len(), 1);
    assert_eq!(diff.changes[0].kind, Kind::Reboot);
    assert_eq!(diff.activities, []);
}

#[test]
fn where_the_clock_was_set_back_there_are_no_rates() {
    let from = snapshot();
    let mut to = later(&from);
    to.capture.started_at = from.capture.started_at.before(Duration::from_hours(1));
    let diff = compare(&from, &to);
    assert_eq!(diff.seconds, None);
    assert!(page(&diff, PLAIN).contains("the clock was set back"));
}
