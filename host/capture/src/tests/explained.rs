//! Looks at living processes: what explains that one waits, and as what it runs.

use std::process::Command;

use model::{CallTimeout, EnvironmentSource, GapCode, Process, SeccompMode, Snapshot, SystemCall};
use testkit::{DEADLINE, newest_python, process_state, venv, wait_until};

use super::live::{Started, is_root};
use super::{gaps_of, local, look, look_at, moment, options, process, skipped};
use crate::{Machine, Scope, capture, discover};

/// Looks until `is_ready` says that the process has come so far.
pub(super) fn look_until(
    machine: &Machine,
    pid: i32,
    is_ready: impl Fn(&Process) -> bool,
) -> Snapshot {
    wait_until(DEADLINE, || is_ready(process(&look(machine, pid), pid)));
    look(machine, pid)
}

fn main_call(process: &Process) -> Option<&SystemCall> {
    process.proc.threads.first()?.call.as_ref()
}

pub(super) fn waits_in(name: &str) -> impl Fn(&Process) -> bool {
    move |process| process.state == 'S' && main_call(process).is_some_and(|call| call.name == name)
}

/// Looks when the main thread waits in the call `name`; returns it.
fn call_of(child: &Started, name: &str) -> SystemCall {
    let snapshot = look_until(&local(), child.pid(), waits_in(name));
    main_call(process(&snapshot, child.pid())).unwrap().clone()
}

#[test]
fn a_read_of_a_pipe_names_the_pipe() {
    let child = Started::python("");
    let call = call_of(&child, "read");
    assert_eq!(call.fd, Some(0));
    assert!(call.fd_target.unwrap().starts_with("pipe:["));
}

#[test]
fn an_open_that_waits_names_its_file_and_which_end_it_wants() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    for (code, mode, relative) in [
        ("open('{path}')", "O_RDONLY", false),
        ("open('{path}', 'w')", "O_WRONLY", false),
        (
            "os.open('fifo', os.O_RDONLY, dir_fd=os.open('{directory}', os.O_RDONLY))",
            "O_RDONLY",
            true,
        ),
    ] {
        let code = code.replace("{path}", path.to_str().unwrap());
        let code = code.replace("{directory}", directory.path().to_str().unwrap());
        let make = format!("os.path.exists('{0}') or os.mkfifo('{0}')", path.display());
        let child = Started::python(&format!("import os\n{make}\n{code}"));
        let named = if relative {
            "fifo"
        } else {
            path.to_str().unwrap()
        };
        let is_there = |process: &Process| {
            let call = main_call(process);
            call.and_then(|call| call.path.as_deref()) == Some(named)
        };
        let snapshot = look_until(&local(), child.pid(), is_there);
        let process = process(&snapshot, child.pid());
        let call = main_call(process).unwrap();
        assert_eq!(
            (call.name.as_str(), call.operation.as_deref()),
            ("openat", Some(mode))
        );
        if relative {
            assert_eq!(call.fd_target.as_deref(), directory.path().to_str());
        }
        if is_root() {
            // Only an open of a FIFO waits there.
            let wchan = process.proc.threads[0].wchan.as_deref();
            assert!(
                wchan.is_some_and(|wchan| wchan.contains("wait_for_partner")),
                "{wchan:?}"
            );
        }
    }
}

/// Seizes and stops a child, and waits.
const DEBUGGER: &str = "import os, time
lib = ctypes.CDLL(None)
lib.ptrace.argtypes = [ctypes.c_long] * 4
child = os.fork()
if child == 0:
    time.sleep(600)
    os._exit(0)
for request in 0x4206, 0x4207:
    assert lib.ptrace(request, child, 0, 0) == 0";

#[test]
fn who_is_held_by_a_debugger_names_it() {
    let child = Started::python(DEBUGGER);
    let machine = local();
    let held = |snapshot: &Snapshot| {
        let mut processes = snapshot.processes.iter();
        processes.find(|one| one.state == 't').cloned()
    };
    let mut found = None;
    wait_until(DEADLINE, || {
        found = held(&look(&machine, child.pid()));
        found.is_some()
    });
    let held = found.unwrap();
    assert_eq!(held.ppid, child.pid());
    assert_eq!(held.proc.status["TracerPid"], child.pid().to_string());
    assert_eq!(held.proc.threads[0].state, Some('t'));
    // Gone with its debugger no more than it would be without.
    testkit::send_signal(held.pid, 9);
}

#[test]
fn a_wait_for_a_child_names_it() {
    let child = Started::python(
        "import os, subprocess\np = subprocess.Popen(['sleep', '600'], stdin=subprocess.DEVNULL)\nprint(p.pid)\nos.waitpid(p.pid, 0)",
    );
    let call = call_of(&child, "wait4");
    let waited_for = call.waits_for.unwrap();
    assert!(testkit::process_exists(waited_for));
    testkit::send_signal(waited_for, 9);
}

#[test]
fn a_sleep_ends_by_itself_and_a_lock_may_not() {
    let sleep = Started::new(Command::new("sleep").arg("600"));
    let call = call_of(&sleep, "clock_nanosleep");
    assert_eq!(call.timeout, Some(CallTimeout::Set));
    assert!(call.operation.unwrap().starts_with("CLOCK_"));

    let lock = Started::python("lock = threading.Lock()\nlock.acquire()\nlock.acquire()");
    let call = call_of(&lock, "futex");
    assert_eq!(call.timeout, Some(CallTimeout::Infinite));
    assert!(call.address.unwrap().starts_with("0x"));
    let operation = call.operation.unwrap();
    assert!(operation.starts_with("FUTEX_WAIT"), "{operation}");

    let timed = Started::python(
        "threading.Lock()\nlock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=600)",
    );
    assert_eq!(call_of(&timed, "futex").timeout, Some(CallTimeout::Set));
}

#[test]
fn a_poll_tells_its_timeout_and_an_epoll_its_descriptor() {
    let poll = Started::python(
        "import select\np = select.poll()\np.register(0)\np.modify(0, 0)\np.poll(600000)",
    );
    let snapshot = look_until(&local(), poll.pid(), waits_in("poll"));
    let call = main_call(process(&snapshot, poll.pid())).unwrap();
    assert_eq!(call.timeout, Some(CallTimeout::Set));
    assert!(call.timeout_ms.unwrap() <= 600_000);
    assert_eq!(call.fds, [0]);

    let epoll = Started::python("import select\ne = select.epoll()\ne.poll()");
    let call = call_of(&epoll, "epoll_wait");
    assert_eq!(call.timeout, Some(CallTimeout::Infinite));
    assert_eq!(call.fd_target.as_deref(), Some("anon_inode:[eventpoll]"));
}

#[test]
fn niceness_and_processors_are_those_that_were_asked_for() {
    let mut command = Command::new("nice");
    let child = Started::new(command.args(["-n", "5", "taskset", "-c", "0", "sleep", "600"]));
    let snapshot = look_until(&local(), child.pid(), waits_in("clock_nanosleep"));
    let facts = &process(&snapshot, child.pid()).proc;
    assert_eq!(facts.allowed_cpus.as_deref(), Some("0"));
    assert_eq!(facts.processor, Some(0));
    let scheduling = facts.scheduling.as_ref().unwrap();
    // Nicer than we are ourselves, as far as there is any nicer.
    let nice = (rustix::process::getpriority_process(None).unwrap() + 5).min(19);
    let nice = i64::from(nice);
    let told = (scheduling.nice, scheduling.priority);
    assert_eq!(told, (nice, nice + 20));
    assert_eq!(facts.threads[0].scheduling.as_ref(), Some(scheduling));
    assert!(facts.minor_faults.unwrap() > 0);
    assert_eq!(facts.core_dumping, Some(false));
    let schedstat = facts.threads[0].schedstat.as_deref().unwrap();
    assert_eq!(schedstat.split(' ').count(), 3);
    assert_eq!(facts.schedstat.as_deref(), Some(schedstat));
}

#[test]
fn a_terminal_and_its_session_are_named() {
    let script = Started::new(Command::new("script").args(["-qc", "exec sleep 600", "/dev/null"]));
    let machine = local();
    let is_sleep = |process: &&Process| process.command == "sleep 600";
    wait_until(DEADLINE, || {
        look(&machine, script.pid())
            .processes
            .iter()
            .any(|one| is_sleep(&one))
    });
    let snapshot = look(&machine, script.pid());
    let sleep = snapshot.processes.iter().find(is_sleep).unwrap();
    let facts = &sleep.proc;
    assert!(
        facts.terminal.as_deref().unwrap().starts_with("pts/"),
        "{:?}",
        facts.terminal
    );
    assert_eq!(
        (facts.session, facts.process_group),
        (Some(sleep.pid), Some(sleep.pid))
    );
    assert_eq!(facts.foreground_group, Some(sleep.pid));

    let alone = Started::new(Command::new("setsid").args(["sleep", "600"]));
    let snapshot = look_until(&machine, alone.pid(), waits_in("clock_nanosleep"));
    let facts = &process(&snapshot, alone.pid()).proc;
    assert_eq!(
        (facts.terminal.as_deref(), facts.foreground_group),
        (Some("none"), None)
    );
}

#[test]
fn restrictions_are_told() {
    let free = Started::new(Command::new("sleep").arg("600"));
    let bound = Started::new(Command::new("setpriv").args(["--no-new-privs", "sleep", "600"]));
    let credentials = |child: &Started| {
        let snapshot = look_until(&local(), child.pid(), waits_in("clock_nanosleep"));
        let process = process(&snapshot, child.pid());
        process.proc.credentials.clone().unwrap()
    };
    let free = credentials(&free);
    assert_eq!(free.real_uid, rustix::process::getuid().as_raw());
    assert_eq!(free.effective_gid, rustix::process::getegid().as_raw());
    assert!(matches!(
        free.seccomp,
        Some(SeccompMode::Off | SeccompMode::Filter)
    ));
    assert_eq!(credentials(&bound).no_new_privs, Some(true));
}

#[test]
fn who_is_not_dumpable_is_told_except_of_root() {
    if !is_root() {
        return skipped("only root can start a process of another user");
    }
    // What setpriv starts is dumpable again after exec.
    let code = "import ctypes, sys; ctypes.CDLL(None).prctl(4, int(sys.argv[1]), 0, 0, 0); sys.stdin.read()";
    let start = |user: &str, dumpable: &str| {
        let mut command = Command::new("setpriv");
        let command = command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        Started::new(command.args(["/usr/bin/env", "python3", "-c", code, dumpable]))
    };
    for (user, dumpable, told) in [
        ("65534", "1", Some(true)),
        ("65534", "0", Some(false)),
        ("0", "0", None),
    ] {
        let child = start(user, dumpable);
        let snapshot = look_until(&local(), child.pid(), waits_in("read"));
        let credentials = process(&snapshot, child.pid())
            .proc
            .credentials
            .clone()
            .unwrap();
        assert_eq!(credentials.dumpable, told, "{user} {dumpable}");
    }
}

#[test]
fn other_namespaces_are_another_set() {
    let same = Started::new(Command::new("sleep").arg("600"));
    let snapshot = look_until(&local(), same.pid(), waits_in("clock_nanosleep"));
    assert_eq!(process(&snapshot, same.pid()).namespaces, Some(0));
    assert!(snapshot.namespaces[0].ours, "{:?}", snapshot.namespaces);
    if !is_root() {
        return skipped("only root can make a network namespace");
    }
    let ours = snapshot.namespaces[0].clone();
    let other = Started::new(Command::new("unshare").args(["--net", "sleep", "600"]));
    let snapshot = look_until(&local(), other.pid(), waits_in("clock_nanosleep"));
    let set = &snapshot.namespaces[0];
    assert!(
        !set.ours && set.net != ours.net && set.pid == ours.pid,
        "{set:?}"
    );
}

#[test]
fn a_title_over_the_environment_does_not_hide_the_rank() {
    let Some(python) = venv(newest_python(), &["setproctitle==1.3.7"]) else {
        return skipped("setproctitle could not be installed");
    };
    // The title is set when a line comes.
    let code = "import os, sys, time, setproctitle\nprint('ready', flush=True)\nsys.stdin.readline()\nsetproctitle.setproctitle('ray::IDLE')\nif sys.argv[1] == 'fork' and os.fork():\n    os.wait()\ntime.sleep(600)";
    for mode in ["alone", "fork"] {
        let mut command = Command::new(&python);
        let command = command.args(["-c", code, mode]).env("RANK", "7");
        let mut child = Started::new(command);
        let machine = local();
        let before = look_until(&machine, child.pid(), waits_in("read"));
        assert_eq!(
            process(&before, child.pid()).distributed_environment["RANK"],
            "7"
        );
        child.write(b"\n");
        let titled = |process: &Process| process.cmdline == ["ray::IDLE"];
        wait_until(DEADLINE, || {
            let snapshot = look(&machine, child.pid());
            let wanted = if mode == "fork" { 2 } else { 1 };
            snapshot.processes.len() == wanted && snapshot.processes.iter().all(titled)
        });
        let snapshot = look(&machine, child.pid());
        for process in &snapshot.processes {
            assert_eq!(process.distributed_environment["RANK"], "7", "{mode}");
            assert!(process.environment_source.is_some());
            let gaps = gaps_of(&snapshot, process.pid);
            assert!(gaps.iter().all(|(what, ..)| *what != "environ"), "{gaps:?}");
        }

        // Who comes later finds it in the memory of each.
        let late = look(&local(), child.pid());
        for process in &late.processes {
            assert_eq!(process.distributed_environment["RANK"], "7", "{mode}");
            assert_eq!(process.environment_source, Some(EnvironmentSource::Memory));
            let gaps = gaps_of(&late, process.pid);
            assert!(gaps.iter().all(|(what, ..)| *what != "environ"), "{gaps:?}");
        }
        for process in &snapshot.processes {
            testkit::send_signal(process.pid, 9);
        }
    }
}

#[test]
fn the_environment_of_a_zombie_is_still_known() {
    let mut child = Started::new(Command::new("sleep").arg("600").env("RANK", "3"));
    let machine = local();
    look_until(&machine, child.pid(), waits_in("clock_nanosleep"));
    child.kill();
    wait_until(DEADLINE, || process_state(child.pid()) == Some('Z'));
    let snapshot = look(&machine, child.pid());
    let zombie = process(&snapshot, child.pid());
    assert_eq!(zombie.distributed_environment["RANK"], "3");
    assert_eq!(
        zombie.environment_source,
        Some(EnvironmentSource::FirstSight)
    );
    let gaps = gaps_of(&snapshot, child.pid());
    assert_eq!(gaps, [("cmdline,exe,fd", GapCode::Vanished, 1)]);
}

#[test]
fn a_new_program_has_a_new_environment() {
    let script = "read line; RANK=9 exec sh -c 'read line'";
    let mut command = Command::new("sh");
    let mut child = Started::new(command.args(["-c", script]).env("RANK", "3"));
    let machine = local();
    let rank = |snapshot: &Snapshot| {
        let process = process(snapshot, child.pid());
        process.distributed_environment["RANK"].clone()
    };
    let before = look_until(&machine, child.pid(), waits_in("read"));
    assert_eq!(rank(&before), "3");
    assert_eq!(rank(&look(&machine, child.pid())), "3");
    child.write(b"\n");
    // The same executable: only the memory is another one.
    wait_until(DEADLINE, || {
        let snapshot = look(&machine, child.pid());
        let process = process(&snapshot, child.pid());
        process
            .distributed_environment
            .get("RANK")
            .is_some_and(|rank| rank == "9")
    });
}

#[test]
fn a_very_long_command_line_is_cut_and_its_length_kept() {
    let long = "x".repeat(100_000);
    let child = Started::new(Command::new("sh").args(["-c", "read line", "name", &long]));
    let snapshot = look_until(&local(), child.pid(), waits_in("read"));
    let process = process(&snapshot, child.pid());
    let cut = process.cmdline_cut.as_ref().unwrap();
    let whole = "sh\0-c\0read line\0name\0".len() + long.len() + 1;
    assert_eq!(cut.bytes, u64::try_from(whole).unwrap());
    assert!(
        process
            .cmdline
            .iter()
            .map(|argument| argument.len() + 1)
            .sum::<usize>()
            <= (64 << 10) + 1
    );
    assert!(gaps_of(&snapshot, child.pid()).contains(&("cmdline", GapCode::Truncated, 1)));
}

fn look_with(machine: &Machine, pid: i32, budget: u64) -> Snapshot {
    let mut scope = Scope::tree(machine.identify(pid).unwrap(), None);
    let targets = discover(machine, &mut scope).unwrap();
    let mut options = options();
    options.shared_memory = Some(budget);
    capture(machine, &options, &targets, &moment())
}

#[test]
fn shared_memory_is_counted_within_its_budget() {
    let child =
        Started::python("block = bytearray(64 << 20)\nblock[::4096] = b'x' * len(block[::4096])");
    let machine = local();
    look_until(&machine, child.pid(), waits_in("read"));
    let within = look_with(&machine, child.pid(), 1 << 30);
    let memory = process(&within, child.pid()).memory.clone().unwrap();
    let (pss, uss) = (memory.pss_bytes.unwrap(), memory.uss_bytes.unwrap());
    assert!(uss >= 64 << 20 && uss <= pss && pss <= memory.rss_bytes + (1 << 20));
    assert!(memory.virtual_bytes.unwrap() > memory.rss_bytes);

    let beyond = look_with(&machine, child.pid(), 32 << 20);
    let memory = process(&beyond, child.pid()).memory.clone().unwrap();
    assert_eq!((memory.pss_bytes, memory.uss_bytes), (None, None));
    assert!(gaps_of(&beyond, child.pid()).contains(&("smaps_rollup", GapCode::Skipped, 1)));
    let gap = beyond
        .gaps
        .iter()
        .find(|gap| gap.what == "smaps_rollup")
        .unwrap();
    assert!(gap.detail.as_deref().unwrap().contains("MiB"), "{gap:?}");

    let off = look(&machine, child.pid());
    assert_eq!(
        process(&off, child.pid())
            .memory
            .as_ref()
            .unwrap()
            .pss_bytes,
        None
    );
}

#[test]
fn what_a_capture_costs_is_in_it() {
    let child = Started::new(Command::new("sleep").arg("600"));
    let machine = local();
    let id = machine.identify(child.pid()).unwrap();
    let targets = discover(&machine, &mut Scope::tree(id, None)).unwrap();
    let capture = look_at(&machine, &targets).capture;
    assert!(capture.cpu_ms.unwrap() > 0.0);
    assert_eq!(capture.helper_count, Some(1), "the one that reads memory");
}

#[test]
fn a_name_that_is_no_text_is_kept_in_another_form() {
    let code = r"open('/proc/self/comm', 'wb').write(b'a) R 1\n\xff(x')";
    let child = Started::python(code);
    let snapshot = look_until(&local(), child.pid(), waits_in("read"));
    let main = &process(&snapshot, child.pid()).proc.threads[0];
    assert_eq!(main.comm.as_deref(), Some("a) R 1\n\u{fffd}(x"));
    assert_eq!(main.comm_escaped.as_deref(), Some(r"a) R 1\n\xff(x"));
    assert_eq!(main.state, Some('S'));
}

#[test]
fn a_count_of_shared_memory_that_does_not_return_is_given_up() {
    let fake = testkit::FakeMachine::new().process(100, |p| p.environment([("RANK", "3")]));
    let directory = std::fs::File::open(fake.proc_root()).unwrap();
    rustix::fs::mkfifoat(&directory, "100/smaps_rollup", 0o600.into()).unwrap();
    let machine = super::machine(&fake).with_memory_helper(super::memory_helper());
    let snapshot = look_with(&machine, 100, 1 << 30);
    let blocked = ("smaps_rollup", GapCode::BlockedRead, 1);
    assert_eq!(gaps_of(&snapshot, 100), [blocked]);
    let process = process(&snapshot, 100);
    assert_eq!(process.distributed_environment["RANK"], "3");
    assert_eq!(process.memory.as_ref().unwrap().pss_bytes, None);
}
