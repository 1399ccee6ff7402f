//! Processes that the kernel kills for want of memory, in real memory cgroups of version 1: who, where, who held the most, and a look
//! at the task just before.

use testkit::{DEADLINE, wait_until};

use crate::ends::{obituaries, of_rank, ours, python, run_four};
use crate::support::{process, sandbox, snapshot, stored, wait_for_snapshot};

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
fn seconds(stamp: &serde_json::Value) -> f64 {
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

/// Ranks of which the last one grows, in the memory cgroup that the file `group` names, once `go` is there.
const RANK: &str = r#"
import os, time
group = open("group").read()
if os.environ["RANK"] == "3":
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))
def train():
    held = []
    while True:
        time.sleep(0.05)
        if os.environ["RANK"] == "3" and os.path.exists("go"):
            held.append(b"\1" * (2 << 20))
train()
"#;

#[test]
fn the_rank_that_ran_out_of_memory_is_named_as_the_first_and_what_followed() {
    let Some(group) = MemoryGroup::new(80 << 20) else {
        eprintln!("SKIPPED: no memory cgroup of version 1 can be made here.");
        return;
    };
    let rank = RANK.replace("open(\"group\").read()", &format!("{:?}", group.0));
    let (sandbox, output) = run_four(&rank, "grow");
    let output = output.exited(1);
    let lines = ours(&output);
    let first = lines.iter().position(|line| {
        line.starts_with("rank 3 (pid ")
            && line.contains(") died first: SIGKILL, out of memory in its cgroup, ")
            && line.ends_with(" of 80.0 MiB")
    });
    let first = first.unwrap_or_else(|| panic!("{output}"));
    let followed = lines[first + 2].strip_prefix("  ranks 0-2 ended by SIGTERM ");
    assert!(
        followed.is_some_and(|rest| rest.ends_with(" later")),
        "{output}"
    );
    let obituaries = obituaries(&sandbox);
    let dead = of_rank(&obituaries, 3);
    assert!(dead["circumstances"][0]["out_of_memory"]["usage_bytes"].is_u64());
    let page = sandbox.run(["report"]).success().stdout;
    assert!(page.contains(lines[first]), "{page}");
}

/// Grows as the main process, in the cgroup that we are in as well.
const GROWS_WITH_US: &str = r#"
import os, time
held = []
while True:
    time.sleep(0.1)
    if os.path.exists("go"):
        held.append(b"\1" * (8 << 20))
"#;

/// The snapshots that wait in the spool.
fn spooled(sandbox: &testkit::Sandbox) -> Vec<serde_json::Value> {
    let script = "import gzip, json, sys\nfor name in sys.argv[1:]:\n    print(gzip.open(name, 'rt').read().replace('\\n', ' '))";
    let found = std::process::Command::new("find")
        .args([".", "-path", "*/snapshots/*", "-name", "*.json.gz"])
        .current_dir(sandbox.path("spool"))
        .output();
    let found = String::from_utf8(found.unwrap().stdout).unwrap();
    let output = std::process::Command::new(python())
        .args(["-c", script])
        .args(found.lines())
        .current_dir(sandbox.path("spool"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let snapshots = text.lines().map(|line| serde_json::from_str(line).unwrap());
    snapshots.collect()
}

#[test]
fn a_look_before_the_kill_is_in_the_spool_first_and_our_own_cgroup_running_out_ends_the_task_alone()
{
    let Some(group) = MemoryGroup::new(700 << 20) else {
        eprintln!("SKIPPED: no memory cgroup of version 1 can be made here.");
        return;
    };
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("spool")).unwrap();
    let spool = sandbox.path("spool");
    sandbox.write("grow.py", GROWS_WITH_US);
    // Nobody can write there, so that what is stored stays where it was written first.
    let settings = format!(
        "[store]\nurl = \"/proc/none\"\n[store.spool]\ndirectory = \"{}\"\n",
        spool.display()
    );
    sandbox.write("collector.toml", &settings);
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$0\" run --interval 1h -- {} grow.py",
        group.0.display(),
        python()
    );
    let mut command = sandbox.command([""; 0]);
    let variables: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = std::process::Command::new("sh");
    command
        .args(["-c", &script])
        .arg(crate::support::binary())
        .env_clear()
        .envs(variables)
        .current_dir(sandbox.directory())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until(DEADLINE * 2, || !spooled(&sandbox).is_empty());
    sandbox.write("go", "");
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(9), "{words}");
    assert!(
        words.contains("grow.py (pid ")
            && words.contains(" died: SIGKILL, out of memory in its cgroup, "),
        "{words}"
    );
    let looks = spooled(&sandbox);
    let mut looks = looks
        .iter()
        .filter(|look| look["capture"]["trigger"] == "pressure");
    assert!(looks.next().is_some(), "{words}");
}
