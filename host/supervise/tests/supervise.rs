//! The wrapper seen from outside: what the task sees, and what whoever waits for us sees.
//! `examples/wrap.rs` stands for the real binary.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{
    DEADLINE, Output, PythonJob, Running, Sandbox, newest_python, process_state, send_signal,
    wait_until,
};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;
const SIGTTIN: i32 = 21;
const SIGTTOU: i32 = 22;
const SIGRTMIN_PLUS_6: i32 = 40;

/// Cargo builds the examples of a crate with its tests, but names only binaries to them.
fn wrapper() -> PathBuf {
    let test_binary = std::env::current_exe().expect("a test has an executable");
    test_binary
        .ancestors()
        .nth(2)
        .expect("it lies in PROFILE/deps")
        .join("examples/wrap")
}

fn sandbox() -> Sandbox {
    Sandbox::new(&wrapper())
}

fn run_shell(script: &str) -> Output {
    sandbox().run(["run", "sh", "-c", script])
}

/// Starts a shell script that prints `up`, and returns when it has.
fn start_shell(sandbox: &Sandbox, script: &str) -> Running {
    let running = sandbox.spawn(["run", "sh", "-c", script]);
    running.wait_for_stdout("up");
    running
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace()
        .map(|pid| pid.parse().expect("a PID"))
        .collect()
}

/// Loops in short steps: a shell runs its traps only between commands.
const LOOP: &str = "echo up; while :; do sleep 0.01; done";

#[test]
fn exit_codes_pass_through() {
    for code in [0, 3, 125, 255] {
        let _ = run_shell(&format!("exit {code}")).exited(code);
    }
}

#[test]
fn death_by_a_signal_is_death_by_the_same_signal() {
    for signal in [SIGHUP, SIGINT, SIGKILL, SIGUSR1, SIGTERM, SIGRTMIN_PLUS_6] {
        let _ = run_shell(&format!("kill -{signal} $$; sleep 30")).killed_by(signal);
    }
}

#[test]
fn a_crash_leaves_no_second_core() {
    let output = run_shell("ulimit -c unlimited; kill -QUIT $$; sleep 30").killed_by(SIGQUIT);
    assert!(!output.status.core_dumped());
    let fault = run_shell("kill -SEGV $$; sleep 30").killed_by(11);
    assert!(!fault.status.core_dumped());
}

#[test]
fn sigterm_ends_a_task_that_does_not_handle_it() {
    let sandbox = sandbox();
    let running = start_shell(&sandbox, "echo up; exec sleep 1000");
    running.signal(SIGTERM);
    let output = running.wait(DEADLINE).killed_by(SIGTERM);
    assert_eq!(output.stderr, "signal 15\n");
}

#[test]
fn a_task_may_outlive_sigterm() {
    let sandbox = sandbox();
    let running = start_shell(
        &sandbox,
        &format!("trap 'echo handled' TERM; trap 'exit 7' INT; {LOOP}"),
    );
    running.signal(SIGTERM);
    running.wait_for_stdout("handled");
    running.signal(SIGINT);
    let output = running.wait(DEADLINE).exited(7);
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("up\nhandled\n", "signal 15\nsignal 2\n")
    );
}

#[test]
fn a_task_may_exit_well_in_its_handler() {
    let sandbox = sandbox();
    let running = start_shell(&sandbox, &format!("trap 'exit 0' TERM; {LOOP}"));
    running.signal(SIGTERM);
    let _ = running.wait(DEADLINE).success();
}

#[test]
fn no_signal_ends_the_wait() {
    let sandbox = sandbox();
    // CHLD, WINCH, URG and CONT do nothing by default; the others have a handler here.
    let running = start_shell(
        &sandbox,
        &format!("trap 'echo got-usr1' USR1; trap 'exit 5' HUP; {LOOP}"),
    );
    for signal in [17, 28, 23, 18] {
        running.signal(signal);
    }
    running.signal(SIGUSR1);
    running.wait_for_stdout("got-usr1");
    running.signal(SIGHUP);
    let _ = running.wait(DEADLINE).exited(5);
}

#[test]
fn a_stop_that_somebody_sends_stops_us_with_the_task_and_a_continue_continues_both() {
    let sandbox = sandbox();
    let running = start_shell(&sandbox, "echo up; exec sleep 1000");
    let task = children(running.pid())[0];
    for stop in [SIGTSTP, SIGTTIN, SIGTTOU] {
        running.signal(stop);
        wait_until(DEADLINE, || {
            process_state(task) == Some('T') && process_state(running.pid()) == Some('T')
        });
        running.signal(SIGCONT);
        wait_until(DEADLINE, || {
            process_state(task) == Some('S') && process_state(running.pid()) == Some('S')
        });
    }
    running.signal(SIGTERM);
    let _ = running.wait(DEADLINE).killed_by(SIGTERM);
}

#[test]
fn real_time_signals_reach_the_task() {
    let sandbox = sandbox();
    let running = start_shell(&sandbox, "echo up; exec sleep 1000");
    running.signal(SIGRTMIN_PLUS_6);
    let _ = running.wait(DEADLINE).killed_by(SIGRTMIN_PLUS_6);
}

#[test]
fn a_signal_that_the_task_sends_to_its_parent_does_not_come_back() {
    let sandbox = sandbox();
    let script =
        "kill -USR1 $PPID; kill -TERM $PPID; while [ ! -e stop ]; do sleep 0.01; done; exit 3";
    let running = sandbox.spawn(["run", "sh", "-c", script]);
    running.wait_for_stderr("signal 15\n");
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(3);
    assert_eq!(output.stderr, "signal 10\nsignal 15\n");
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let sandbox = sandbox();
    sandbox.write("notes", "text");
    sandbox.write("script", "#!/no/such/interpreter\n");
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(sandbox.path("script"))
            .status()
            .unwrap()
            .success()
    );
    let told = |program: &str, code: i32| sandbox.run(["run", program]).exited(code).stderr;
    assert_eq!(
        told("no-such-program", 127),
        "cannot run `no-such-program`: No such file or directory\n"
    );
    assert_eq!(
        told("./none", 127),
        "cannot run `./none`: No such file or directory\n"
    );
    assert_eq!(
        told("./script", 127),
        "cannot run `./script`: its interpreter does not exist\n"
    );
    assert_eq!(
        told("./notes", 126),
        "cannot run `./notes`: Permission denied\n"
    );
    assert_eq!(told("/", 126), "cannot run `/`: Permission denied\n");
    assert_eq!(
        told("./notes/x", 126),
        "cannot run `./notes/x`: Not a directory\n"
    );
}

#[test]
fn orphans_come_to_us_and_are_reaped() {
    let sandbox = sandbox();
    let script = "for i in 1 2 3 4 5; do (sh -c 'exit 4' &); done; (sleep 1000 >&- 2>&- & echo orphan $!); \
                  echo up; exec sleep 1000 >&- 2>&-";
    let running = sandbox.spawn(["orphans", "sh", "-c", script]);
    running.wait_for_stdout("up");
    let stdout = running.stdout();
    let orphan = stdout
        .lines()
        .find_map(|line| line.strip_prefix("orphan "))
        .unwrap()
        .parse()
        .unwrap();
    // The task and the sleeping orphan are left, the five are gone, and none is a zombie.
    wait_until(DEADLINE, || {
        children(running.pid()).len() == 2 && children(running.pid()).contains(&orphan)
    });

    send_signal(orphan, SIGKILL);

    wait_until(DEADLINE, || process_state(orphan).is_none());
    running.signal(SIGTERM);
    let output = running.wait(DEADLINE).killed_by(SIGTERM);
    // Each was told of with its status.
    assert_eq!(output.stderr.matches("orphan exited with 4\n").count(), 5);
    assert_eq!(output.stderr.matches("orphan SIGKILL\n").count(), 1);
}

#[test]
fn orphans_are_reaped_after_the_end_of_the_task_too_which_stays_a_zombie() {
    let sandbox = sandbox();
    let script = "(while [ ! -e over ]; do sleep 0.01; done >&- 2>&- & echo orphan=$!); exit 3";
    let running = sandbox.spawn(["late", "sh", "-c", script]);
    running.wait_for_stdout("orphan=");
    let orphan = running
        .stdout()
        .trim()
        .trim_start_matches("orphan=")
        .parse()
        .unwrap();
    wait_until(DEADLINE, || {
        let mut children = children(running.pid()).into_iter();
        children.any(|child| child != orphan && process_state(child) == Some('Z'))
    });
    sandbox.write("over", "");
    wait_until(DEADLINE, || process_state(orphan).is_none());
    sandbox.write("end", "");
    let _ = running.wait(DEADLINE).exited(3);
}

#[test]
fn a_crash_of_ours_leaves_the_task_in_good_hands() {
    for crash in [4, 7, 8, 11] {
        let sandbox = sandbox();
        let running = start_shell(&sandbox, &format!("trap 'exit 9' TERM; {LOOP}"));
        let task = children(running.pid())[0];
        if !fault(running.pid(), crash) {
            return;
        }
        running.wait_for_stderr("stand-in");
        assert_eq!(children(running.pid()), [task]);
        assert_ne!(process_state(task), None);
        running.signal(SIGTERM);
        let _ = running.wait(DEADLINE).exited(9);
    }
}

/// Has a process receive a signal as from itself, which is what a fault looks like. Returns whether that may be done here.
#[must_use]
fn fault(pid: i32, signal: i32) -> bool {
    let script = include_str!("fault.py");
    let python = Sandbox::new(&newest_python().path);
    let output = python.run(["-c", script, &pid.to_string(), &signal.to_string()]);
    if output.status.success() {
        return true;
    }
    assert!(output.stderr.contains("not permitted"), "{output}");
    skip("this user may not trace a process that is not its descendant");
    false
}

#[expect(
    clippy::print_stderr,
    reason = "a skipped test must not look like a passed one"
)]
fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}

#[test]
fn the_task_of_a_crashed_wrapper_ends_it_as_ever() {
    for (last, signal) in [("kill -KILL $$", Some(SIGKILL)), ("exit 4", None)] {
        let sandbox = sandbox();
        let script = format!("echo up; while [ ! -e stop ]; do sleep 0.01; done; {last}");
        let running = start_shell(&sandbox, &script);
        if !fault(running.pid(), 11) {
            return;
        }
        running.wait_for_stderr("stand-in");
        sandbox.write("stop", "");
        let output = running.wait(DEADLINE);
        let _ = match signal {
            Some(signal) => output.killed_by(signal),
            None => output.exited(4),
        };
    }
}

#[test]
fn a_grace_that_is_over_ends_a_task_that_ignores_sigterm() {
    let sandbox = sandbox();
    let running = sandbox.spawn(["patient", "sh", "-c", &format!("trap '' TERM; {LOOP}")]);
    running.wait_for_stdout("up");
    running.signal(SIGTERM);
    let output = running.wait(DEADLINE).killed_by(SIGKILL);
    assert_eq!(output.stderr, "signal 15\nkilled\n");
}

#[test]
fn the_task_begins_with_the_mask_and_the_ignored_signals_of_its_caller() {
    // Each case: what the caller ignores and what it blocks. Python ignores SIGPIPE and SIGXFSZ by itself.
    for (ignored, default, blocked) in [
        ("", "13, 25", ""),
        ("1, 13, 17", "", "10, 15, 34"),
        ("2, 3, 20", "13", "64, 17"),
        // Those that tini's own test sets: some that it touches, and a fault and an illegal instruction that it does not.
        ("22, 11, 2", "", "21, 4, 15"),
    ] {
        let caller = format!(
            "import os, signal, sys\n\
             for number in [{ignored}]: signal.signal(number, signal.SIG_IGN)\n\
             for number in [{default}]: signal.signal(number, signal.SIG_DFL)\n\
             signal.pthread_sigmask(signal.SIG_SETMASK, [{blocked}])\n\
             os.execvp(sys.argv[1], sys.argv[1:])\n"
        );
        let python = Sandbox::new(&newest_python().path);
        let look = [
            "grep",
            "-E",
            "Sig(Blk|Ign|Cgt|Pnd)|ShdPnd",
            "/proc/self/status",
        ];
        let without_us = python
            .run(["-c", &caller].iter().chain(&look))
            .success()
            .stdout;
        let program = wrapper().display().to_string();
        let wrapped = ["-c", &caller, &program, "run"];
        let with_us = python.run(wrapped.iter().chain(&look)).success().stdout;
        assert_eq!(with_us, without_us);
    }
}

#[test]
fn nohup_still_protects_the_task() {
    let nohup = Sandbox::new(Path::new("/usr/bin/nohup"));
    let program = wrapper().display().to_string();
    let running = nohup.spawn([
        program.as_str(),
        "run",
        "sh",
        "-c",
        "echo up; sleep 0.3; exit 6",
    ]);
    running.wait_for_stdout("up");
    running.signal(SIGHUP);
    let _ = running.wait(DEADLINE).exited(6);
}

#[test]
fn standard_streams_pass_through() {
    let output = sandbox()
        .run_with_input(["run", "sh", "-c", "cat; echo err >&2"], "in\n")
        .success();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("in\n", "err\n")
    );
}

#[test]
fn the_task_stays_in_our_process_group_and_session() {
    let sandbox = sandbox();
    let running = start_shell(&sandbox, "echo up; exec sleep 1000");
    let groups = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.split_whitespace()
            .skip(4)
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(groups(children(running.pid())[0]), groups(running.pid()));
}

#[test]
fn other_descriptors_and_the_environment_pass_through_and_none_of_ours_does() {
    let program = wrapper().display().to_string();
    let list = "ls -l /proc/self/fd | sed 's/.* \\([0-9]*\\) -> .*/\\1/' | grep -v total | tr '\\n' ' '; env | sort";
    let shell = Sandbox::new(Path::new("/bin/sh")).environment("A", "1");
    let script = format!(
        "exec 7</dev/null; sh -c \"$0\" > without; {program} run sh -c \"$0\" > with; diff with without"
    );
    let _ = shell.run(["-c", &script, list]).success();
}

#[test]
fn as_pid_1_a_killed_task_is_128_and_its_signal() {
    let program = wrapper().display().to_string();
    let unshare = Sandbox::new(Path::new("/usr/bin/unshare"));
    let in_namespace = ["--pid", "--fork", "--kill-child"];
    if !unshare
        .run(in_namespace.iter().chain(&["true"]))
        .status
        .success()
    {
        return skip("this user cannot make a PID namespace");
    }
    for signal in [SIGKILL, SIGTERM] {
        let script = format!("kill -{signal} $$; sleep 30");
        let output =
            unshare.run(
                in_namespace
                    .iter()
                    .chain(&[program.as_str(), "run", "sh", "-c", &script]),
            );
        let _ = output.exited(128 + signal);
    }
}

#[test]
fn the_shell_and_its_terminal_work_as_without_us() {
    let driver = include_str!("terminal.py");
    let job = PythonJob::new(newest_python(), driver)
        .argument(&format!("{} run", wrapper().display()))
        .deadline(8 * DEADLINE)
        .start();
    drop(job);
}

#[test]
fn a_task_that_leads_its_own_process_group_is_lent_the_terminal() {
    let driver = include_str!("terminal.py");
    let job = PythonJob::new(newest_python(), driver)
        .argument(&format!("{} group", wrapper().display()))
        .deadline(8 * DEADLINE)
        .start();
    drop(job);
}

#[test]
fn an_attached_process_is_watched_and_never_signalled() {
    let shell = Sandbox::new(Path::new("/bin/sh"));
    let target = shell.spawn(["-c", &format!("trap 'exit 9' USR1; {LOOP}")]);
    target.wait_for_stdout("up");
    let sandbox = sandbox();
    let running = sandbox.spawn(["attach", &target.pid().to_string()]);
    wait_until(DEADLINE, || {
        fs::read_dir(format!("/proc/{}/task", running.pid())).is_ok_and(|tasks| tasks.count() == 2)
    });

    running.signal(SIGTERM);
    running.wait_for_stderr("signal 15");
    running.signal(SIGINT);
    running.wait_for_stderr("signal 2");
    assert!(!target.has_ended());

    target.signal(SIGUSR1);
    let output = running.wait(DEADLINE).success();
    assert_eq!(output.stderr, "signal 15\nsignal 2\n");
    let _ = target.wait(DEADLINE).exited(9);
}

#[test]
fn attaching_to_nothing_is_an_error() {
    for pid in ["-5", "0", "4194304"] {
        let output = sandbox().run(["attach", pid]).exited(1);
        assert_eq!(output.stderr, format!("there is no process {pid}\n"));
    }
}

#[test]
fn an_attached_watcher_that_nohup_protects_is_not_woken_by_a_hangup() {
    let shell = Sandbox::new(Path::new("/bin/sh"));
    let target = shell.spawn(["-c", "echo up; exec sleep 1000"]);
    target.wait_for_stdout("up");
    let nohup = Sandbox::new(Path::new("/usr/bin/nohup"));
    let program = wrapper().display().to_string();
    let running = nohup.spawn([program.as_str(), "attach", &target.pid().to_string()]);
    wait_until(DEADLINE, || {
        fs::read_dir(format!("/proc/{}/task", running.pid())).is_ok_and(|tasks| tasks.count() == 2)
    });

    running.signal(SIGHUP);
    running.signal(SIGTERM);
    running.wait_for_stderr("signal 15");
    assert!(!running.stderr().contains("signal 1\n"));
}
