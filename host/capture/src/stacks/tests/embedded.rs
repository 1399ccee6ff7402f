//! The py-spy library in helper processes, on real interpreters.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use model::{GapCode, StackSourceName};
use rustix::process::Signal;

use super::workload::{HANGING_SCRIPT, RESTLESS_SCRIPT, Workload, pythons, version};
use super::{code, embedded, eventually, helper_program, read_all, read_one, settings, wanted};
use crate::helper::frame;
use crate::stacks::{StackReaders, Wanted, image, wire};
use crate::{StackSettings, StackSource};

/// Reads until both threads stand where they are to stand.
fn read_both(readers: &StackReaders, workload: &Workload) -> Vec<model::Trace> {
    eventually("both threads wait", || {
        let stacks = read_one(readers, workload.id).unwrap().unwrap();
        let series = stacks
            .version
            .as_deref()
            .and_then(|version| version.strip_prefix("3."));
        let minor = series.and_then(|rest| rest.split('.').next()?.parse().ok());
        let expected = match minor {
            Some(8..=13) => StackSourceName::Own,
            _ => StackSourceName::Embedded,
        };
        assert_eq!(stacks.source, expected, "{:?}", stacks.version);
        let both = ["main_waits", "worker_waits"]
            .iter()
            .all(|function| workload.find(&stacks.traces, function).is_some());
        both.then_some(stacks.traces)
    })
}

#[test]
fn every_python_of_the_machine_shows_both_threads_with_function_file_and_line() {
    let readers = embedded();
    for python in pythons() {
        let workload = Workload::start(&python);
        let version = version(&python);
        let traces = eventually("both threads sleep", || {
            let traces = read_both(&readers, &workload);
            traces.iter().all(|trace| !trace.active).then_some(traces)
        });
        assert_eq!(traces.len(), 2, "{}", python.display());
        let main = workload.find(&traces, "main_waits").unwrap();
        let worker = workload.find(&traces, "worker_waits").unwrap();
        assert_eq!(main.pid, workload.id.pid);
        assert_ne!(main.thread_id, worker.thread_id);
        assert_eq!(main.process_info, None);
        if version >= (3, 6) {
            assert_eq!(main.thread_name.as_deref(), Some("MainThread"));
            assert_eq!(worker.thread_name.as_deref(), Some("the worker"));
        }
        // Our own reader finds it in what the C library keeps of a thread.
        let main_tid = (version >= (3, 8)).then(|| u64::try_from(workload.id.pid).unwrap());
        assert_eq!(main.os_thread_id, main_tid, "{}", python.display());
    }
}

#[test]
fn the_thread_of_a_process_that_has_one_is_always_known() {
    let readers = embedded();
    let script = "import sys\nprint('ready')\nsys.stdout.flush()\nsys.stdin.readline()\n";
    for python in pythons() {
        let workload = Workload::start_script(&python, script);
        let stacks = read_one(&readers, workload.id).unwrap().unwrap();
        assert_eq!(stacks.traces.len(), 1, "{}", python.display());
        let tid = stacks.traces[0].os_thread_id;
        assert_eq!(tid, u64::try_from(workload.id.pid).ok());
    }
}

#[test]
fn a_process_that_execs_another_python_or_its_own_again_is_read_on() {
    let readers = embedded();
    let pythons = pythons();
    let mut workload = Workload::start(&pythons[0]);
    for python in pythons.iter().chain(&pythons[..1]).chain(&pythons[..1]) {
        read_both(&readers, &workload);
        workload.exec(python);
        let read = read_one(&readers, workload.id);
        assert!(
            matches!(read, Ok(Some(_))),
            "{}: {read:?}",
            python.display()
        );
    }
    read_both(&readers, &workload);
}

#[test]
fn a_stopped_process_is_read() {
    let readers = embedded();
    let workload = Workload::start(&pythons()[0]);
    workload.signal(Signal::STOP);
    eventually("it stops", || (workload.state() == Some('T')).then_some(()));
    let stacks = read_one(&readers, workload.id).unwrap().unwrap();
    assert_eq!(stacks.traces.len(), 2);
    assert_eq!(workload.state(), Some('T'));
}

#[test]
fn a_process_that_is_not_python_is_no_gap_unless_it_was_said_to_be_python() {
    let readers = embedded();
    let sleep = std::path::Path::new("/bin/sh");
    let workload = Workload::start_script(sleep, "echo ready; read line");
    let maybe = Wanted {
        certain: false,
        ..wanted(workload.id)
    };
    let read = read_all(&readers, &[maybe]);
    assert_eq!(read, [(workload.id, Ok(None))]);
    let read = read_one(&readers, workload.id);
    assert_eq!(code(&read), GapCode::Unsupported);
}

#[test]
fn zombies_strangers_and_the_gone_are_gaps_of_their_own() {
    let readers = embedded();
    let mut workload = Workload::start(&pythons()[0]);
    let mut stranger = workload.id;
    stranger.start_time_ticks += 1;
    assert_eq!(code(&read_one(&readers, stranger)), GapCode::Reused);
    read_both(&readers, &workload);
    workload.kill();
    eventually("it is a zombie", || {
        (workload.state() == Some('Z')).then_some(())
    });
    assert_eq!(code(&read_one(&readers, workload.id)), GapCode::Vanished);
    let id = workload.id;
    drop(workload);
    assert_eq!(code(&read_one(&readers, id)), GapCode::Vanished);
}

#[test]
fn helpers_start_at_the_first_read_are_kept_and_end_with_close() {
    let readers = embedded();
    assert_eq!(readers.register().pids(), [0; 0]);
    let workload = Workload::start(&pythons()[0]);
    read_both(&readers, &workload);
    let helpers = readers.register().pids();
    assert_eq!(helpers.len(), 1);
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", helpers[0])).unwrap();
    assert_eq!(comm, "taskscope-stack\n");
    read_both(&readers, &workload);
    assert_eq!(readers.register().pids(), helpers);
    readers.close();
    assert_eq!(readers.register().pids(), [0; 0]);
}

#[test]
fn a_helper_is_deaf_to_polite_signals_and_in_a_group_of_its_own() {
    let readers = embedded();
    let workload = Workload::start(&pythons()[0]);
    read_both(&readers, &workload);
    let helper = readers.register().pids()[0];
    let pid = rustix::process::Pid::from_raw(helper).unwrap();
    assert_eq!(rustix::process::getpgid(Some(pid)).unwrap(), pid);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    read_both(&readers, &workload);
    assert_eq!(readers.register().pids(), [helper]);
}

#[test]
fn a_helper_that_was_killed_between_captures_is_replaced() {
    let readers = embedded();
    let workload = Workload::start(&pythons()[0]);
    read_both(&readers, &workload);
    let helper = readers.register().pids()[0];
    let pid = rustix::process::Pid::from_raw(helper).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let state = || image::stat(helper).ok().map(|stat| stat.state);
    // Its first thread may be a zombie while others of it are still ending.
    let threads = || std::fs::read_dir(format!("/proc/{helper}/task")).map_or(0, Iterator::count);
    eventually("it is dead", || {
        (matches!(state(), None | Some('Z')) && threads() <= 1).then_some(())
    });
    read_both(&readers, &workload);
    assert_ne!(readers.register().pids(), [helper]);
}

#[test]
fn a_helper_ends_with_its_collector_even_in_the_middle_of_a_read() {
    let hanging = Workload::start_script(&pythons()[0], HANGING_SCRIPT);
    let mut helper = Command::new(helper_program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = frame::read_payload(helper.stdout.as_mut().unwrap()).unwrap();
    let hello: frame::Hello = frame::decode(&hello).unwrap();
    assert_eq!(hello, frame::Hello::of(wire::PROTOCOL));
    let request = wire::Request {
        focus: Vec::new(),
        locals: Vec::new(),
        keep: vec![hanging.id],
        nonblocking: true,
        processes: vec![hanging.id],
    };
    let mut input = helper.stdin.take().unwrap();
    input.write_all(&wire::encode(&request).unwrap()).unwrap();
    drop(input);
    let status = eventually("the helper ends", || helper.try_wait().unwrap());
    assert_eq!(status.signal(), Some(9), "it kills itself");
}

#[test]
fn a_read_that_hangs_is_given_up_and_the_next_process_is_read_in_time() {
    let source = StackSource::Embedded {
        helper: helper_program(),
        arguments: Vec::new(),
    };
    let readers = StackReaders::new(StackSettings {
        timeout: Duration::from_secs(4),
        max_parallel: 1,
        ..settings(source)
    });
    let hanging = Workload::start_script(&pythons()[0], HANGING_SCRIPT);
    let workload = Workload::start(&pythons()[0]);
    let both = [wanted(hanging.id), wanted(workload.id)];
    let read = read_all(&readers, &both);
    assert_eq!(code(&read[0].1), GapCode::TimedOut);
    assert!(matches!(read[1].1, Ok(Some(_))), "{read:?}");
    assert_eq!(readers.register().pids().len(), 1);
}

#[test]
fn a_process_that_never_stands_still_is_read_or_torn() {
    let readers = embedded();
    for python in pythons() {
        let workload = Workload::start_script(&python, RESTLESS_SCRIPT);
        let reads: Vec<_> = (0..20).map(|_| read_one(&readers, workload.id)).collect();
        let good = reads.iter().filter(|read| matches!(read, Ok(Some(_))));
        assert!(good.count() >= 15, "{}: {reads:?}", python.display());
        let mut gaps = reads.iter().filter_map(|read| read.as_ref().err());
        assert!(gaps.all(|gap| gap.code == GapCode::Torn), "{reads:?}");
    }
}

#[test]
fn a_process_of_somebody_else_is_denied_with_a_remedy() {
    let workload = Workload::start(&pythons()[0]);
    let directory = tempfile::tempdir().unwrap();
    let (id, readers) = if rustix::process::geteuid().is_root() {
        // The helper becomes nobody, in a place that nobody can read.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let helper = directory.path().join("helper");
        super::copy_program(&helper_program(), &helper);
        let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut arguments: Vec<std::ffi::OsString> = as_nobody.map(Into::into).to_vec();
        arguments.push(helper.into());
        let source = StackSource::Embedded {
            helper: "/usr/bin/setpriv".into(),
            arguments,
        };
        (workload.id, StackReaders::new(settings(source)))
    } else {
        let start_time_ticks = image::stat(1).unwrap().start_time_ticks;
        let init = model::ProcessId {
            pid: 1,
            start_time_ticks,
        };
        (init, embedded())
    };
    let gap = read_one(&readers, id).unwrap_err();
    assert_eq!(gap.code, GapCode::Denied, "{gap:?}");
    assert!(gap.remedy.unwrap().contains("CAP_SYS_PTRACE"));
}

#[test]
fn a_program_that_is_no_helper_is_one_gap_for_each_process() {
    for (program, words) in [
        ("/nowhere/at/all", "cannot start /nowhere/at/all"),
        ("/bin/true", "is no helper"),
    ] {
        let readers = StackReaders::new(settings(StackSource::Embedded {
            helper: program.into(),
            arguments: Vec::new(),
        }));
        let workload = Workload::start(&pythons()[0]);
        let gap = read_one(&readers, workload.id).unwrap_err();
        assert_eq!(gap.code, GapCode::NoReader);
        let detail = gap.detail.unwrap();
        assert!(detail.contains(words), "{detail}");
        assert_eq!(readers.register().pids(), [0; 0]);
    }
}
