//! `why` and `show --merged`: real jobs that get stuck in their own ways, and one that only looks so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{DEADLINE, Sandbox, newest_python, wait_until};

use crate::support::{folders, sandbox, snapshot, stored, wait_for_stored};

/// So that SIGTERM runs what ends the children, and who is left ends by itself.
pub(crate) const PRELUDE: &str =
    "import signal, sys; signal.signal(15, lambda *_: sys.exit(1)); signal.alarm(600)\n";

/// Runs `script` under taskscope until `why` names this cause; returns the answer. The job is ended.
#[track_caller]
fn answer(script: &str, cause: &str) -> (Sandbox, Value) {
    let sandbox = sandbox();
    sandbox.write("job.py", &format!("{PRELUDE}{script}"));
    let python = newest_python().path.to_str().unwrap();
    let command = ["run", "--interval", "500ms", "--", python, "-u", "job.py"];
    let running = sandbox.spawn(command);
    let mut last = Value::Null;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for_stored(&sandbox, 3);
        wait_until(DEADLINE, || {
            last = why(&sandbox, &[]);
            last["cause"] == cause
        });
    }));
    running.signal(15);
    _ = running.wait(DEADLINE);
    assert!(found.is_ok(), "no {cause}: {last:#}");
    resolves(&sandbox, &last);
    (sandbox, last)
}

pub(crate) fn why(sandbox: &Sandbox, more: &[&str]) -> Value {
    let arguments = ["why", "--json"].iter().chain(more);
    let output = sandbox.run(arguments).success();
    serde_json::from_str(&output.stdout).unwrap()
}

/// Every pointer of the answer, and of what was found beside it, leads to the value that it cites.
#[track_caller]
pub(crate) fn resolves(sandbox: &Sandbox, answer: &Value) {
    let evidence = answer["evidence"].as_array().unwrap();
    assert!(!evidence.is_empty(), "{answer:#}");
    let mut documents = BTreeMap::new();
    let findings = answer["findings"].as_array().unwrap().iter();
    let beside = findings.flat_map(|it| it["evidence"].as_array().unwrap());
    let twin = answer["twin"]["differences"]
        .as_array()
        .into_iter()
        .flatten();
    let differing = twin.flat_map(|it| it["evidence"].as_array().unwrap());
    for item in evidence.iter().chain(beside).chain(differing) {
        let id = item["snapshot"].as_str().unwrap();
        let document =
            documents
                .entry(id)
                .or_insert_with(|| match id.strip_prefix("obituaries/") {
                    Some(name) => record(sandbox, name),
                    None => snapshot(sandbox, id),
                });
        let pointer = item["path"].as_str().unwrap();
        assert_eq!(document.pointer(pointer), Some(&item["value"]), "{pointer}");
    }
}

/// A record of ends.
fn record(sandbox: &Sandbox, name: &str) -> Value {
    let folders = folders(&sandbox.path(".taskscope"), "obituaries");
    let mut paths = folders.iter().map(|folder| folder.join(name));
    let path = paths.find(|path| path.exists()).unwrap();
    let script = "import gzip, sys\nprint(gzip.open(sys.argv[1], 'rt').read())";
    let mut python = Command::new(&newest_python().path);
    let output = python.args(["-c", script]).arg(path).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn threads_that_take_two_locks_in_opposite_order() {
    let script = "import threading, time\n\
                  one, two = threading.Lock(), threading.Lock()\n\
                  met = threading.Barrier(2)\n\
                  def take(first, second):\n\
                  \x20   with first:\n\
                  \x20       met.wait()\n\
                  \x20       with second:\n\
                  \x20           pass\n\
                  threads = [threading.Thread(target=take, args=pair, daemon=True) for pair in ((one, two), (two, one))]\n\
                  [thread.start() for thread in threads]\n\
                  [thread.join() for thread in threads]\n";
    let (sandbox, answer) = answer(script, "deadlock");
    assert_eq!(answer["verdict"], "hung");
    assert_eq!(answer["culprit"]["frame"]["function"], "take");
    assert_eq!(answer["culprit"]["frame"]["line"], 8);
    // What was said then: a later snapshot of a busy machine may lack a stack.
    let cited = answer["evidence"].as_array().unwrap().iter();
    let at = cited
        .filter_map(|it| it["snapshot"].as_str())
        .max()
        .unwrap();
    let explain = ["why", "--explain", "--at", at];
    let page = sandbox.run(explain).success().stdout;
    for words in [
        "hung (deadlock): Deadlock in ",
        "> take (job.py:8)",
        "what to try",
        "holds deadlock-of-threads",
        "refuted if",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // The same snapshots, the same text, in whichever order a service lists them.
    assert_eq!(page, sandbox.run(explain).success().stdout);
    let (from, to) = (sandbox.path(".taskscope"), sandbox.path("copy"));
    copy_backwards(&from, &to);
    let elsewhere = ["why", "copy", "--explain", "--at", at];
    assert_eq!(page, sandbox.run(elsewhere).success().stdout);
}

/// Copies a store, the last file first.
fn copy_backwards(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    let entries = std::fs::read_dir(from).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.into_iter().rev() {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_backwards(&path, &copy);
        } else if path.is_file() {
            std::fs::copy(&path, copy).unwrap();
        }
    }
}

/// Three ranks that meet through a service of the launcher; rank 1 opens a FIFO that nobody writes to.
pub(crate) const RANKS: &str = r#"
import os, socket, subprocess, sys, threading
if "rank" not in sys.argv:
    service = socket.socket(); service.bind(("127.0.0.1", 0)); service.listen(8)
    os.mkfifo("shard")
    def serve():
        ends = [service.accept()[0] for _ in range(3)]
        while True:
            [end.recv(1) for end in ends]
            [end.sendall(b"x") for end in ends]
    threading.Thread(target=serve, daemon=True).start()
    ranks = [subprocess.Popen([sys.executable, "job.py", "rank", str(service.getsockname()[1])],
             env=dict(os.environ, RANK=str(n), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")) for n in range(3)]
    try:
        sys.exit(max(rank.wait() for rank in ranks))
    finally:
        [rank.kill() for rank in ranks]
meeting = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
def exchange():
    meeting.sendall(b"x")
    return meeting.recv(1)
def load(number):
    if number == 2 and os.environ["RANK"] == "1":
        open("shard").read()
for number in range(5):
    load(number)
    exchange()
"#;

#[test]
fn the_rank_that_the_others_wait_for() {
    let (sandbox, answer) = answer(RANKS, "rank-behind");
    assert_eq!(answer["culprit"]["rank"], 1, "{answer:#}");
    assert_eq!(answer["culprit"]["frame"]["function"], "load");
    let victims = answer["victims"].as_array().unwrap();
    let ranks: Vec<&Value> = victims.iter().map(|victim| &victim["rank"]).collect();
    assert_eq!(ranks, [0, 2]);
    let id = answer["evidence"][0]["snapshot"].as_str().unwrap();
    let merged = sandbox
        .run(["show", "--merged", "--at", id])
        .success()
        .stdout;
    assert!(
        merged.contains("exchange (job.py:22)  [ranks 0,2, 2 threads]"),
        "{merged}"
    );
    merged_stacks_say_the_same(&sandbox, id);
}

/// Ranks 0 and 2 are at one place, rank 1 at another: in one snapshot, over time, and set beside each other.
#[track_caller]
fn merged_stacks_say_the_same(sandbox: &Sandbox, id: &str) {
    let json = |arguments: &[&str]| -> Value {
        let output = sandbox.run(arguments.iter().chain(&["--json"])).success();
        serde_json::from_str(&output.stdout).unwrap()
    };
    let waiting = |document: &Value| -> Value {
        let mut classes = document["classes"].as_array().unwrap().iter();
        let found = classes.find(|class| class["ranks"] == "0,2");
        found.unwrap_or_else(|| panic!("{document:#}")).clone()
    };
    assert_eq!(
        waiting(&json(&["show", "--merged", "--at", id]))["threads"],
        2
    );
    let of_main = ["show", "--merged", "--threads", "main", "--ranks", "0-2"];
    let over_time: Vec<&str> = of_main
        .into_iter()
        .chain(["--last", "2", "--at", id])
        .collect();
    let merged = json(&over_time);
    assert_eq!(merged["looked"]["snapshots"], 2, "{merged:#}");
    let stay = &waiting(&merged)["stay"];
    assert_eq!(stay["looks"], stay["of"], "{stay}");
    assert_eq!(stay["now"], 2, "{stay}");
    rank_1_is_alone(&json(&["diff", "--ranks", "1", "--at", id]));
    let moves = json(&["diff", "--merged", "--from", id, "--to", id]);
    let moves = moves["moves"].as_array().unwrap();
    assert!(
        !moves.is_empty() && moves.iter().all(|it| it["from"] == it["to"]),
        "{moves:#?}"
    );
    let refused = sandbox.run(["diff", "--ranks", "7", "--at", id]);
    assert!(
        refused.stderr.contains("there is no rank 7; there are 0-2"),
        "{}",
        refused.stderr
    );
}

/// Both sets of ranks stand in the same frames up to where rank 1 calls what the others do not.
#[track_caller]
fn rank_1_is_alone(compared: &Value) {
    assert_eq!(
        (&compared["ranks"], &compared["against"]),
        (&"1".into(), &"0,2".into())
    );
    let mut waiting: Vec<&Value> = compared["tree"].as_array().unwrap().iter().collect();
    let mut alone = Vec::new();
    while let Some(both) = waiting.pop() {
        if both["other"].is_null() {
            alone.push(both["frame"].as_str().unwrap());
        } else {
            waiting.extend(both["children"].as_array().unwrap());
        }
    }
    assert_eq!(alone, ["load (job.py:25)"], "{compared:#}");
}

#[test]
fn a_child_whose_output_nobody_reads() {
    let script = "import subprocess, sys\n\
                  if 'child' in sys.argv:\n\
                  \x20   [print('line %d' % n) for n in range(10 ** 6)]\n\
                  child = subprocess.Popen([sys.executable, 'job.py', 'child'], stdout=subprocess.PIPE)\n\
                  try:\n\
                  \x20   child.wait()\n\
                  finally:\n\
                  \x20   child.kill()\n";
    let (_, answer) = answer(script, "pipe-full");
    assert_eq!(answer["verdict"], "hung");
}

#[test]
fn a_worker_that_is_stopped() {
    let script = "import os, signal, subprocess, time\n\
                  child = subprocess.Popen(['sleep', '1000'])\n\
                  os.kill(child.pid, signal.SIGSTOP)\n\
                  try:\n\
                  \x20   child.wait()\n\
                  finally:\n\
                  \x20   child.kill()\n";
    let (_, answer) = answer(script, "stopped");
    assert_eq!(answer["culprit"]["frame"], Value::Null);
    assert_eq!(answer["victims"].as_array().unwrap().len(), 1);
}

#[test]
fn a_forked_child_with_the_lock_of_a_thread_that_it_does_not_have() {
    let script = "import os, threading, time, signal\n\
                  lock, held = threading.Lock(), threading.Event()\n\
                  def keep():\n\
                  \x20   with lock:\n\
                  \x20       held.set()\n\
                  \x20       time.sleep(1)\n\
                  threading.Thread(target=keep).start()\n\
                  held.wait()\n\
                  child = os.fork()\n\
                  if child == 0:\n\
                  \x20   signal.alarm(300)\n\
                  \x20   with lock:\n\
                  \x20       os._exit(0)\n\
                  try:\n\
                  \x20   os.waitpid(child, 0)\n\
                  finally:\n\
                  \x20   os.kill(child, 9)\n";
    let (_, answer) = answer(script, "inherited-lock");
    assert_eq!(answer["culprit"]["frame"]["line"], 13);
}

#[test]
fn a_job_that_gets_on_is_well_on_every_snapshot_from_the_third_on() {
    let script = "import itertools, os, time\n\
                  def optimize(step):\n\
                  \x20   time.sleep(0.2)\n\
                  for step in itertools.count():\n\
                  \x20   optimize(step)\n\
                  \x20   if os.path.exists('stop'): break\n";
    let sandbox = sandbox();
    sandbox.write("job.py", script);
    let python = newest_python().path.to_str().unwrap();
    let running = sandbox.spawn(["run", "--interval", "500ms", "--", python, "-u", "job.py"]);
    let ids = wait_for_stored(&sandbox, 10);
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
    for (position, id) in ids.iter().enumerate() {
        let answer = why(&sandbox, &["--at", id]);
        let verdict = answer["verdict"].as_str().unwrap();
        let fine = match position {
            0 | 1 => ["healthy", "unknown"].contains(&verdict),
            _ => verdict == "healthy",
        };
        assert!(fine, "{position}: {answer:#}");
        assert_eq!(answer["culprit"], Value::Null);
    }
    assert!(stored(&sandbox).len() >= ids.len());
}

#[test]
fn an_empty_store_has_nothing_to_judge() {
    let output = sandbox().run(["why"]).exited(1);
    assert!(output.stderr.contains("there is no store at"), "{output}");
}
