//! Recordings: what they keep, what they leave out, and that they can be looked at like a machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::Limit;

use super::live::Started;
use super::{gaps_of, local, look, process, stacks};
use crate::{Machine, Scope, StackSource, discover, record};
use testkit::{DEADLINE, process_state, wait_until};

fn recorded(directory: &Path) -> Machine {
    let off = stacks(StackSource::Off);
    let roots = (directory.join("proc"), directory.join("cgroup"));
    Machine::at(roots.0, roots.1, off).with_shared_memory("/tmp".into())
}

fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("tests/fixtures/machines").join(name)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&path)),
            kind if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}

#[test]
fn a_hybrid_machine_with_its_limits_on_version_1_is_read_right() {
    let machine = recorded(&fixture("hybrid-v1"));
    let snapshot = look(&machine, 4242);
    let sleep = process(&snapshot, 4242);
    assert_eq!(sleep.cmdline, ["sleep", "600"]);
    assert_eq!(sleep.exe.as_deref(), Some("/usr/bin/sleep"));
    assert_eq!(sleep.proc.wchan.as_deref(), Some("hrtimer_nanosleep"));
    assert_eq!(sleep.proc.file_descriptors.len(), 3);
    assert!(!sleep.python_candidate);
    assert_eq!(gaps_of(&snapshot, 4242), []);

    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 1);
    let path = cgroup.path.as_deref().unwrap();
    assert!(path.ends_with("cgroup/memory/job/worker-1"), "{path}");
    let limits = cgroup.limits.as_ref().unwrap();
    let memory = limits.memory.as_ref().unwrap();
    assert_eq!(
        memory.limit_bytes,
        Limit::Unlimited,
        "2^63 less a page is none"
    );
    assert!(memory.usage_bytes.unwrap() > 0);
    assert_eq!(limits.cpu.as_ref().unwrap().quota_usec, Limit::Unlimited);
}

#[test]
fn a_recording_of_a_living_process_has_its_facts_and_none_of_its_secrets() {
    const SECRET: &str = "s3cr3tPassw0rd";
    let mut command = Command::new("sh");
    let token = format!("--token={SECRET}");
    command
        .args(["-c", "read line", "sh", &token])
        .env("RANK", SECRET)
        // The test's own one moves on while others write to it.
        .stderr(Stdio::null());
    let child = Started::new(&mut command);
    wait_until(DEADLINE, || process_state(child.pid()) == Some('S'));
    let machine = local();
    let ready = || {
        process(&look(&machine, child.pid()), child.pid())
            .cmdline
            .len()
            == 5
    };
    wait_until(DEADLINE, ready);
    let live = look(&machine, child.pid());

    let directory = tempfile::tempdir().unwrap();
    let mut scope = Scope::tree(machine.identify(child.pid()).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    record(&machine, &targets, &[], directory.path()).unwrap();
    for file in files(directory.path()) {
        let content = std::fs::read(&file).unwrap();
        let is_there = String::from_utf8_lossy(&content).contains(SECRET);
        assert!(!is_there, "{} has the secret", file.display());
    }
    let snapshot = look(&recorded(directory.path()), child.pid());
    let (live, again) = (process(&live, child.pid()), process(&snapshot, child.pid()));
    assert_eq!(again.identity, live.identity);
    assert_eq!(again.exe, live.exe);
    assert_eq!(again.cmdline, live.cmdline);
    assert_eq!(again.proc.file_descriptors, live.proc.file_descriptors);
    assert_eq!(again.proc.threads[0].wchan, live.proc.threads[0].wchan);
    assert_eq!(again.distributed_environment["RANK"], "");
}
