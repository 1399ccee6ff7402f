//! How every process of the task ended: on stderr in a few lines, and in the store.

use std::process::Command;

use serde_json::Value;
use testkit::{DEADLINE, Output, Sandbox, newest_python, wait_until};

use crate::support::{files, repetitions, sandbox, snapshot, stored};

/// Starts four ranks; when one fails it ends the others a little later, as torchrun does, and fails.
pub(crate) const LAUNCHER: &str = r#"
import os, subprocess, sys, time
place = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
def start(rank):
    environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), **place)
    return subprocess.Popen([sys.executable, "rank.py"], env=environment)
ranks = [start(rank) for rank in range(4)]
while not any(rank.poll() for rank in ranks):
    if all(rank.poll() == 0 for rank in ranks):
        sys.exit(0)
    time.sleep(0.005)
time.sleep(0.05)
for rank in ranks:
    if rank.poll() is None:
        rank.terminate()
for rank in ranks:
    rank.wait()
sys.exit(1)
"#;

/// Rank 2 ends as the file `go` says, once it is there.
const RANK: &str = r#"
import ctypes, os, signal, sys, time
def fused_kernel(how):
    if how == "segfault":
        ctypes.memset(8, 0, 64)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif how == "well":
        os._exit(0)
def train():
    while True:
        time.sleep(0.002)
        if os.path.exists("go") and os.environ["RANK"] == "2":
            time.sleep(0.05)
            fused_kernel(open("go").read())
        if os.path.exists("go") and open("go").read() == "well":
            os._exit(0)
train()
"#;

pub(crate) fn python() -> &'static str {
    newest_python().path.to_str().unwrap()
}

/// The obituaries that are stored, in the order of the ends.
pub(crate) fn obituaries(sandbox: &Sandbox) -> Vec<Value> {
    let script = "import gzip, json, sys\nfor name in sorted(sys.argv[1:]):\n    print(gzip.open(name, 'rt').read())";
    let segments: Vec<_> = folder(sandbox, "obituaries");
    if segments.is_empty() {
        return Vec::new();
    }
    let output = Command::new(python())
        .args(["-c", script])
        .args(segments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let segments = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut obituaries: Vec<Value> = segments
        .flat_map(|segment| segment["obituaries"].as_array().unwrap().clone())
        .collect();
    obituaries.sort_by_key(|one| one["order"].as_u64());
    obituaries
}

/// The objects in a folder of the store.
pub(crate) fn folder(sandbox: &Sandbox, name: &str) -> Vec<std::path::PathBuf> {
    let indexes = files(&sandbox.path(".taskscope"), "index.json");
    let folders = indexes.iter().map(|index| index.with_file_name(name));
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// What we said, without what the task said.
pub(crate) fn ours(output: &Output) -> Vec<&str> {
    let lines = output.stderr.lines();
    lines
        .filter_map(|line| line.strip_prefix("[taskscope] "))
        .collect()
}

/// Runs four ranks until a snapshot shows all of them, then lets rank 2 end like `how`.
fn run_ranks(how: &str) -> (Sandbox, Output) {
    run_four(RANK, how)
}

/// Runs `rank` four times until a snapshot shows all where they stay, in `train`, then writes `how` into the file `go`.
pub(crate) fn run_four(rank: &str, how: &str) -> (Sandbox, Output) {
    let sandbox = sandbox();
    sandbox.write("launch.py", LAUNCHER);
    sandbox.write("rank.py", rank);
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", python(), "launch.py"]);
    wait_until(DEADLINE * 2, || {
        stored(&sandbox)
            .last()
            .is_some_and(|id| are_four(&snapshot(&sandbox, id)))
    });
    // Under another name first: it is to be there whole.
    let ready = sandbox.write("ready", how);
    std::fs::rename(ready, sandbox.path("go")).unwrap();
    let output = running.wait(DEADLINE * 2);
    (sandbox, output)
}

fn are_four(snapshot: &Value) -> bool {
    let notes = snapshot["annotations"].as_array().unwrap();
    let ranks = notes
        .iter()
        .filter(|note| note["key"] == "role" && note["value"]["text"] == "rank");
    let stacks = snapshot["processes"].as_array().unwrap().iter();
    // Each is where it stays, not among what it imports.
    let stacks = stacks.filter(|process| {
        let frames = &process["pyspy"]["traces"][0]["frames"];
        frames[0]["name"] == "train"
    });
    ranks.count() == 4 && stacks.count() == 4
}

/// The obituary of a rank.
pub(crate) fn of_rank(obituaries: &[Value], rank: u64) -> &Value {
    let mut found = obituaries.iter();
    found
        .find(|one| one["rank"] == rank)
        .unwrap_or_else(|| panic!("{obituaries:?}"))
}

#[test]
fn the_rank_that_died_first_is_named_and_what_followed() {
    for (how, words, ending) in [
        (
            "kill",
            "died first: SIGKILL",
            r#"{"killed":{"core_dumped":false,"signal":9}}"#,
        ),
        ("exit", "ended first: exited with 3", r#"{"exited":3}"#),
        ("segfault", "died first: SIGSEGV", ""),
    ] {
        let (sandbox, output) = run_ranks(how);
        let output = output.exited(1);
        let lines = ours(&output);
        let first = lines.iter().position(|line| line.contains(words));
        let first = first.unwrap_or_else(|| panic!("{how}: {output}"));
        assert!(lines[first].starts_with("rank 2 (pid "), "{output}");
        assert!(lines[first + 1].contains("last seen "), "{output}");
        assert!(
            lines[first + 2].contains("ranks 0,1,3 ended by SIGTERM "),
            "{output}"
        );
        let obituaries = obituaries(&sandbox);
        let dead = of_rank(&obituaries, 2);
        assert!(
            ending.is_empty() || dead["ending"] == serde_json::from_str::<Value>(ending).unwrap(),
            "{dead}"
        );
        assert_eq!(
            (&dead["name"], &dead["role"]),
            (&"rank.py".into(), &"rank".into())
        );
        assert!(
            stored(&sandbox)
                .iter()
                .any(|id| dead["last_snapshot"] == *id.as_str())
        );
        assert!(
            dead["memory"]["rss_bytes"].as_u64() > Some(1 << 20),
            "{dead}"
        );
        let mut frames = dead["stack"]["frames"].as_array().unwrap().iter();
        assert!(frames.any(|frame| frame["name"] == "train"), "{dead}");
        let page = sandbox.run(["report"]).success().stdout;
        assert!(page.contains(lines[first]), "{page}");
        // The stored report has it as well.
        let report = stored_report(&sandbox);
        assert_eq!(of_rank(report["obituaries"].as_array().unwrap(), 2), dead);
        let order = |rank| of_rank(&obituaries, rank)["order"].as_u64();
        assert!([0, 1, 3].iter().all(|&rank| order(rank) > order(2)));
        let launcher = obituaries.last().unwrap();
        assert_eq!(launcher["ending"].to_string(), r#"{"exited":1}"#);
    }
}

#[test]
fn a_task_that_ends_well_has_obituaries_and_no_more_words() {
    let (sandbox, output) = run_ranks("well");
    let output = output.success();
    let lines = ours(&output);
    assert!(
        !output.stderr.contains("died") && !output.stderr.contains("ended"),
        "{output}"
    );
    assert!(
        lines.last().unwrap().contains(" snapshots of test/one in "),
        "{output}"
    );
    let obituaries = obituaries(&sandbox);
    let page = sandbox.run(["report"]).success().stdout;
    assert!(page.contains(" seen to end, each with 0"), "{page}");
    for rank in 0..4 {
        let dead = of_rank(&obituaries, rank);
        assert_eq!(dead["ending"].to_string(), r#"{"exited":0}"#);
        assert!(dead["cpu"]["user_ms"].is_u64(), "{dead}");
    }
    // Of the main process nobody takes what is left before we have read it.
    let main = obituaries
        .iter()
        .find(|one| one["role"] == "launcher")
        .unwrap();
    assert_eq!(main["cpu"]["is_final"], true, "{main}");
}

/// Processes that end in an order that is known, each 20 ms after the one before has ended. The parent sees that and does not take
/// their status until all have, so that nobody's turn is taken from the kernel.
const IN_ORDER: &str = r#"
import os, random, signal, time
children = []
for index in range(8):
    child = os.fork()
    if child == 0:
        signal.pause()
    children.append(child)
while not os.path.exists("go"):
    time.sleep(0.01)
random.shuffle(children)
for child in children:
    os.kill(child, random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    time.sleep(0.02)
print(*children)
for child in children:
    os.waitpid(child, 0)
"#;

#[test]
fn the_order_of_deaths_is_the_order_in_which_they_died() {
    for _ in 0..repetitions(20) {
        let sandbox = sandbox();
        sandbox.write("order.py", IN_ORDER);
        let command = ["run", "--interval", "200ms", "--", python(), "order.py"];
        let running = sandbox.spawn(command);
        wait_until(DEADLINE, || {
            stored(&sandbox).last().is_some_and(|id| {
                snapshot(&sandbox, id)["processes"]
                    .as_array()
                    .unwrap()
                    .len()
                    == 9
            })
        });
        sandbox.write("go", "");
        let output = running.wait(DEADLINE).success();
        let died: Vec<i64> = output
            .stdout
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        let told = obituaries(&sandbox);
        let told = told.iter().map(|one| {
            let process = one["process"].as_str().unwrap();
            process.split_once(':').unwrap().0.parse::<i64>().unwrap()
        });
        let told: Vec<i64> = told.filter(|pid| died.contains(pid)).collect();
        assert_eq!(told, died);
    }
}

/// Makes orphans that end at once with 7, each by way of a child that ends with 0.
const ORPHANS: &str = r"
import os
for _ in range(2000):
    child = os.fork()
    if child == 0:
        os._exit(0 if os.fork() else 7)
    os.waitpid(child, 0)
";

#[test]
fn of_thousands_of_orphans_each_has_an_obituary_or_is_counted() {
    let sandbox = sandbox();
    sandbox.write("orphans.py", ORPHANS);
    let running = sandbox.spawn(["run", "--interval", "500ms", "--", python(), "orphans.py"]);
    let output = running.wait(DEADLINE * 6).success();
    let report = sandbox.run(["report", "--json"]).success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let told = report["obituaries"].as_array().unwrap().iter();
    let orphans: Vec<&Value> = told.filter(|one| one["ending"]["exited"] == 7).collect();
    let counted = report["unseen"]["orphans"].as_u64().unwrap();
    assert_eq!(orphans.len() as u64 + counted, 2000, "{output}");
    // How one of them ended is never unknown: it is a zombie until we have looked.
    assert!(orphans.iter().all(|one| one["cpu"]["is_final"] == true));
    assert_eq!(report["unseen"]["dropped"], 0);
    eprintln!(
        "{} of 2000 orphans were seen, {counted} counted",
        orphans.len()
    );
    let page = sandbox.run(["report"]).success().stdout;
    assert!(
        page.contains(&format!(
            "{counted} orphans more ended before anybody had looked"
        )),
        "{page}"
    );
}

/// Has children that end at once, each of which it waits for: some with 7, some by SIGKILL, most with 0. With an argument
/// each is the grandchild of a child that leaves it to others.
const SHORT_LIVED: &str = r"
import os, signal, sys
is_orphan = len(sys.argv) > 1
for index in range(180):
    child = os.fork()
    if child == 0:
        if is_orphan and os.fork():
            os._exit(0)
        if index % 6 == 1:
            os._exit(7)
        elif index % 6 == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    os.waitpid(child, 0)
";

/// How many began and ended unseen, how many of them with another status than 0, how many by SIGKILL, and why there may be more.
fn between_looks(report: &Value) -> ([u64; 3], Option<&Value>) {
    let between = &report["unseen"]["between_looks"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let counts = [
        &between["count"],
        &between["failed"],
        &between["killed"]["9"],
    ];
    (counts.map(number), between.get("gap"))
}

/// The report as it is stored.
fn stored_report(sandbox: &Sandbox) -> Value {
    let reports = files(&sandbox.path(".taskscope"), "report.json");
    serde_json::from_slice(&std::fs::read(&reports[0]).unwrap()).unwrap()
}

#[test]
fn of_hundreds_that_their_parent_reaps_each_has_an_obituary_or_is_counted() {
    let sandbox = sandbox();
    sandbox.write("short.py", SHORT_LIVED);
    let running = sandbox.spawn(["run", "--interval", "1h", "--", python(), "short.py"]);
    let output = running.wait(DEADLINE * 6).success();
    let report = sandbox.run(["report", "--json"]).success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(stored_report(&sandbox)["unseen"], report["unseen"]);
    let ([count, failed, killed], gap) = between_looks(&report);
    if let Some(gap) = gap {
        assert!(count <= 180 && gap["detail"].is_string(), "{report:#}");
        return eprintln!("SKIPPED: births are not told here: {gap}");
    }
    let told = report["obituaries"].as_array().unwrap().iter();
    let others = told.filter(|one| one["process"] != report["root"]);
    let ended = |how: Value| {
        let others = others.clone().filter(|one| one["ending"] == how);
        others.count() as u64
    };
    let well = report["ended_well"].as_u64().unwrap() - 1;
    assert_eq!(
        count + others.clone().count() as u64 + well,
        180,
        "{output}"
    );
    // Of those that were seen the parent may have been faster.
    let unknown = ended("unknown".into());
    let is_about = |count: u64, all: u64| (all - unknown..=all).contains(&count);
    let by_exit = ended(serde_json::json!({"exited": 7}));
    assert!(is_about(failed + by_exit, 30), "{report:#}");
    let by_kill = ended(serde_json::json!({"killed": {"core_dumped": false, "signal": 9}}));
    assert!(is_about(killed + by_kill, 30), "{report:#}");
    let words = format!("{killed} of SIGKILL");
    assert!(output.stderr.contains(&words), "{output}");
    let page = sandbox.run(["report"]).success().stdout;
    assert!(
        page.contains(&format!(
            "{count} more processes began and ended between two looks"
        )),
        "{page}"
    );
    eprintln!("{count} of 180 were not seen, all were counted");
}

#[test]
fn orphans_of_a_task_that_is_attached_to_are_counted() {
    let script = format!(
        "import os, time\nprint('ready')\nwhile not os.path.exists('go'): time.sleep(0.01)\n{SHORT_LIVED}"
    );
    let job = testkit::PythonJob::new(newest_python(), &script)
        .argument("orphans")
        .start();
    let sandbox = sandbox();
    let pid = job.pid().to_string();
    let attach = sandbox.spawn(["attach", "--pid", &pid, "--interval", "1h"]);
    wait_until(DEADLINE, || !stored(&sandbox).is_empty());
    std::fs::write(job.directory().join("go"), "").unwrap();
    attach.wait(DEADLINE * 6).success();
    let report = sandbox.run(["report", "--json"]).success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let ([count, ..], gap) = between_looks(&report);
    if gap.is_some() {
        return eprintln!("SKIPPED: births are not told here");
    }
    let seen = report["obituaries"].as_array().unwrap().len() as u64;
    let well = report["ended_well"].as_u64().unwrap();
    assert_eq!(count + seen + well, 361, "{report:#}");
}

/// Begins a second after its parent, and dies early.
const EARLY: &str = r#"
import os, subprocess, sys, time
if len(sys.argv) == 1:
    time.sleep(1)
    sys.exit(subprocess.call([sys.executable, "early.py", "child"]) != -9)
def stays():
    while not os.path.exists("go"):
        time.sleep(0.01)
    os.kill(os.getpid(), 9)
stays()
"#;

#[test]
fn who_dies_long_before_the_second_snapshot_has_a_stack() {
    let sandbox = sandbox();
    sandbox.write("early.py", EARLY);
    let running = sandbox.spawn(["run", "--interval", "1h", "--", python(), "early.py"]);
    let is_shown = |snapshot: &Value| {
        let mut processes = snapshot["processes"].as_array().unwrap().iter();
        processes.any(|process| {
            let frames = &process["pyspy"]["traces"][0]["frames"];
            frames[0]["name"] == "stays"
        })
    };
    let shown = crate::support::wait_for_snapshot(&sandbox, is_shown);
    assert_eq!(shown["capture"]["trigger"], "start");
    sandbox.write("go", "");
    let output = running.wait(DEADLINE).success();
    let told = obituaries(&sandbox);
    let dead = told
        .iter()
        .find(|one| one["ending"]["killed"]["signal"] == 9)
        .unwrap_or_else(|| panic!("{output}"));
    assert_eq!(dead["stack"]["frames"][0]["name"], "stays", "{dead}");
    assert!(
        ours(&output)
            .iter()
            .any(|line| line.contains("in stays (early.py:")),
        "{output}"
    );
}
