//! Each cause by several mechanisms: real jobs, in `causes/`, that get stuck, slow or killed in their own ways, and many that only
//! look so. Each job says who is to blame; of the program it gets the name `job.py`, so nothing but what it does tells.
//!
//! A third of the jobs is run, all of them where `TASKSCOPE_ALL_CAUSES` is set.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::{Running, Sandbox, newest_python, wait_until};

use crate::support::{is_all_wanted, sandbox, stored};
use crate::why::{resolves, why};

/// A job takes seconds to get where it is going, and a busy machine takes its time.
const PATIENCE: Duration = Duration::from_mins(2);
/// Of so many jobs one is run.
const PART: usize = 3;
/// So many of a folder are run at a time.
const AT_ONCE: usize = 2;
/// After so many snapshots a job that is well is told from one that is not.
const LOOKS: usize = 10;

macro_rules! causes {
    ($($name:ident = $folder:literal,)*) => {
        /// The folders of `causes/`.
        const FOLDERS: &[&str] = &[$($folder),*];
        $(
            #[test]
            fn $name() {
                of_cause($folder);
            }
        )*
    };
}

causes! {
    busy_loop = "busy-loop",
    cpu_throttled = "cpu-throttled",
    crashed = "crashed",
    deadlock = "deadlock",
    disk_full = "disk-full",
    fd_exhausted = "fd-exhausted",
    file_lock = "file-lock",
    finished = "finished",
    gil_held = "gil-held",
    inherited_lock = "inherited-lock",
    memory_pressure = "memory-pressure",
    out_of_memory = "out-of-memory",
    pipe_full = "pipe-full",
    pipe_orphaned = "pipe-orphaned",
    progressing = "progressing",
    rank_behind = "rank-behind",
    rank_dead = "rank-dead",
    shm_full = "shm-full",
    stopped = "stopped",
    storage_stall = "storage-stall",
    waiting_for_child = "waiting-for-child",
    waiting_for_input = "waiting-for-input",
    waiting_for_peer = "waiting-for-peer",
    zombie_unreaped = "zombie-unreaped",
}

/// A job, and what its first lines say of it.
struct Job {
    path: PathBuf,
    text: String,
    verdicts: Vec<String>,
    causes: Vec<String>,
}

impl Job {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .find_map(|line| line.strip_prefix("# expect: "));
        let expected = lines.unwrap_or_else(|| panic!("{} expects nothing", path.display()));
        let (verdicts, causes) = expected.split_once(' ').unwrap();
        let words = |text: &str| text.split('|').map(str::to_owned).collect();
        let (verdicts, causes) = (words(verdicts), words(causes));
        Self {
            path,
            text,
            verdicts,
            causes,
        }
    }

    fn is_asked_at_the_end(&self) -> bool {
        self.text.contains("\n# asked: at the end\n")
    }

    /// What it needs and this machine lacks.
    fn lacks(&self) -> Option<&str> {
        let lines = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix("# needs: "));
        let mut words = lines?.split(' ');
        match words.next()? {
            _ if !rustix::process::geteuid().is_root() => Some("root"),
            "cgroup" => words.find(|name| {
                let folder = Path::new("/sys/fs/cgroup").join(name);
                match *name {
                    "pressure" => !Path::new("/proc/pressure/memory").exists(),
                    _ => !folder.join("cgroup.procs").exists(),
                }
            }),
            _ => words.find(|name| *name == "fuse" && !Path::new("/dev/fuse").exists()),
        }
    }

    /// What is wrong with an answer; nothing where it is right.
    fn fault(&self, sandbox: &Sandbox, answer: &Value) -> Option<String> {
        let is_one = |words: &[String], key: &str| words.iter().any(|word| answer[key] == *word);
        if !is_one(&self.verdicts, "verdict") || !is_one(&self.causes, "cause") {
            return Some("verdict or cause".to_owned());
        }
        if self.verdicts.iter().any(|word| word == "healthy") && !answer["culprit"].is_null() {
            return Some("a culprit of a job that is well".to_owned());
        }
        let keys = ["pid", "thread", "rank"];
        let blamed = keys.iter().find(|key| {
            let right = truth(sandbox, "culprit", key);
            let named = answer["culprit"][**key].as_i64();
            !right.is_empty() && !named.is_some_and(|named| right.contains(&named))
        });
        let victims = answer["victims"].as_array().unwrap();
        let spared = ["pid", "rank"].into_iter().find(|key| {
            let right = truth(sandbox, "victim", key);
            let named = victims.iter().filter_map(|victim| victim[*key].as_i64());
            !right.is_empty() && right != named.collect()
        });
        let (blamed, spared) = (
            blamed.map(|key| format!("the culprit's {key}")),
            spared.map(|key| format!("the victims by {key}")),
        );
        blamed.or(spared)
    }
}

/// What a job said: the values of this kind and key.
fn truth(sandbox: &Sandbox, kind: &str, key: &str) -> BTreeSet<i64> {
    let text = fs::read_to_string(sandbox.path("truth")).unwrap_or_default();
    let values = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        (words.next() == Some(kind) && words.next() == Some(key)).then_some(words.next()?)
    });
    values.map(|value| value.parse().unwrap()).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/causes")
}

fn programs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let programs = entries.filter(|path| path.extension().is_some_and(|it| it == "py"));
    let mut programs: Vec<PathBuf> = programs.collect();
    programs.sort();
    programs
}

fn of_cause(cause: &str) {
    let jobs = programs(&folder().join(cause)).into_iter();
    let jobs = jobs.step_by(if is_all_wanted() { 1 } else { PART });
    let mut wanted = Vec::new();
    for job in jobs.map(Job::read) {
        if let Some(lacking) = job.lacks() {
            eprintln!("SKIPPED: {} needs {lacking}", job.path.display());
        } else {
            wanted.push(job);
        }
    }
    // They wait most of the time.
    for jobs in wanted.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for job in jobs {
                scope.spawn(|| run(job));
            }
        });
    }
}

#[track_caller]
fn run(job: &Job) {
    let sandbox = sandbox();
    sandbox.write("job.py", &job.text);
    for path in programs(&folder()) {
        let text = fs::read_to_string(&path).unwrap();
        sandbox.write(path.file_name().unwrap().to_str().unwrap(), &text);
    }
    let python = newest_python().path.to_str().unwrap();
    let running = sandbox.spawn(["run", "--interval", "500ms", "--", python, "-u", "job.py"]);
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let is_ready = || !truth(&sandbox, "ready", "now").is_empty();
        wait_until(PATIENCE, || is_ready() || running.has_ended());
        if job.is_asked_at_the_end() {
            wait_until(PATIENCE, || running.has_ended());
        }
        expect(job, &sandbox)
    }));
    end(running);
    let answer = match found {
        Ok(answer) => answer,
        Err(panic) => {
            eprintln!("{}", job.path.display());
            std::panic::resume_unwind(panic)
        }
    };
    resolves(&sandbox, &answer);
}

/// Asks until the answer is right; returns it. Of a job that is well, no answer from the third snapshot on is that it is not.
#[track_caller]
fn expect(job: &Job, sandbox: &Sandbox) -> Value {
    let is_well = job.verdicts.iter().any(|word| word == "healthy");
    if is_well {
        let begun = stored(sandbox).len();
        wait_until(PATIENCE, || stored(sandbox).len() >= begun.max(2) + LOOKS);
        for id in stored(sandbox).iter().skip(2) {
            let answer = why(sandbox, &["--at", id]);
            let verdict = answer["verdict"].as_str().unwrap();
            let fine = ["healthy", "slow", "unknown"].contains(&verdict);
            assert!(fine && answer["culprit"].is_null(), "{answer:#}");
        }
    }
    let mut last = Value::Null;
    let mut fault = None;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until(PATIENCE, || {
            if stored(sandbox).is_empty() {
                return false;
            }
            last = why(sandbox, &[]);
            fault = job.fault(sandbox, &last);
            fault.is_none()
        });
    }));
    assert!(found.is_ok(), "{fault:?}: {last:#}");
    last
}

fn end(running: Running) {
    if !running.has_ended() {
        running.signal(15);
    }
    wait_until(PATIENCE, || running.has_ended());
    // Tools that a job started go with the group, and hold its output until then.
    drop(running);
}

#[test]
fn each_folder_of_jobs_is_run_and_holds_three_or_more() {
    let folders = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir() && !path.ends_with("__pycache__"));
    let mut names: Vec<String> = Vec::new();
    for folder in folders {
        let jobs = programs(&folder);
        assert!(jobs.len() >= 3, "{}: {jobs:?}", folder.display());
        for job in jobs {
            let job = Job::read(job);
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(
                job.causes.iter().any(|cause| cause == name),
                "{}",
                job.path.display()
            );
        }
        names.push(folder.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, FOLDERS);
}
