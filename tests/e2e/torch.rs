//! Real `torch.distributed` jobs on CPU (gloo), a rank of which stalls in its own way. They run where a Python has torch: the
//! system's, or the one that `TASKSCOPE_TORCH` names. One of them by default, all with that variable: each takes four ranks with a
//! quarter of a GiB.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::{Sandbox, wait_until};

use crate::support::{sandbox, stored};
use crate::why::{PRELUDE, why};

const VARIABLE: &str = "TASKSCOPE_TORCH";
/// Four times importing torch on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// Rank 2 stalls after eight steps, as the first argument says; the others wait for it.
const JOB: &str = r#"
import os, queue, threading, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
dist.init_process_group("gloo")
how, rank = sys.argv[1], dist.get_rank()
stalls = rank == 2
class Samples(Dataset):
    def __len__(self):
        return 10 ** 6
    def __getitem__(self, index):
        if how == "loader" and stalls and index >= 16:
            fetch_remote()
        return torch.ones(4)
def fetch_remote():
    while True:
        time.sleep(600)
def decode_next():
    threading.Event().wait()
def produce(batches):
    for number in range(10 ** 6):
        if how == "thread" and stalls and number == 8:
            decode_next()
        batches.put(torch.ones(4))
def batches():
    if how == "loader":
        yield from DataLoader(Samples(), batch_size=2, num_workers=1)
    ready = queue.Queue(2)
    threading.Thread(target=produce, args=(ready,), name="producer", daemon=True).start()
    while True:
        yield ready.get()
def diverge():
    while True:
        pass
weight = torch.zeros(4)
for step, batch in enumerate(batches()):
    if stalls and step == 8 and how == "loop":
        diverge()
    if stalls and step == 8 and how == "stop":
        os.kill(os.getpid(), 19)
    weight += batch.reshape(-1, 4).sum(0)
    dist.all_reduce(weight)
    time.sleep(0.1)
"#;

#[expect(
    clippy::disallowed_methods,
    reason = "which Python has torch is said in the environment"
)]
fn named() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// The Python with torch, where there is one.
fn python() -> Option<PathBuf> {
    let python = named().filter(|path| path.is_absolute());
    let python = python.unwrap_or_else(|| PathBuf::from("/usr/bin/python3"));
    let has_torch = Command::new(&python)
        .args(["-c", "import torch.distributed.run"])
        .output();
    has_torch
        .is_ok_and(|it| it.status.success())
        .then_some(python)
}

/// Runs the job that stalls so until `why` names this cause; returns what was said while it ran, and the answer.
fn stalled(python: &std::path::Path, how: &str, cause: &str) -> (String, Value) {
    let sandbox: Sandbox = sandbox();
    sandbox.write("job.py", &format!("{PRELUDE}{JOB}"));
    let python = python.to_str().unwrap();
    let launcher = [
        "-m",
        "torch.distributed.run",
        "-r",
        "1",
        "-t",
        "1",
        "--log_dir",
        "log",
        "--nproc_per_node=4",
        "--master_port=0",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=127.0.0.1:0",
        "job.py",
        how,
    ];
    let command = ["run", "--interval", "1s", "--", python];
    let running = sandbox.spawn(command.iter().chain(&launcher));
    let mut last = Value::Null;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until(PATIENCE, || {
            last = if stored(&sandbox).len() > 3 {
                why(&sandbox, &[])
            } else {
                Value::Null
            };
            // A stop is seen before it is established who waits for it.
            let victims = last["victims"].as_array().map_or(0, Vec::len);
            last["cause"] == cause && victims == 3
        });
        wait_until(PATIENCE, || is_told(&sandbox));
    }));
    if how == "stop"
        && let Some(pid) = last["culprit"]["pid"].as_i64()
    {
        _ = Command::new("kill")
            .args(["-CONT", &pid.to_string()])
            .status();
    }
    running.signal(15);
    let output = running.wait(PATIENCE);
    assert!(found.is_ok(), "no {cause}: {last:#}\n{output}");
    (output.stderr, last)
}

/// Whether a stored snapshot has a finding of ours.
fn is_told(sandbox: &Sandbox) -> bool {
    stored(sandbox).iter().rev().take(8).any(|id| {
        let snapshot = crate::support::snapshot(sandbox, id);
        let mut findings = snapshot["findings"].as_array().unwrap().iter();
        findings.any(|finding| finding.get("plugin").is_none() && finding["severity"] == "error")
    })
}

#[track_caller]
fn names(how: &str, cause: &str, function: &str, words: &str) {
    if how != "thread" && named().is_none() {
        eprintln!("SKIPPED: one job with torch is enough; {VARIABLE} set runs all of them");
        return;
    }
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Python has torch; {VARIABLE}=/path/to/python names one");
        return;
    };
    let (stderr, answer) = stalled(&python, how, cause);
    assert_eq!(answer["verdict"], "hung");
    assert_eq!(answer["culprit"]["rank"], 2, "{answer:#}");
    assert_eq!(
        answer["culprit"]["frame"]["function"], function,
        "{answer:#}"
    );
    let victims = answer["victims"].as_array().unwrap().iter();
    let ranks: Vec<u64> = victims.filter_map(|it| it["rank"].as_u64()).collect();
    assert_eq!(ranks, [0, 1, 3], "{answer:#}");
    assert!(
        answer["summary"].as_str().unwrap().contains(words),
        "{answer:#}"
    );
    // What is told to end may come to another stand: a data loader that waits for its worker.
    let words = format!("[taskscope] hung ({cause})");
    let told = stderr.lines().filter(|line| line.starts_with(&words));
    assert_eq!(told.count(), 1, "{stderr}");
}

#[test]
fn a_thread_that_prepares_batches_and_stands_still() {
    names("thread", "rank-behind", "decode_next", "(producer)");
}

#[test]
fn a_worker_of_a_data_loader_that_stands_still() {
    names("loader", "rank-behind", "batches", "fetch_remote (job.py:");
}

#[test]
fn a_rank_that_turns_in_a_loop() {
    names("loop", "rank-behind", "diverge", "uses a processor");
}

#[test]
fn a_rank_that_is_stopped() {
    names("stop", "stopped", "<module>", "stopped by a signal");
}
