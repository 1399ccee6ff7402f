//! How every process of the task ended: on stderr in a few lines, and in the store.

use std::process::Command;

use serde_json::Value;
use testkit::{DEADLINE, Output, Sandbox, newest_python, wait_until};

use crate::support::{files, process, repetitions, sandbox, snapshot, stored, wait_for_snapshot};

/// Starts four ranks; when one fails it ends the others a little later, as torchrun does, and fails.
const LAUNCHER: &str = r#"
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

fn python() -> &'static str {
    newest_python().path.to_str().unwrap()
}

/// The obituaries that are stored, in the order of the ends.
fn obituaries(sandbox: &Sandbox) -> Vec<Value> {
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
fn folder(sandbox: &Sandbox, name: &str) -> Vec<std::path::PathBuf> {
    let indexes = files(&sandbox.path(".taskscope"), "index.json");
    let folders = indexes.iter().map(|index| index.with_file_name(name));
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// What we said, without what the task said.
fn ours(output: &Output) -> Vec<&str> {
    let lines = output.stderr.lines();
    lines
        .filter_map(|line| line.strip_prefix("[taskscope] "))
        .collect()
}

/// Runs four ranks until a snapshot shows all of them, then lets rank 2 end like `how`.
fn run_ranks(how: &str) -> (Sandbox, Output) {
    let sandbox = sandbox();
    sandbox.write("launch.py", LAUNCHER);
    sandbox.write("rank.py", RANK);
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
fn of_rank(obituaries: &[Value], rank: u64) -> &Value {
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
        let command = ["run", "--interval", "1s", "--", python(), "order.py"];
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

/// A worker grows in a memory cgroup of its own until it is killed there; its parent only waits.
const GROWS: &str = r#"
import os, sys, time
group = sys.argv[1]
child = os.fork()
if child == 0:
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))
    open("ready", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.02)
    held = []
    while True:
        held.append(b"\1" * (4 << 20))
        time.sleep(0.25)
        # Near the limit, until somebody has looked.
        while len(held) >= 18 and not os.path.exists("seen"):
            time.sleep(0.02)
os.waitpid(child, 0)
open("killed-at", "w").write(repr(time.time()))
"#;

/// A memory cgroup of version 1 with a limit, removed at the end.
pub(crate) struct MemoryGroup(pub(crate) std::path::PathBuf);

impl MemoryGroup {
    /// None where there is no such hierarchy, or we may not make a cgroup in it.
    pub(crate) fn new(limit: u64) -> Option<Self> {
        let lines = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let mut paths = lines.lines().filter_map(|line| line.split_once(":memory:"));
        let own = paths.next()?.1.trim_start_matches('/').to_owned();
        let name = format!("taskscope-ends-{}-{limit}", std::process::id());
        let path = std::path::Path::new("/sys/fs/cgroup/memory")
            .join(own)
            .join(name);
        std::fs::create_dir(&path).ok()?;
        let group = Self(path);
        std::fs::write(group.0.join("memory.limit_in_bytes"), limit.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Who was killed there may still be leaving.
        wait_until(DEADLINE, || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn who_is_killed_at_the_limit_of_its_cgroup_is_told_so_and_was_looked_at_just_before() {
    let Some(group) = MemoryGroup::new(96 << 20) else {
        eprintln!("SKIPPED: no memory cgroup of version 1 can be made here.");
        return;
    };
    let sandbox = sandbox();
    sandbox.write("grow.py", GROWS);
    let path = group.0.to_str().unwrap();
    let running = sandbox.spawn(["run", "--interval", "1h", "--", python(), "grow.py", path]);
    wait_until(DEADLINE, || sandbox.path("ready").exists());
    wait_until(DEADLINE, || !stored(&sandbox).is_empty());
    sandbox.write("go", "");
    let found = wait_for_snapshot(&sandbox, |snapshot| {
        snapshot["capture"]["trigger"] == "pressure"
    });
    sandbox.write("seen", "");
    let output = running.wait(DEADLINE * 2).success();
    let lines = ours(&output);
    let head = lines
        .iter()
        .find(|line| line.contains(" died: SIGKILL, out of memory in its cgroup, "));
    let head = head.unwrap_or_else(|| panic!("{output}"));
    assert!(
        head.starts_with("grow.py (pid ") && head.ends_with(" of 96.0 MiB"),
        "{output}"
    );
    let obituaries = obituaries(&sandbox);
    let dead = obituaries
        .iter()
        .find(|one| one["ending"]["killed"]["signal"] == 9)
        .unwrap();
    let around = &dead["circumstances"][0]["out_of_memory"];
    assert_eq!(
        (&around["limit_bytes"], &around["cgroup"]),
        (&(96 << 20).into(), &path.into())
    );
    assert_eq!(around["holders"][0]["process"], dead["process"]);
    // The interval was an hour: what was seen last was seen because memory ran out.
    let last = snapshot(&sandbox, dead["last_snapshot"].as_str().unwrap());
    assert_eq!(last["capture"]["trigger"], "pressure");
    let before = seconds(&dead["ended_at"]) - seconds(&last["capture"]["started_at"]);
    assert!((0.0..60.0).contains(&before), "{before} s before the kill");
    assert!(process(&found, "grow.py").is_some());
    eprintln!("The last snapshot before the kill began {before:.2} s before it.");
    assert!(
        dead["memory"]["rss_bytes"].as_u64().unwrap() > 40 << 20,
        "{dead}"
    );
}

/// The seconds of a time of day; both are of one minute or two.
fn seconds(stamp: &Value) -> f64 {
    let clock = stamp
        .as_str()
        .unwrap()
        .split_once('T')
        .unwrap()
        .1
        .trim_end_matches('Z');
    clock
        .split(':')
        .fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

/// Goes on when its parent is gone, listening and with the output of the task open.
const SERVER: &str = r#"
import os, socket, sys, time
if os.fork() == 0:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    open("port.part", "w").write(str(listener.getsockname()[1]))
    os.rename("port.part", "port")
    open("pid", "w").write(str(os.getpid()))
    os.rename("pid", "server.pid")
    time.sleep(600)
while not os.path.exists("server.pid"):
    time.sleep(0.01)
"#;

#[test]
fn who_outlives_the_task_is_named_with_what_it_keeps() {
    let sandbox = sandbox();
    sandbox.write("server.py", SERVER);
    let running = sandbox.spawn(["run", "--", python(), "server.py"]);
    wait_until(DEADLINE, || sandbox.path("server.pid").exists());
    let pid = std::fs::read_to_string(sandbox.path("server.pid")).unwrap();
    let port = std::fs::read_to_string(sandbox.path("port")).unwrap();
    wait_until(DEADLINE, || running.has_ended());
    let said = running.stderr();
    let line = said
        .lines()
        .find(|line| line.contains(&format!("(pid {pid}) outlives the task")));
    let line = line.map(str::to_owned);
    testkit::send_signal(pid.parse().unwrap(), 9);
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.contains(&format!("listens at 127.0.0.1:{port}")),
        "{said}"
    );
    running.wait(DEADLINE).success();
}
