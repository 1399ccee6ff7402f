//! External py-spy programs, good and bad; all are shell scripts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{GapCode, StackSourceName};

use super::{code, read_one, settings, wanted};
use crate::stacks::{StackReaders, Wanted};
use crate::{StackSettings, StackSource};

const GOOD: &str = r#"
test "$1 $2 $3 $4 $5" = "dump --json --full-filenames --nonblocking --pid" || exit 3
echo "[{\"pid\":$6,\"thread_id\":1,\"thread_name\":null,\"os_thread_id\":null,\"active\":true,\"owns_gil\":false,\"frames\":[],\"process_info\":null}]"
"#;

fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
    let plain = directory.join("plain");
    std::fs::write(&plain, format!("#!/bin/sh\n{text}\n")).unwrap();
    let program = directory.join(name);
    super::copy_program(&plain, &program);
    program
}

fn readers(program: Option<PathBuf>, path: &[&Path]) -> StackReaders {
    patient_readers(program, path, super::PATIENCE)
}

fn patient_readers(program: Option<PathBuf>, path: &[&Path], timeout: Duration) -> StackReaders {
    let source = StackSource::Executable {
        program,
        path: path.iter().map(|&path| path.to_owned()).collect(),
    };
    StackReaders::new(StackSettings {
        timeout,
        ..settings(source)
    })
}

fn with(text: &str) -> super::Read {
    let directory = tempfile::tempdir().unwrap();
    let program = script(directory.path(), "py-spy", text);
    let readers = readers(Some(program), &[]);
    let read = read_one(&readers, "7:1".parse().unwrap());
    assert_eq!(readers.register().pids(), [0; 0]);
    read
}

#[test]
fn a_good_py_spy_is_asked_in_the_agreed_words_and_its_json_is_taken() {
    let stacks = with(GOOD).unwrap().unwrap();
    assert_eq!(stacks.source, StackSourceName::Executable);
    assert_eq!(stacks.traces[0].pid, 7);
}

#[test]
fn garbage_is_malformed() {
    assert_eq!(code(&with("echo '[{'")), GapCode::Malformed);
}

#[test]
fn a_failure_is_a_gap_with_the_programs_own_words() {
    let gap = with("echo 'Error: Failed to open process' >&2; echo ' Reason: Permission denied (os error 13)' >&2; exit 1")
        .unwrap_err();
    assert_eq!(gap.code, GapCode::Denied);
    assert_eq!(
        gap.detail.as_deref(),
        Some("Error: Failed to open process; Reason: Permission denied (os error 13)")
    );
    assert!(gap.remedy.is_some());
    let gap = with("exit 1").unwrap_err();
    assert_eq!(gap.code, GapCode::Failed);
    assert_eq!(gap.detail.as_deref(), Some("py-spy ended with exit code 1"));
}

#[test]
fn a_program_that_hangs_is_ended_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("child");
    let text = format!("sleep 3600 & echo $! > {}; wait", trace.display());
    let program = script(directory.path(), "py-spy", &text);
    let readers = patient_readers(Some(program), &[], Duration::from_secs(3));
    let began = Instant::now();
    let read = read_one(&readers, "7:1".parse().unwrap());
    assert_eq!(code(&read), GapCode::TimedOut);
    assert!(began.elapsed() < super::PATIENCE / 2);
    assert_eq!(readers.register().pids(), [0; 0]);
    let child = std::fs::read_to_string(trace).unwrap();
    let child = child.trim().parse().unwrap();
    super::eventually("its child ends", || {
        crate::stacks::image::stat(child)
            .ok()
            .is_none_or(|stat| stat.state == 'Z')
            .then_some(())
    });
}

#[test]
fn a_missing_program_is_passed_over_for_the_one_beside_the_interpreter_then_path() {
    let directory = tempfile::tempdir().unwrap();
    let beside = directory.path().join("venv");
    let in_path = directory.path().join("bin");
    for place in [&beside, &in_path] {
        std::fs::create_dir(place).unwrap();
        let named = GOOD.replace(
            "\\\"thread_name\\\":null",
            &format!("\\\"thread_name\\\":\\\"{}\\\"", place.display()),
        );
        script(place, "py-spy", &named);
    }
    let missing = Some(directory.path().join("nowhere"));
    let readers = readers(missing, &[&in_path]);
    let name = |exe: Option<PathBuf>| {
        let wanted = Wanted {
            exe,
            ..wanted("7:1".parse().unwrap())
        };
        let mut read = super::read_all(&readers, &[wanted]);
        let stacks = read.remove(0).1.unwrap().unwrap();
        stacks.traces[0].thread_name.clone().map(PathBuf::from)
    };
    assert_eq!(name(Some(beside.join("python3"))), Some(beside));
    assert_eq!(name(Some("/nowhere/python3".into())), Some(in_path.clone()));
    assert_eq!(name(None), Some(in_path));
}

#[test]
fn without_any_program_there_is_a_gap_that_says_what_to_do() {
    let gap = read_one(&readers(None, &[]), "7:1".parse().unwrap()).unwrap_err();
    assert_eq!(gap.code, GapCode::NoReader);
    assert!(gap.remedy.unwrap().contains("install py-spy"));
}
