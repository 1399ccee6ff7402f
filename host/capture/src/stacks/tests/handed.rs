//! Helpers that may not open the memory of any process, as under Yama, and are handed it by us.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use model::{GapCode, ProcessId, StackSourceName};

use super::workload::{Workload, pythons, version};
use super::{PATIENCE, eventually, helper_program, read_all, read_one, settings, wanted};
use crate::StackSource;
use crate::helper::HelperProgram;
use crate::helper::link::Link;
use crate::helper::passing;
use crate::stacks::wire::{self, Answer, Outcome, Request};
use crate::stacks::{StackReaders, Wanted};
use helper::Register;

/// A stack helper that is no ancestor of anything.
fn program() -> HelperProgram {
    HelperProgram {
        program: testkit::newest_python().path.clone(),
        arguments: vec![
            "-c".into(),
            testkit::NO_ANCESTOR.into(),
            helper_program().into(),
        ],
    }
}

fn readers() -> StackReaders {
    let HelperProgram { program, arguments } = program();
    let source = StackSource::Embedded {
        helper: program,
        arguments,
    };
    let mut settings = settings(source);
    settings.max_parallel = 1;
    StackReaders::new(settings)
}

fn is_ours(python: &Path) -> bool {
    matches!(version(python), (3, 8..=13))
}

/// The first Python that our own reader knows.
fn known_python() -> std::path::PathBuf {
    pythons().into_iter().find(|one| is_ours(one)).unwrap()
}

fn read_both(readers: &StackReaders, workload: &Workload) {
    eventually("both threads wait", || {
        let stacks = read_one(readers, workload.id).unwrap().unwrap();
        assert_eq!(stacks.source, StackSourceName::Own);
        let has = |function| workload.find(&stacks.traces, function).is_some();
        (has("main_waits") && has("worker_waits")).then_some(())
    });
}

/// How many descriptors the only helper has.
fn descriptors(readers: &StackReaders) -> usize {
    let [helper] = readers.register().pids()[..] else {
        panic!("one helper")
    };
    let listed = std::fs::read_dir(format!("/proc/{helper}/fd"));
    listed.unwrap().count()
}

#[test]
fn every_python_that_we_know_is_read_by_the_memory_that_is_handed() {
    let readers = readers();
    for python in pythons().iter().filter(|one| is_ours(one)) {
        read_both(&readers, &Workload::start(python));
    }
}

#[test]
fn a_python_that_only_py_spy_reads_is_denied_and_says_so() {
    let readers = readers();
    for python in pythons().iter().filter(|one| !is_ours(one)) {
        let workload = Workload::start(python);
        let gap = read_one(&readers, workload.id).unwrap_err();
        assert_eq!(gap.code, GapCode::Denied, "{gap:?}");
        let detail = gap.detail.unwrap();
        let (major, minor) = version(python);
        let words = format!("only py-spy reads Python {major}.{minor}.");
        assert!(detail.contains(&words), "{detail}");
        let remedy = gap.remedy.unwrap();
        assert!(!remedy.contains("taskscope run"), "{remedy}");
    }
}

/// Asks a helper of `program` for `process`, and hands it nothing. Returns its questions and what it said in the end.
fn ask_and_hand_nothing(program: &HelperProgram, process: ProcessId) -> (u32, Outcome) {
    let until = Instant::now() + PATIENCE;
    let register = Register::default();
    let mut link = Link::start(program, &register, wire::PROTOCOL, until).unwrap();
    let request = Request {
        focus: Vec::new(),
        keep: vec![process],
        locals: Vec::new(),
        nonblocking: true,
        processes: vec![process],
    };
    link.ask(&wire::encode(&request).unwrap(), until).unwrap();
    let mut questions = 0;
    loop {
        let answer: Answer = wire::decode(&link.answer(until).unwrap()).unwrap();
        match answer.outcome {
            Outcome::NeedsMemory => questions += 1,
            outcome => return (questions, outcome),
        }
        link.hand(None, until).unwrap();
    }
}

#[test]
fn our_reader_has_nothing_unless_it_is_handed_and_who_needs_nothing_does_not_ask() {
    let workload = Workload::start(&known_python());
    let (questions, outcome) = ask_and_hand_nothing(&program(), workload.id);
    assert_eq!(questions, 1);
    // py-spy opens the memory as any file is opened, which the filter does not see; Yama would.
    assert!(
        matches!(
            outcome,
            Outcome::Traces {
                source: StackSourceName::Embedded,
                ..
            }
        ),
        "{outcome:?}"
    );
    let free = HelperProgram {
        program: helper_program(),
        arguments: Vec::new(),
    };
    let (questions, outcome) = ask_and_hand_nothing(&free, workload.id);
    assert_eq!(questions, 0);
    assert!(
        matches!(
            outcome,
            Outcome::Traces {
                source: StackSourceName::Own,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[test]
fn an_exec_brings_another_memory_and_the_end_of_a_process_is_seen() {
    let readers = readers();
    let python = known_python();
    let mut workload = Workload::start(&python);
    read_both(&readers, &workload);
    let newest = pythons().into_iter().rfind(|one| is_ours(one)).unwrap();
    for next in [&newest, &newest, &python] {
        workload.exec(next);
        read_both(&readers, &workload);
    }
    workload.kill();
    eventually("its end is seen", || {
        let gap = read_one(&readers, workload.id).err()?;
        (gap.code == GapCode::Vanished).then_some(())
    });
}

#[test]
fn a_memory_is_handed_once_and_given_back() {
    let readers = readers();
    let other = Workload::start(&known_python());
    read_both(&readers, &other);
    let with_one = descriptors(&readers);
    {
        let workload = Workload::start(&known_python());
        for _ in 0..50 {
            let read = read_all(&readers, &[wanted(other.id), wanted(workload.id)]);
            assert!(read.iter().all(|(_, read)| read.is_ok()), "{read:?}");
        }
        assert_eq!(descriptors(&readers), with_one + 1);
    }
    read_both(&readers, &other);
    assert_eq!(descriptors(&readers), with_one);
}

/// They are killed with the value.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn start(count: usize) -> Self {
        let start = |_| {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null()).spawn().unwrap()
        };
        Self((0..count).map(start).collect())
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

#[test]
fn more_processes_than_one_message_could_bring_memories_of_are_read() {
    // `SCM_MAX_FD` of Linux is 253.
    let sleepers = Sleepers::start(260);
    let workload = Workload::start(&known_python());
    let machine = crate::Machine::local(settings(StackSource::Off));
    let ids = sleepers.0.iter().map(|child| i32::try_from(child.id()));
    let ids = ids.map(|pid| machine.identify(pid.unwrap()).unwrap());
    let mut all: Vec<Wanted> = ids.map(wanted).collect();
    for one in &mut all {
        one.certain = false;
    }
    all.push(wanted(workload.id));
    let readers = readers();
    let read = eventually("all have become `sleep`", || {
        let read = read_all(&readers, &all);
        let (python, others) = read.split_last().unwrap();
        let stacks = python.1.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(stacks.source, StackSourceName::Own, "by what was handed");
        let is_done = others.iter().all(|(_, read)| *read == Ok(None));
        is_done.then_some(read.len())
    });
    assert_eq!(read, 261);
}

#[test]
fn a_memory_that_was_opened_before_the_exec_is_gone() {
    let mut workload = Workload::start(&known_python());
    let memory = passing::open_memory_of(Path::new("/proc"), workload.id.pid).unwrap();
    let read = |pid| rustix::io::pread(memory.as_fd(), &mut [0; 8], first_address(pid));
    assert_eq!(read(workload.id.pid), Ok(8));
    workload.exec(&known_python());
    assert_eq!(read(workload.id.pid), Ok(0));
}

fn first_address(pid: i32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap()
}
