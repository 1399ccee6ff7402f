//! What the test suites of tini and dumb-init demand and no other test of ours shows; docs/entrypoint.md has the whole list.

use std::process::Command;

use testkit::{DEADLINE, Running, process_state, send_signal, wait_until};

use crate::ends::python;
use crate::support::{binary, sandbox};

const USR1: i32 = 10;
const TERM: i32 = 15;
const KILL: i32 = 9;

/// The PIDs that a task has printed, one a line, as `pid=`.
fn printed(running: &Running, count: usize) -> Vec<i32> {
    let pids = |running: &Running| -> Vec<i32> {
        let stdout = running.stdout();
        let whole = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
        let lines = whole.lines();
        let pids = lines.filter_map(|line| line.strip_prefix("pid="));
        pids.map(|pid| pid.parse().unwrap()).collect()
    };
    wait_until(DEADLINE, || pids(running).len() >= count);
    pids(running)
}

fn is_gone(pid: i32) -> bool {
    matches!(process_state(pid), None | Some('Z'))
}

#[test]
fn a_group_gets_the_signal_that_its_main_process_ignores() {
    // The child has the default: it ends of the signal, and its parent after it.
    let task = "import os, signal, subprocess, sys\n\
                signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n\
                default = lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL)\n\
                child = subprocess.Popen(['sleep', '1000'], preexec_fn=default)\n\
                print('pid=%d' % child.pid, flush=True)\n\
                sys.exit(child.wait() == -10 and 7)\n";
    let sandbox = sandbox();
    sandbox.write("task.py", task);
    let running = sandbox.spawn(["run", "--signals", "group", "--", python(), "task.py"]);
    printed(&running, 1);
    running.signal(USR1);
    running.wait(DEADLINE).exited(7);
}

#[test]
fn sigterm_ends_whole_pipelines_of_the_group_and_of_the_child_the_shell_alone() {
    let half =
        "sh -c 'echo pid=$$ >&3; exec sleep 1000' | sh -c 'echo pid=$$ >&3; exec sleep 1000'";
    let task = format!("exec 3>&1; {half} & {half} & wait");
    for (whom, all_end) in [("group", true), ("child", false)] {
        let sandbox = sandbox();
        let running = sandbox.spawn(["run", "--signals", whom, "--", "sh", "-c", &task]);
        let pids = printed(&running, 4);
        running.signal(TERM);
        wait_until(DEADLINE, || running.has_ended());
        if all_end {
            wait_until(DEADLINE, || pids.iter().all(|&pid| is_gone(pid)));
        } else {
            assert!(!pids.iter().any(|&pid| is_gone(pid)), "{whom}");
            for pid in pids {
                send_signal(pid, KILL);
            }
        }
        running.wait(DEADLINE).killed_by(TERM);
    }
}

#[test]
fn who_started_us_may_have_a_signal_sent_when_it_ends_and_the_task_gets_it() {
    // Outer, which ends, starts us with PR_SET_PDEATHSIG (prctl(2): 1).
    let outer = format!(
        "import ctypes, os, sys, time\n\
         if os.fork() == 0:\n\
         \x20   ctypes.CDLL(None).prctl(1, 10, 0, 0, 0)\n\
         \x20   os.execv({:?}, ['taskscope', 'run', '--', sys.executable, 'inner.py'])\n\
         while not os.path.exists('up'): time.sleep(0.01)\n",
        binary()
    );
    let inner = "import os, signal, sys, time\n\
                 def told(*_):\n\
                 \x20   open('told', 'w').close()\n\
                 \x20   sys.exit(0)\n\
                 signal.signal(signal.SIGUSR1, told)\n\
                 open('up', 'w').close()\n\
                 while True: time.sleep(0.01)\n";
    let sandbox = sandbox();
    sandbox.write("outer.py", &outer);
    sandbox.write("inner.py", inner);
    let ours = sandbox.command([""; 0]);
    let variables = ours
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let output = Command::new(python())
        .arg("outer.py")
        .current_dir(sandbox.directory())
        .env_clear()
        .envs(variables)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    wait_until(DEADLINE, || sandbox.path("told").exists());
}
