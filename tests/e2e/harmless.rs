//! Whatever becomes of the collector, the task goes on: nothing is ever stopped, traced or left behind.

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{DEADLINE, PythonJob, newest_python, process_exists, wait_until};

use crate::support::{repetitions, sandbox, wait_for_snapshot, wait_for_stored};

/// How often what depends on the instant is tried; a variable says otherwise.
const REPETITIONS: u64 = 20;

/// Threads that wait, one that comes and goes, and a main thread that works.
const JOB: &str = "
import threading
never = threading.Event()
for _ in range(8):
    threading.Thread(target=never.wait, daemon=True).start()
print('ready', flush=True)
while True:
    short = threading.Thread(target=sum, args=(range(1000),))
    short.start()
    short.join()
";

fn tasks(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let names = tasks.into_iter().flatten().flatten();
    names
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// Panics if a thread is stopped or traced. Returns how many were looked at.
#[track_caller]
fn assert_untouched(pid: i32) -> usize {
    let mut count = 0;
    for tid in tasks(pid) {
        let path = format!("/proc/{pid}/task/{tid}/status");
        // A thread may have ended.
        let Ok(status) = std::fs::read_to_string(Path::new(&path)) else {
            continue;
        };
        let (Some(state), Some(tracer)) = (line(&status, "State"), line(&status, "TracerPid"))
        else {
            continue;
        };
        assert!(!state.starts_with(['T', 't']), "thread {tid} is {state}");
        assert_eq!(tracer, "0", "thread {tid} is traced");
        count += 1;
    }
    count
}

/// CPU time of the process, ticks.
fn work(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn children(pid: i32) -> Vec<i32> {
    let lists = tasks(pid)
        .into_iter()
        .filter_map(|tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok());
    let lists: String = lists.collect();
    lists
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

#[test]
fn a_collector_that_is_killed_at_any_instant_leaves_the_task_running() {
    let job = PythonJob::new(newest_python(), JOB).start();
    let pid = job.pid().to_string();
    for repetition in 0..repetitions(REPETITIONS) {
        let sandbox = sandbox();
        let collector = sandbox.spawn(["attach", "--pid", &pid, "--interval", "100ms"]);
        // Spread over start, first capture and several more; the same from run to run.
        let instant = Duration::from_micros(repetition * 7_919_000 % 900_000);
        let began = Instant::now();
        let mut helpers = Vec::new();
        while began.elapsed() < instant {
            assert!(assert_untouched(job.pid()) > 0);
            helpers = children(collector.pid());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!collector.has_ended(), "{}", collector.stderr());
        collector.signal(9);
        assert!(assert_untouched(job.pid()) >= 9);
        let before = work(job.pid());
        wait_until(DEADLINE, || {
            assert_untouched(job.pid());
            work(job.pid()) > before
        });
        wait_until(DEADLINE, || {
            !helpers.iter().any(|&helper| process_exists(helper))
        });
    }
}

#[test]
fn nobody_is_seen_to_trace_the_task_while_it_is_captured() {
    let job = PythonJob::new(newest_python(), JOB).start();
    let sandbox = sandbox();
    let pid = job.pid().to_string();
    let running = sandbox.spawn(["attach", "--pid", &pid, "--interval", "100ms"]);
    let mut looks = 0;
    wait_until(DEADLINE, || {
        looks += assert_untouched(job.pid());
        crate::support::stored(&sandbox).len() >= 10
    });
    assert!(looks > 100, "{looks}");
    running.signal(15);
    running.wait(DEADLINE).success();
    assert!(assert_untouched(job.pid()) >= 9);
}

/// The helper of `collector` that reads the memory of processes.
fn memory_helper(collector: i32) -> Option<i32> {
    children(collector).into_iter().find(|child| {
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm"));
        comm.is_ok_and(|comm| comm == "taskscope-mem\n")
    })
}

/// Stops the helper, which is then like one that hangs in the kernel. Returns its PID.
fn hang(collector: i32) -> i32 {
    let mut helper = None;
    wait_until(DEADLINE, || {
        helper = memory_helper(collector);
        helper.is_some()
    });
    // What `ps` shows says whose it is.
    let shown = std::fs::read(format!("/proc/{}/cmdline", helper.unwrap())).unwrap();
    assert_eq!(shown, b"taskscope\0memory-helper\0");
    testkit::send_signal(helper.unwrap(), 19);
    helper.unwrap()
}

#[test]
fn a_helper_that_hangs_costs_a_gap_and_neither_a_thread_nor_the_end() {
    let job = PythonJob::new(newest_python(), JOB).start();
    let sandbox = sandbox();
    let pid = job.pid().to_string();
    let running = sandbox.spawn(["attach", "--pid", &pid, "--interval", "400ms"]);
    wait_for_stored(&sandbox, 2);
    let first = hang(running.pid());
    let snapshot = wait_for_snapshot(&sandbox, |snapshot| {
        let mut gaps = snapshot["gaps"].as_array().unwrap().iter();
        gaps.any(|gap| gap["what"] == "cmdline" && gap["code"] == "blocked_read")
    });
    assert!(
        snapshot["processes"][0]["exe"].is_string(),
        "it needs no lock"
    );
    // It is read again, by another helper.
    let id = snapshot["capture"]["id"].as_str().unwrap().to_owned();
    wait_for_snapshot(&sandbox, |later| {
        later["capture"]["id"].as_str().unwrap() > id.as_str()
            && !later["processes"][0]["cmdline"]
                .as_array()
                .unwrap()
                .is_empty()
    });
    wait_until(DEADLINE, || !process_exists(first));
    let second = hang(running.pid());
    assert_ne!(second, first);
    running.signal(15);
    running.wait(DEADLINE).success();
    wait_until(DEADLINE, || !process_exists(second));
    assert!(assert_untouched(job.pid()) >= 9);
}
