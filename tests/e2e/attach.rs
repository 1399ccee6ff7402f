//! `attach`: the same life for processes that we did not start.

use std::process::Command;

use testkit::{
    DEADLINE, PythonJob, newest_python, process_exists, process_state, send_signal, wait_until,
};

use crate::support::{process, sandbox, stored, wait_for_snapshot};

const KILL: i32 = 9;

/// A process that has a child and ends without it.
const PARENT: &str = "
import subprocess, time
child = subprocess.Popen(['sleep', '1000'])
print('child', child.pid)
print('ready')
time.sleep(1000)
";

#[test]
fn it_goes_on_until_the_last_of_the_family_has_ended() {
    let job = PythonJob::new(newest_python(), PARENT).start();
    let child = job.printed("child");
    let sandbox = sandbox();
    let attach = sandbox.spawn([
        "attach",
        "--pid",
        &job.pid().to_string(),
        "--interval",
        "200ms",
    ]);
    wait_for_snapshot(&sandbox, |snapshot| {
        process(snapshot, "sleep 1000").is_some()
    });
    send_signal(job.pid(), KILL);
    attach.wait_for_stderr("1 that belong to it go on");
    let orphaned = |snapshot: &serde_json::Value| {
        process(snapshot, "sleep 1000").is_some()
            && process(snapshot, "train.py").is_none_or(|it| it["state"] == "Z")
    };
    wait_for_snapshot(&sandbox, orphaned);
    assert!(!attach.has_ended());
    send_signal(child, KILL);
    attach.wait(DEADLINE).success();
}

/// Whether a collector knows a process: it has a pidfd of it (`Pid:` in its `fdinfo`, `pidfd_open(2)`).
fn holds(collector: i32, pid: i32) -> bool {
    let open = std::fs::read_dir(format!("/proc/{collector}/fdinfo"));
    let open = open.into_iter().flatten().flatten();
    let mut facts = open.filter_map(|one| std::fs::read_to_string(one.path()).ok());
    facts.any(|facts| facts.contains(&format!("\nPid:\t{pid}\n")))
}

#[test]
fn a_child_that_no_snapshot_has_seen_belongs_to_the_family_even_so() {
    let script = "
import os, subprocess, time
print('ready')
while not os.path.exists('go'): time.sleep(0.01)
child = subprocess.Popen(['sleep', '1000'])
print('child', child.pid)
time.sleep(1000)
";
    let job = PythonJob::new(newest_python(), script).start();
    let sandbox = sandbox();
    let attach = sandbox.spawn([
        "attach",
        "--pid",
        &job.pid().to_string(),
        "--interval",
        "1h",
    ]);
    wait_until(DEADLINE, || !stored(&sandbox).is_empty());
    std::fs::write(job.directory().join("go"), "").unwrap();
    job.running().wait_for_stdout("child ");
    let child = job.printed("child");
    wait_until(DEADLINE, || holds(attach.pid(), child));
    send_signal(job.pid(), KILL);
    attach.wait_for_stderr("1 that belong to it go on");
    send_signal(child, KILL);
    attach.wait(DEADLINE).success();
}

#[test]
fn what_cannot_be_watched_is_named() {
    let told = |pid: i32| {
        sandbox()
            .run(["attach", "--pid", &pid.to_string()])
            .exited(1)
            .stderr
    };
    // A zombie: its parent does not ask for its status.
    let script = "import os, time\npid = os.fork() or os._exit(0)\nprint('zombie', pid)\nprint('ready')\ntime.sleep(1000)\n";
    let job = PythonJob::new(newest_python(), script).start();
    let zombie = job.printed("zombie");
    wait_until(DEADLINE, || process_state(zombie) == Some('Z'));
    let words = told(zombie);
    assert!(
        words.contains(&format!("{zombie} is a zombie: it has ended")),
        "{words}"
    );
    assert!(process_exists(job.pid()));
    // A thread.
    let script = "import threading, time\nthread = threading.Thread(target=time.sleep, args=(1000,), daemon=True)\nthread.start()\n\
                  print('thread', thread.native_id)\nprint('ready')\ntime.sleep(1000)\n";
    let job = PythonJob::new(newest_python(), script).start();
    let words = told(job.printed("thread"));
    assert!(
        words.contains(&format!(
            "is a thread of process {}; ask for that one",
            job.pid()
        )),
        "{words}"
    );
    // A thread of the kernel, where this machine shows one.
    let kernel_thread =
        std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    if kernel_thread {
        let words = told(2);
        assert!(words.contains("2 is a thread of the kernel"), "{words}");
    } else {
        eprintln!("SKIPPED: no thread of the kernel is seen here");
    }
}

#[test]
fn a_process_in_another_pid_namespace_is_watched_by_the_pid_that_it_has_here() {
    let script = "import os, time\nprint('ready')\ntime.sleep(1000)\n";
    let usable = Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .output();
    if !usable.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: this user cannot make a PID namespace");
    }
    let sandbox = sandbox();
    sandbox.write("inner.py", script);
    let unshare = testkit::Sandbox::new(std::path::Path::new("/usr/bin/unshare"));
    let inner = sandbox.path("inner.py");
    let running = unshare.spawn([
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "python3",
        "-u",
        inner.to_str().unwrap(),
    ]);
    running.wait_for_stdout("ready");
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid())).unwrap();
    let pid: i32 = children.trim().parse().unwrap();
    let attach = sandbox.spawn(["attach", "--pid", &pid.to_string(), "--interval", "200ms"]);
    let seen = wait_for_snapshot(&sandbox, |snapshot| {
        process(snapshot, "inner.py")
            .is_some_and(|it| it["pyspy"]["traces"][0]["frames"][0]["line"] == 3)
    });
    assert_eq!(seen["processes"][0]["pid"], pid);
    send_signal(pid, KILL);
    attach.wait(DEADLINE).success();
    drop(running);
}
