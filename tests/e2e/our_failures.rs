//! Whatever fails on our side, the task runs to its end and we end as it ends.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use testkit::{DEADLINE, Running, Sandbox, process_exists, send_signal, wait_until};

use crate::support::{binary, sandbox, stored, wait_for_stored};

const TERM: i32 = 15;
const KILL: i32 = 9;

/// A task that says it is up, and ends with this status once there is a file `stop`.
const TASK: &str = "echo up; while [ ! -e stop ]; do sleep 0.02; done; echo done; exit 5";

fn start(sandbox: &Sandbox) -> Running {
    let running = sandbox.spawn(["run", "--interval", "100ms", "--", "sh", "-c", TASK]);
    running.wait_for_stdout("up\n");
    running
}

#[track_caller]
fn ends_well(sandbox: &Sandbox, running: Running) -> String {
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    assert_eq!(output.stdout, "up\ndone\n");
    let own = output.stderr.lines();
    let strange: Vec<&str> = own
        .filter(|line| !line.starts_with("[taskscope] "))
        .collect();
    assert_eq!(strange, Vec::<&str>::new());
    output.stderr
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.map(|pid| pid.parse().unwrap()).collect()
}

fn is_ours(pid: i32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.starts_with(b"taskscope\0")
}

/// The shell that is the task. A helper that is only just forked is called as the thread that forked it.
fn task_of(running: &Running) -> i32 {
    let is_shell = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sh\n")
    };
    children(running.pid()).into_iter().find(is_shell).unwrap()
}

#[test]
fn without_memory_the_task_goes_on() {
    let sandbox = sandbox();
    let task = "echo up; while [ ! -e stop ]; do if [ -e grow ]; then rm grow; for i in 1 2 3 4 5 6 7 8 9; do \
                for j in 1 2 3 4 5 6 7 8 9; do sleep 1000 & all=\"$all $!\"; done; done; fi; sleep 0.02; done; kill $all; echo done; exit 5";
    let running = sandbox.spawn(["run", "--interval", "100ms", "--", "sh", "-c", task]);
    running.wait_for_stdout("up\n");
    wait_for_stored(&sandbox, 1);
    // Enough for a program that starts, and far below what we have mapped by now: whatever more is asked for is refused.
    let limit = "--as=300000000";
    let prlimit = Command::new("prlimit")
        .args(["--pid", &running.pid().to_string(), limit])
        .status();
    assert!(prlimit.unwrap().success());
    // Many processes to look at need much.
    sandbox.write("grow", "");
    wait_until(DEADLINE, || {
        let words = running.stderr();
        words.contains("crashed (SIGABRT)") || words.contains("failed, and goes on")
    });
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    assert_eq!(output.stdout, "up\ndone\n");
}

#[test]
fn a_crash_is_told_in_a_line_and_signals_and_status_are_the_task_s_as_ever() {
    for whom in ["child", "scope"] {
        let sandbox = sandbox();
        let task =
            "trap 'echo caught' TERM; echo up; while [ ! -e stop ]; do sleep 0.02; done; exit 5";
        let running = sandbox.spawn(["run", "--signals", whom, "--", "sh", "-c", task]);
        running.wait_for_stdout("up\n");
        wait_for_stored(&sandbox, 1);
        if !fault(running.pid()) {
            return;
        }
        running.wait_for_stderr("[taskscope] warning: taskscope crashed (SIGSEGV)");
        // Our helpers end with us.
        wait_until(DEADLINE, || {
            !children(running.pid()).into_iter().any(is_ours)
        });
        running.signal(TERM);
        running.wait_for_stdout("caught\n");
        sandbox.write("stop", "");
        running.wait(DEADLINE).exited(5);
    }
}

/// Has the process receive SIGSEGV as if it had touched what it may not. Returns whether that may be done here.
fn fault(pid: i32) -> bool {
    let script = include_str!("../../host/supervise/tests/fault.py");
    let mut python = Command::new("python3");
    let told = python
        .args(["-c", script, &pid.to_string(), "11"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&told.stderr);
    let is_refused = words.contains("not permitted");
    assert!(told.status.success() || is_refused, "{words}");
    if is_refused {
        eprintln!("SKIPPED: this user may not trace a process that is not its descendant");
    }
    !is_refused
}

#[test]
fn helpers_that_are_killed_are_no_loss() {
    let sandbox = sandbox();
    let running = start(&sandbox);
    wait_for_stored(&sandbox, 1);
    for _ in 0..5 {
        let helpers: Vec<i32> = children(running.pid())
            .into_iter()
            .filter(|pid| is_ours(*pid))
            .collect();
        for helper in helpers {
            // It may have ended by itself.
            _ = Command::new("kill")
                .args(["-9", &helper.to_string()])
                .output();
        }
        let count = stored(&sandbox).len();
        wait_until(DEADLINE, || stored(&sandbox).len() > count);
    }
    ends_well(&sandbox, running);
}

#[test]
fn a_collector_that_is_killed_leaves_the_task_running() {
    let sandbox = sandbox();
    let running = start(&sandbox);
    wait_for_stored(&sandbox, 1);
    let task = task_of(&running);
    running.signal(KILL);
    wait_until(DEADLINE, || running.has_ended());
    assert!(process_exists(task));
    sandbox.write("stop", "");
    running.wait_for_stdout("done\n");
}

/// Runs `script` where it may make mounts of its own, with `$0` our program; the reason where that cannot be.
pub(crate) fn among_mounts(sandbox: &Sandbox, script: &str) -> Option<std::process::Output> {
    let ours = sandbox.command([""; 0]);
    let variables: Vec<_> = ours
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private"]);
    let usable = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
        .output();
    if !usable.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this user cannot make mounts");
        return None;
    }
    unshare
        .args(["sh", "-c", script])
        .arg(binary())
        .env_clear()
        .envs(variables);
    Some(unshare.current_dir(sandbox.directory()).output().unwrap())
}

/// What it said, where all of it is ours and few lines.
#[track_caller]
fn said(output: &std::process::Output, code: i32) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mine\n", "{words}");
    assert!(
        words.lines().all(|line| line.starts_with("[taskscope] ")),
        "{words}"
    );
    assert!(
        !words.contains("failed, and goes on"),
        "nothing panicked: {words}"
    );
    assert!(words.lines().count() <= 4, "{words}");
    words
}

#[test]
fn without_proc_the_task_runs_unwatched() {
    let sandbox = sandbox();
    let script = "umount -l /proc && exec \"$0\" run -- sh -c 'echo mine; exit 3'";
    let Some(output) = among_mounts(&sandbox, script) else {
        return;
    };
    let words = said(&output, 3);
    assert!(words.contains("cannot be watched"), "{words}");
}

#[test]
fn where_nothing_can_be_written_the_task_runs_and_a_line_says_so() {
    let sandbox = sandbox();
    let script = "mount --bind \"$PWD\" \"$PWD\" && mount -o remount,ro,bind \"$PWD\" && cd \"$PWD\" && \
                  exec \"$0\" run -- sh -c 'sleep 0.3; echo mine; exit 3'";
    let Some(output) = among_mounts(&sandbox, script) else {
        return;
    };
    let words = said(&output, 3);
    assert!(
        words.contains("Read-only file system") || words.contains("read-only"),
        "{words}"
    );
}

#[test]
fn a_full_disk_is_a_line_and_the_task_s_own_status() {
    let sandbox = sandbox();
    let script = "mount -t tmpfs -o size=64k none /mnt && { dd if=/dev/zero of=/mnt/fill bs=1k 2> /dev/null; true; } && \
                  XDG_STATE_HOME=/mnt exec \"$0\" run --store /mnt/store -- sh -c 'sleep 0.3; echo mine; exit 3'";
    let Some(output) = among_mounts(&sandbox, script) else {
        return;
    };
    let words = said(&output, 3);
    assert!(
        words.contains("No space left") || words.contains("StorageFull"),
        "{words}"
    );
}

#[test]
fn a_user_who_can_start_no_thread_runs_the_task_all_the_same() {
    let sandbox = sandbox();
    let Ok(nobody) = testkit::unprivileged(&binary()) else {
        return eprintln!("SKIPPED: only root can start a process of another user");
    };
    drop(sandbox);
    // The limit counts all processes and threads of a user, so this is one that nobody else is. The task itself may need one more
    // than we.
    let user = 1_000_000_000 + std::process::id();
    let program = nobody.directory().join("taskscope");
    let shell = nobody.directory().join("start.sh");
    let script = format!(
        "exec prlimit --nproc=2 {} run -- /bin/sh -c 'echo mine; exit 3'\n",
        program.display()
    );
    std::fs::write(&shell, script).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
        .arg("/bin/sh")
        .arg(&shell)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    let output = command.current_dir(nobody.directory()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("setpriv: ") {
        return eprintln!("SKIPPED: there are not so many users here: {said}");
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mine\n");
    assert!(
        said.lines().all(|line| line.starts_with("[taskscope] ")),
        "{said}"
    );
}

#[test]
fn nobody_who_reads_stderr_holds_up_nobody() {
    let sandbox = sandbox();
    // A pipe that is full from the start and stays so.
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let block = [b'x'; 4096];
    while rustix::io::write(&writer, &block).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).unwrap();
    let mut command = sandbox.command([
        "run",
        "--interval",
        "100ms",
        "--",
        "sh",
        "-c",
        "sleep 0.5; exit 3",
    ]);
    let mut child = command
        .stderr(writer)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    drop(command);
    let mut status = None;
    wait_until(DEADLINE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(3));
    let mut rest = String::new();
    std::fs::File::from(reader)
        .read_to_string(&mut rest)
        .unwrap();
    assert!(rest.starts_with("xxx"));
}

#[test]
fn a_stderr_whose_reader_is_gone_is_no_error() {
    let sandbox = sandbox();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let mut command = sandbox.command(["run", "--", "sh", "-c", "sleep 0.2; exit 3"]);
    let status = command
        .stderr(writer)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(!stored(&sandbox).is_empty());
}

#[test]
fn a_settled_account_of_a_killed_task_needs_no_help_of_ours() {
    // Killed while our own helper hangs: neither is waited for beyond its time.
    let sandbox = sandbox();
    let running = start(&sandbox);
    wait_for_stored(&sandbox, 1);
    let helpers = children(running.pid())
        .into_iter()
        .filter(|pid| is_ours(*pid));
    for helper in helpers {
        // It may have ended by itself.
        _ = Command::new("kill")
            .args(["-19", &helper.to_string()])
            .output();
    }
    send_signal(task_of(&running), KILL);
    running.wait(DEADLINE).killed_by(KILL);
}

/// Each thread of ours.
const THREADS: [&str; 7] = [
    "main",
    "supervise",
    "deaths",
    "ends",
    "control",
    "collector",
    "sampler",
];

#[test]
fn a_panic_in_any_of_our_threads_is_a_line_and_the_task_has_its_signals_and_its_status() {
    // An orphan and a child that end, so that every thread has work; then the task waits for SIGTERM.
    let task = "(sleep 0.1 &); sleep 0.2 & trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.02; done";
    for part in THREADS {
        let sandbox = sandbox().environment("TASKSCOPE_PANIC", part);
        let running = sandbox.spawn(["run", "--interval", "200ms", "--", "sh", "-c", task]);
        running.wait_for_stdout("up\n");
        let told = format!("on purpose, in {part}");
        running.wait_for_stderr(&told);
        running.signal(TERM);
        let output = running.wait(DEADLINE * 2).exited(5);
        assert_eq!(output.stdout, "up\ncaught\n", "{part}: {output}");
        let mut lines = output.stderr.lines();
        assert!(
            lines.all(|line| line.starts_with("[taskscope] ")),
            "{part}: {output}"
        );
        assert_eq!(
            output.stderr.matches(&told).count(),
            1,
            "a fault that repeats is said once: {output}"
        );
        assert!(output.stderr.lines().count() <= 4, "{part}: {output}");
    }
}
