//! Live tests: real interpreters, real helper processes, programs that misbehave.

mod disguises;
mod embedded;
mod external;
mod frames;
mod handed;
mod misbehaving;
mod reuse;
mod traced;
mod unchanged;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::{Gap, GapCode, ProcessId, Stacks};

use super::{Numbers, StackReaders, Wanted};
use crate::{StackSettings, StackSource};

/// How long anything may take that is expected to happen.
const PATIENCE: Duration = Duration::from_mins(1);

type Read = Result<Option<Stacks>, Gap>;

fn settings(source: StackSource) -> StackSettings {
    StackSettings {
        source,
        timeout: Duration::from_secs(25),
        nonblocking: true,
        max_parallel: 2,
    }
}

/// The stack helper that cargo builds with this crate's tests: `examples/stack_helper.rs`.
fn helper_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let program = built.join("examples/stack_helper");
    assert!(
        program.exists(),
        "{} is missing: run `cargo test -p taskscope-capture` without `--lib`",
        program.display()
    );
    program
}

fn embedded() -> StackReaders {
    StackReaders::new(settings(StackSource::Embedded {
        helper: helper_program(),
        arguments: Vec::new(),
    }))
}

fn wanted(id: ProcessId) -> Wanted {
    Wanted {
        id,
        exe: std::fs::read_link(format!("/proc/{}/exe", id.pid)).ok(),
        certain: true,
    }
}

fn read_one(readers: &StackReaders, id: ProcessId) -> Read {
    let mut read = read_all(readers, &[wanted(id)]);
    assert_eq!(read.len(), 1);
    let (read_id, result) = read.remove(0);
    assert_eq!(read_id, id);
    result
}

fn read_all(readers: &StackReaders, wanted: &[Wanted]) -> Vec<(ProcessId, Read)> {
    let read = readers.read(wanted, &Numbers::default(), Instant::now() + PATIENCE);
    read.into_iter()
        .map(|(id, read)| (id, read.map(|read| read.map(|read| read.stacks))))
        .collect()
}

fn code(read: &Read) -> GapCode {
    match read {
        Err(gap) => gap.code,
        other => panic!("no gap: {other:?}"),
    }
}

/// Copies a file as a program. Another process writes the copy: a descriptor of ours that is open for writing could be
/// inherited by what other tests start at the same time, and the program would be "busy".
fn copy_program(from: &Path, to: &Path) {
    let installed = Command::new("install")
        .args(["-m", "755"])
        .args([from, to])
        .status()
        .unwrap();
    assert!(installed.success());
}

/// Waits until `condition` gives something.
fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn with_the_source_off_a_known_python_is_a_gap_and_a_stranger_is_none() {
    let readers = StackReaders::new(settings(StackSource::Off));
    let id = "7:8".parse().unwrap();
    assert_eq!(code(&read_one(&readers, id)), GapCode::Off);
    let maybe = Wanted {
        certain: false,
        ..wanted(id)
    };
    let read = read_all(&readers, &[maybe]);
    assert_eq!(read, [(id, Ok(None))]);
}

#[test]
fn recorded_stacks_come_from_their_file_and_a_missing_file_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let json = r#"[{"pid":7,"thread_id":1,"thread_name":"MainThread","os_thread_id":7,"active":false,
        "owns_gil":false,"frames":[{"name":"step","filename":"/a/train.py","short_filename":"/a/train.py",
        "module":null,"line":42,"locals":null}],"process_info":null}]"#;
    std::fs::write(directory.path().join("7.json"), json).unwrap();
    std::fs::write(directory.path().join("9.json"), "[{").unwrap();
    let source = StackSource::Recorded(directory.path().to_owned());
    let readers = StackReaders::new(settings(source));
    let stacks = read_one(&readers, "7:1".parse().unwrap()).unwrap().unwrap();
    assert_eq!(stacks.traces[0].frames[0].line, 42);
    let missing = read_one(&readers, "8:1".parse().unwrap());
    assert_eq!(code(&missing), GapCode::NoReader);
    let torn = read_one(&readers, "9:1".parse().unwrap());
    assert_eq!(code(&torn), GapCode::Malformed);
}
