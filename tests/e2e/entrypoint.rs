//! `run` in the place of an init: what the task is started as, what reaches it, and how we end.

use std::process::Command;

use testkit::{DEADLINE, Sandbox, process_state, send_signal, wait_until};

use crate::support::{binary, repetitions, sandbox};

const TERM: i32 = 15;
const KILL: i32 = 9;

/// How often what depends on the instant is tried; a variable says otherwise.
const REPETITIONS: u64 = 20;

/// `tool` with these words before ours, if this user may make such a place; else why not.
fn place(words: &[&str]) -> Option<Sandbox> {
    let usable = Command::new(words[0])
        .args(&words[1..])
        .arg("/bin/true")
        .output();
    if usable.is_ok_and(|output| output.status.success()) {
        drop(sandbox()); // plugins are compiled from here on
        return Some(Sandbox::new(std::path::Path::new("/usr/bin/env")));
    }
    eprintln!("SKIPPED: `{}` cannot be had here", words.join(" "));
    None
}

/// Runs our program behind `words`.
fn run_in(sandbox: &Sandbox, words: &[&str], arguments: &[&str]) -> testkit::Output {
    let program = binary();
    let ours = [program.to_str().unwrap(), "run"];
    sandbox.run(words.iter().chain(&ours).chain(arguments))
}

const PID_1: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

#[test]
fn the_exit_status_is_exact_again_and_again() {
    let sandbox = sandbox();
    for repetition in 0..repetitions(REPETITIONS) {
        let code = i32::try_from(repetition % 256).unwrap();
        let script = format!("exit {code}");
        sandbox.run(["run", "--", "sh", "-c", &script]).exited(code);
        let signal = [1, 2, 6, 9, 11, 14, 15, 40][usize::try_from(repetition % 8).unwrap()];
        let script = format!("kill -{signal} $$; sleep 100");
        let output = sandbox.run(["run", "--", "sh", "-c", &script]);
        assert!(!std::os::unix::process::ExitStatusExt::core_dumped(
            &output.status
        ));
        output.killed_by(signal);
    }
}

#[test]
fn as_pid_1_the_exit_status_is_exact_too() {
    let Some(sandbox) = place(&PID_1) else { return };
    for repetition in 0..repetitions(REPETITIONS) / 4 {
        let code = i32::try_from(3 + repetition % 250).unwrap();
        run_in(
            &sandbox,
            &PID_1,
            &["--", "sh", "-c", &format!("exit {code}")],
        )
        .exited(code);
        let signal = [2, 9, 11, 15][usize::try_from(repetition % 4).unwrap()];
        let script = format!("kill -{signal} $$; sleep 100");
        run_in(&sandbox, &PID_1, &["--", "sh", "-c", &script]).exited(128 + signal);
    }
}

#[test]
fn as_pid_1_every_orphan_is_reaped_and_sigterm_reaches_the_task() {
    let Some(sandbox) = place(&PID_1) else { return };
    // Twenty orphans that end, and a task that waits until no process but it, its shell and us is left, zombies included.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'sleep 0.1 &' &); done; trap 'exit 9' TERM; \
                  while grep -q -s Z.*zombie /proc/[0-9]*/status || [ $(ls -d /proc/[0-9]*/exe | wc -l) -gt 20 ]; do sleep 0.05; done; \
                  echo reaped; kill -TERM 1; while :; do sleep 0.05; done";
    let output = run_in(
        &sandbox,
        &PID_1,
        &["--", "sh", "-c", &format!("({script}) & wait $!")],
    );
    // The inner shell's signal to PID 1 comes from a process that is not the main one, so it is forwarded to the main one.
    assert!(output.stdout.contains("reaped"), "{output}");
    output.exited(128 + TERM);
}

#[test]
fn under_setsid_the_exit_status_is_the_same() {
    let setsid = ["setsid", "--wait"];
    let Some(sandbox) = place(&setsid) else {
        return;
    };
    run_in(&sandbox, &setsid, &["--", "sh", "-c", "exit 5"]).exited(5);
}

/// Prints the name of each signal that comes.
const LISTENER: &str = "
import os, signal, sys, time
def got(number, frame):
    os.write(1, b'got %d\\n' % number)
for number in list(range(1, 32)) + [signal.SIGRTMIN, signal.SIGRTMAX]:
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
        signal.signal(number, got)
os.write(1, b'up\\n')
while True:
    time.sleep(0.05)
";

#[test]
fn every_signal_but_kill_and_stop_reaches_the_task_whoever_it_goes_to() {
    for whom in ["child", "group", "scope"] {
        let sandbox = sandbox();
        sandbox.write("listener.py", LISTENER);
        let running = sandbox.spawn(["run", "--signals", whom, "--", "python3", "listener.py"]);
        running.wait_for_stdout("up\n");
        // Not CHLD, which is about our children. RTMIN is 34 for programs of glibc.
        for signal in (1..32)
            .chain([34, 64])
            .filter(|signal| ![9, 17, 19].contains(signal))
        {
            running.signal(signal);
            running.wait_for_stdout(&format!("got {signal}\n"));
        }
        assert!(
            !running.stderr().contains("crashed"),
            "{}",
            running.stderr()
        );
        let task = running.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{task}/task/{task}/children")).unwrap();
        for child in children.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.starts_with("python") {
                send_signal(child.parse().unwrap(), KILL);
            }
        }
        running.wait(DEADLINE).killed_by(KILL);
    }
}

/// A main process that lives on after SIGTERM, and a daemon in a session of its own that ends of it.
const FAMILY: &str = "trap 'echo main' TERM; \
                      (setsid sh -c 'trap \"echo daemon; exit\" TERM; echo up; while :; do sleep 0.05; done' &); \
                      while [ ! -e stop ]; do sleep 0.05; done; exit 4";

#[test]
fn a_daemon_gets_sigterm_where_signals_go_to_the_scope_and_not_where_they_go_to_the_child() {
    for (whom, daemon_hears) in [("scope", true), ("child", false), ("group", false)] {
        let sandbox = sandbox();
        let running = sandbox.spawn(["run", "--signals", whom, "--", "sh", "-c", FAMILY]);
        running.wait_for_stdout("up\n");
        running.signal(TERM);
        running.wait_for_stdout("main\n");
        if daemon_hears {
            running.wait_for_stdout("daemon\n");
        }
        sandbox.write("stop", "");
        wait_until(DEADLINE, || running.has_ended());
        assert_eq!(
            running.stdout().contains("daemon\n"),
            daemon_hears,
            "{whom}"
        );
        // The daemon that heard nothing outlives the task, as it would without us: it is ours to end.
        end_those_left("trap \"echo daemon", sandbox.directory());
    }
}

/// Kills the processes whose command line holds `text` and whose working directory is `directory`.
fn end_those_left(text: &str, directory: &std::path::Path) {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_there =
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory);
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (true, true, Some(pid)) = (
            is_there,
            String::from_utf8_lossy(&command).contains(text),
            pid,
        ) {
            // A child of a shell looks like the shell until it is another program, and may be gone by now.
            testkit::kill(pid);
            wait_until(DEADLINE, || {
                let is_the_same = std::fs::read_link(entry.path().join("cwd"));
                let is_the_same = is_the_same.is_ok_and(|cwd| cwd == directory);
                !is_the_same || matches!(process_state(pid), None | Some('Z'))
            });
        }
    }
}

#[test]
fn after_the_stop_grace_what_outlived_sigterm_is_killed_and_named() {
    let stubborn = "trap '' TERM; echo up; sleep 1000 & wait; wait";
    for (whom, sleeper_is_killed) in [("child", false), ("group", true), ("scope", true)] {
        let sandbox = sandbox();
        let settings = format!("[run]\nsignals = \"{whom}\"\nstop-grace = \"300ms\"\n");
        sandbox.write("collector.toml", &settings);
        let running = sandbox.spawn(["run", "--", "sh", "-c", stubborn]);
        running.wait_for_stdout("up\n");
        running.signal(TERM);
        wait_until(DEADLINE, || running.has_ended());
        let words = running.stderr();
        assert!(
            words.contains("SIGKILL after the stop-grace of 300ms"),
            "{words}"
        );
        assert!(words.contains("sh (ignores it)"), "{words}");
        assert_eq!(
            words.contains("sleep (ignores it)"),
            sleeper_is_killed,
            "{whom}: {words}"
        );
        end_those_left("sleep", sandbox.directory());
        running.wait(DEADLINE).killed_by(KILL);
    }
}

#[test]
fn a_task_that_ends_within_the_grace_is_not_killed_and_nothing_is_said() {
    let sandbox = sandbox();
    let task = "trap 'sleep 0.2; exit 6' TERM; echo up; while :; do sleep 0.02; done";
    let running = sandbox.spawn(["run", "--stop-grace", "100s", "--", "sh", "-c", task]);
    running.wait_for_stdout("up\n");
    running.signal(TERM);
    let output = running.wait(DEADLINE).exited(6);
    assert!(!output.stderr.contains("SIGKILL"), "{output}");
}

/// What a program can find out about how it was started.
const FACTS: &str = "
import os, sys
own = '/proc/self/'
for name in ('limits', 'oom_score_adj', 'cgroup', 'personality', 'timerslack_ns', 'coredump_filter', 'setgroups', 'uid_map', 'attr/current'):
    try: print(name, open(own + name).read())
    except OSError as error: print(name, error.errno)
kept = ('Umask', 'Groups', 'Uid', 'Gid', 'Sig', 'Shd', 'Cap', 'NoNewPrivs', 'Seccomp', 'Cpus_allowed_list', 'Mems_allowed_list', 'NStgid')
print([line for line in open(own + 'status') if line.startswith(kept) and not line.startswith(('SigQ', 'NStgid'))])
print('nice', os.nice(0), 'affinity', sorted(os.sched_getaffinity(0)), 'policy', os.sched_getscheduler(0))
print('cwd', os.getcwd(), 'arguments', open(own + 'cmdline').read().split('\\0'), 'argv0', sys.argv)
print('environment', sorted(os.environ.items()))
print('group', os.getpgid(0), 'session', os.getsid(0))
names = {int(fd): os.readlink(own + 'fd/' + fd) for fd in os.listdir(own + 'fd') if os.path.exists(own + 'fd/' + fd)}
print('descriptors', sorted((fd, 'pipe' if name.startswith('pipe') else name) for fd, name in names.items()))
";

/// What `sh` says of a script in the sandbox's directory and environment.
fn shell(sandbox: &Sandbox, script: &str) -> std::process::Output {
    let ours = sandbox.command([""; 0]);
    let variables = ours
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(sandbox.directory());
    shell.env_clear().envs(variables).output().unwrap()
}

#[test]
fn the_task_is_started_as_it_would_be_without_us() {
    let sandbox = sandbox();
    sandbox.write("facts.py", FACTS);
    let program = binary();
    let (program, directory) = (program.display(), sandbox.directory().display());
    // A caller that has set what a caller can set.
    let told = |before: &str| {
        let script = format!(
            "ulimit -c 4096; ulimit -n 777; ulimit -s 4096; umask 027; exec 7</dev/null 9>&1; \
             [ ! -w /proc/self/oom_score_adj ] || echo 300 > /proc/self/oom_score_adj; export ODD='a b' EMPTY=; cd /usr; \
             exec nice -n 5 taskset -c 0 setpriv --no-new-privs {before} python3 {directory}/facts.py"
        );
        let output = shell(&sandbox, &script);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let without = told("");
    assert!(
        without.contains("NoNewPrivs:\\t1") && without.contains("nice 5"),
        "{without}"
    );
    let with = told(&format!("{program} run --store {directory}/store --"));
    assert_eq!(
        with.lines().count(),
        without.lines().count(),
        "{with}\n{without}"
    );
    for (with, without) in with.lines().zip(without.lines()) {
        assert_eq!(without_socket(with), without);
    }
}

/// The variable that names our control socket is the one that is added to the environment.
fn without_socket(line: &str) -> String {
    let Some((before, after)) = line.split_once("('TASKSCOPE_SOCKET', '") else {
        return line.to_owned();
    };
    let (_, after) = after.split_once("')").unwrap();
    let (before, after) = (
        before.trim_end_matches(", "),
        after.trim_start_matches(", "),
    );
    let between = if before.ends_with('[') || after.starts_with(']') {
        ""
    } else {
        ", "
    };
    format!("{before}{between}{after}")
}

#[test]
fn standard_streams_that_are_closed_stay_closed_and_we_live() {
    let sandbox = sandbox();
    // A file that is opened has the lowest number that is free.
    let task = "import os\n\
                is_open = lambda fd: os.path.exists('/proc/self/fd/%d' % fd)\n\
                found = [fd for fd in range(3) if is_open(fd)]\n\
                open('streams', 'w').write(repr(found))\n\
                os._exit(3)\n";
    sandbox.write("list.py", task);
    let program = binary();
    let cases = [
        "0<&-",
        "1>&-",
        "2>&-",
        "0<&- 1>&-",
        "0<&- 1>&- 2>&-",
        "1>&- 2>&-",
        "",
    ];
    for closed in cases {
        let told = |before: &str| {
            let status = shell(
                &sandbox,
                &format!("exec {closed}; exec {before} python3 list.py"),
            )
            .status;
            assert_eq!(status.code(), Some(3), "{closed}: {before}");
            std::fs::read_to_string(sandbox.path("streams")).unwrap()
        };
        let (without, with) = (told(""), told(&format!("{} run --", program.display())));
        assert_eq!(with, without, "{closed}");
    }
    assert_eq!(crate::support::stored(&sandbox).len(), cases.len());
}
