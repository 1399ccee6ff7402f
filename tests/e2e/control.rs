//! `ctl` and the control socket: a collector does what it is asked, and nobody who speaks there can hurt it or the task.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{DEADLINE, PythonJob, Running, Sandbox, newest_python, wait_until};

use crate::support::{sandbox, snapshot, stored, wait_for_snapshot, wait_for_stored};

const TERM: i32 = 15;
const KILL: i32 = 9;
/// So rare that no snapshot but the first is due.
const RARE: [&str; 2] = ["--interval", "1h"];

/// A task that waits, says where the socket is, and ends when a file is there.
const TASK: &str =
    "echo $TASKSCOPE_SOCKET > told; mv told socket; while [ ! -e stop ]; do sleep 0.05; done";

fn start(sandbox: &Sandbox, options: &[&str]) -> (Running, PathBuf) {
    let arguments = ["run"].iter().chain(options);
    let running = sandbox.spawn(arguments.chain(&["--", "sh", "-c", TASK]));
    let told = sandbox.path("socket");
    wait_until(DEADLINE, || told.exists());
    let path = std::fs::read_to_string(told).unwrap();
    (running, PathBuf::from(path.trim_end()))
}

#[track_caller]
fn stop(sandbox: &Sandbox, running: Running) -> testkit::Output {
    sandbox.write("stop", "");
    running.wait(DEADLINE).success()
}

#[track_caller]
fn status(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let arguments = ["ctl", "status", "--json"].iter().chain(arguments);
    let output = sandbox.run(arguments).success();
    serde_json::from_str(&output.stdout).unwrap()
}

/// Sends `text` and returns all that comes back.
fn exchange(socket: &Path, text: &[u8]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(text)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn the_socket_is_this_users_alone_and_gone_at_the_end() {
    let sandbox = sandbox();
    let (running, socket) = start(&sandbox, &RARE);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&socket), 0o600);
    let folder = socket.parent().unwrap();
    assert_eq!(mode(folder), 0o700);
    assert!(folder.starts_with(sandbox.path("runtime")), "{folder:?}");
    stop(&sandbox, running);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn a_snapshot_that_is_asked_for_is_there_when_ctl_ends() {
    let sandbox = sandbox();
    let (running, _) = start(&sandbox, &RARE);
    wait_for_stored(&sandbox, 1);
    for _ in 0..3 {
        let output = sandbox.run(["ctl", "snapshot"]).success();
        assert_eq!(output.stdout, "");
        let words = "[taskscope] snapshot ";
        let said = output.stderr.strip_prefix(words).unwrap();
        let id = said.split(' ').next().unwrap();
        wait_until(DEADLINE, || stored(&sandbox).iter().any(|it| it == id));
        let taken = snapshot(&sandbox, id);
        assert_eq!(taken["capture"]["trigger"], "requested");
    }
    let status = status(&sandbox, &[]);
    assert_eq!(status["snapshots"]["taken"], 4);
    assert_eq!(status["snapshots"]["answered"], 3);
    stop(&sandbox, running);
}

#[test]
fn another_interval_holds_until_that_of_the_settings_is_asked_for() {
    let sandbox = sandbox();
    let (running, _) = start(&sandbox, &["--default-interval", "1h"]);
    assert_eq!(status(&sandbox, &[])["interval_source"], "budget");
    let output = sandbox.run(["ctl", "interval", "100ms"]).success();
    assert_eq!(
        output.stderr,
        "[taskscope] test/one: a snapshot every 0.1 s, asked for by `taskscope ctl`\n"
    );
    let ids = wait_for_stored(&sandbox, 4);
    let asked = snapshot(&sandbox, &ids[3]);
    assert_eq!(asked["capture"]["interval_s"], 0.1);
    assert!(asked["capture"]["spending"]["budget_percent"].is_null());
    sandbox.run(["ctl", "interval", "auto"]).success();
    let status = status(&sandbox, &[]);
    assert_eq!(status["interval_s"], 3600.0);
    assert_eq!(status["interval_source"], "budget");
    stop(&sandbox, running);
}

#[test]
fn a_pause_is_a_gap_with_its_length_in_the_next_snapshot() {
    let sandbox = sandbox();
    let (running, _) = start(&sandbox, &["--interval", "100ms"]);
    wait_for_stored(&sandbox, 2);
    sandbox.run(["ctl", "pause"]).success();
    running.wait_for_stderr("[taskscope] paused: ");
    let paused = status(&sandbox, &[]);
    assert!(paused["paused_since"].is_string());
    assert!(paused["snapshots"]["due_at"].is_null());
    sandbox.run(["ctl", "pause"]).success(); // once more says nothing new
    // Who asks is served even so.
    sandbox.run(["ctl", "snapshot"]).success();
    let later = status(&sandbox, &[]);
    let taken = |status: &Value| status["snapshots"]["taken"].as_u64().unwrap();
    assert_eq!(taken(&later), taken(&paused) + 1);
    sandbox.run(["ctl", "resume"]).success();
    running.wait_for_stderr("[taskscope] goes on after a pause of ");
    let first = wait_for_snapshot(&sandbox, |snapshot| {
        let mut gaps = snapshot["gaps"].as_array().unwrap().iter();
        gaps.any(|gap| {
            let detail = gap["detail"].as_str().unwrap_or_default();
            gap["what"] == "cycles" && detail.starts_with("paused by `taskscope ctl pause` for ")
        })
    });
    assert_eq!(first["capture"]["trigger"], "requested");
    assert_eq!(first["capture"]["missed_cycles"], 0);
    wait_until(DEADLINE, || {
        taken(&status(&sandbox, &[])) > taken(&later) + 2
    });
    stop(&sandbox, running);
}

#[test]
fn a_pause_to_the_end_is_said_at_the_end() {
    let sandbox = sandbox();
    let (running, _) = start(&sandbox, &RARE);
    sandbox.run(["ctl", "pause"]).success();
    let output = stop(&sandbox, running);
    let said = "[taskscope] warning: Nothing was looked at in the last ";
    assert!(output.stderr.contains(said), "{output}");
}

#[test]
fn attach_listens_too_and_is_found_by_the_process_that_it_watches() {
    let script = "import time\nprint('ready', flush=True)\ntime.sleep(1000)\n";
    let job = PythonJob::new(newest_python(), script).start();
    let sandbox = sandbox();
    let pid = job.pid().to_string();
    let running = sandbox.spawn(["attach", "--pid", &pid, "--interval", "1h"]);
    running.wait_for_stderr("[taskscope] `taskscope ctl --socket ");
    let found = status(&sandbox, &["--pid", &pid]);
    assert_eq!(found["collector_pid"], running.pid());
    let output = sandbox
        .run(["ctl", "snapshot", "--pid", &running.pid().to_string()])
        .success();
    assert!(
        output.stderr.starts_with("[taskscope] snapshot "),
        "{output}"
    );
    running.signal(TERM);
    running.wait(DEADLINE).success();
    let output = sandbox.run(["ctl", "status", "--pid", &pid]).exited(1);
    let words =
        "is neither a collector of this user nor the main process of a task that one watches";
    assert!(output.stderr.contains(words), "{output}");
}

#[test]
fn which_collector_is_meant_is_said_or_asked_for() {
    let sandbox = sandbox();
    let output = sandbox.run(["ctl", "status"]).exited(1);
    let words = "no collector of this user runs here; `taskscope run -- COMMAND`";
    assert!(output.stderr.contains(words), "{output}");
    let (first, socket) = start(&sandbox, &RARE);
    std::fs::remove_file(sandbox.path("socket")).unwrap();
    let (second, _) = start(&sandbox, &RARE);
    let output = sandbox.run(["ctl", "pause"]).exited(1);
    assert!(
        output.stderr.contains("2 collectors of this user run here"),
        "{output}"
    );
    let pid = first.pid();
    assert!(
        output
            .stderr
            .contains(&format!("\n[taskscope]   --pid {pid}  test/one in "))
    );
    let named = status(&sandbox, &["--socket", socket.to_str().unwrap()]);
    assert_eq!(named["collector_pid"], pid);
    stop(&sandbox, first);
    stop(&sandbox, second);
    let path = socket.to_str().unwrap();
    let output = sandbox.run(["ctl", "status", "--socket", path]).exited(1);
    assert!(
        output.stderr.contains("no collector answers at "),
        "{output}"
    );
}

#[test]
fn ctl_in_the_task_speaks_to_the_collector_of_the_task() {
    let sandbox = sandbox();
    let binary = crate::support::binary();
    let task = format!(
        "'{0}' ctl status && '{0}' ctl interval 0s; echo $?",
        binary.display()
    );
    let output = sandbox.run(["run", "--", "sh", "-c", &task]).success();
    assert!(output.stdout.starts_with("test/one"), "{output}");
    assert!(
        output.stdout.contains("\ninterval   a snapshot every "),
        "{output}"
    );
    assert!(output.stdout.ends_with("\n2\n"), "{output}"); // a usage error of ctl's own
}

#[test]
fn what_a_dead_collector_left_is_removed_by_a_later_one() {
    let sandbox = sandbox();
    let (running, socket) = start(&sandbox, &RARE);
    running.signal(KILL);
    wait_until(DEADLINE, || running.has_ended());
    assert!(socket.exists());
    let output = sandbox.run(["ctl", "status"]).exited(1);
    assert!(
        output
            .stderr
            .contains("no collector of this user runs here"),
        "{output}"
    );
    // It is left alone while it may be one that is being made.
    sandbox.run(["run", "--", "true"]).success();
    assert!(socket.exists());
    let aged = std::process::Command::new("touch")
        .args(["--no-create", "-d", "2001-01-01"])
        .arg(&socket)
        .status();
    assert!(aged.unwrap().success());
    std::fs::remove_file(sandbox.path("socket")).unwrap();
    let (running, fresh) = start(&sandbox, &RARE);
    wait_until(DEADLINE, || !socket.exists());
    assert!(fresh.exists());
    stop(&sandbox, running);
}

#[test]
fn a_folder_that_cannot_be_used_is_passed_over() {
    let sandbox = sandbox();
    let long = sandbox.path(&"x".repeat(120));
    let output = sandbox
        .environment("XDG_RUNTIME_DIR", long.to_str().unwrap())
        .environment("TMPDIR", "relative")
        .run(["run", "--", "sh", "-c", "echo ${TASKSCOPE_SOCKET:-none}"])
        .success();
    // /tmp is always tried.
    assert!(output.stdout.starts_with("/tmp/taskscope-"), "{output}");
}

/// How often the listening thread of a collector has been woken.
fn wakes(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut statuses =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let status = statuses
        .find(|it| it.starts_with("Name:\tcontrol\n"))
        .unwrap();
    let switches = |line: &str| {
        line.strip_prefix("voluntary_ctxt_switches:")?
            .trim()
            .parse()
            .ok()
    };
    status.lines().find_map(switches).unwrap()
}

#[test]
fn while_nobody_speaks_listening_wakes_nothing() {
    let sandbox = sandbox();
    let (running, socket) = start(&sandbox, &["--interval", "100ms"]);
    exchange(&socket, b"ping\n").unwrap(); // it listens
    wait_until(DEADLINE, || {
        // Until it sleeps again.
        let before = wakes(running.pid());
        let taken = stored(&sandbox).len();
        wait_for_stored(&sandbox, taken + 5);
        wakes(running.pid()) == before
    });
    stop(&sandbox, running);
}

/// Says so many words without a pause, hangs up, is too long, is no text, sends descriptors, never reads.
#[test]
fn strangers_who_shout_stall_or_babble_cost_nothing() {
    let sandbox = sandbox();
    let (running, socket) = start(&sandbox, &["--interval", "100ms"]);
    let answer = exchange(&socket, b"nonsense\nstatus\n\xff\xfe\n\npause now\nstatus").unwrap();
    let lines = answer.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.map(Result::unwrap).collect();
    let fine: Vec<bool> = lines.iter().map(|it| it["ok"].as_bool().unwrap()).collect();
    assert_eq!(fine, [false, true, false, false, false, true]);
    assert_eq!(
        lines[0]["error"],
        "`nonsense` is none of: stage …, status, snapshot, interval 5s, interval auto, pause, resume, ping"
    );
    // A line without an end is cut off.
    let mut endless = UnixStream::connect(&socket).unwrap();
    endless.set_write_timeout(Some(DEADLINE)).unwrap();
    let mut wrote = Ok(());
    for _ in 0..10_000 {
        wrote = endless.write_all(&[b'x'; 1000]);
        if wrote.is_err() {
            break;
        }
    }
    assert!(wrote.is_err(), "nobody hangs up on a line of ten megabytes");
    // Who never reads its answers is cut off as well.
    let mut deaf = UnixStream::connect(&socket).unwrap();
    deaf.set_write_timeout(Some(DEADLINE)).unwrap();
    let mut wrote = Ok(());
    for _ in 0..100_000 {
        wrote = deaf.write_all(b"status\n");
        if wrote.is_err() {
            break;
        }
    }
    assert!(wrote.is_err(), "nobody hangs up on who never reads");
    // More connections than are taken: the surplus is closed, and one that is closed makes room.
    let mut crowd: Vec<UnixStream> = (0..300)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    for silent in &crowd {
        silent.set_read_timeout(Some(DEADLINE)).unwrap();
    }
    let last = crowd.last_mut().unwrap();
    assert_eq!(last.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    drop(crowd);
    let mut refused = 0;
    wait_until(DEADLINE, || {
        let Ok(answer) = exchange(&socket, b"status\n") else {
            return false; // there was no room yet
        };
        let Ok(answer) = serde_json::from_str::<Value>(&answer) else {
            return false;
        };
        refused = answer["status"]["control"]["refused_clients"]
            .as_u64()
            .unwrap();
        true
    });
    assert!((44..=300).contains(&refused), "{refused}");
    // And it still does its work.
    let taken = stored(&sandbox).len();
    wait_for_stored(&sandbox, taken + 3);
    sandbox.run(["ctl", "snapshot"]).success();
    let output = stop(&sandbox, running);
    assert!(!output.stderr.contains("panicked"), "{output}");
}

#[test]
fn a_user_without_rights_cannot_speak_to_another_ones_collector() {
    let sandbox = sandbox();
    let (running, socket) = start(&sandbox, &RARE);
    if std::fs::metadata(&socket).unwrap().uid() == 0 {
        // Root opens the folder and the socket to everybody; the collector still asks who it is.
        let folder = socket.parent().unwrap();
        for (path, mode) in [
            (sandbox.directory(), 0o755),
            (folder.parent().unwrap(), 0o755),
            (folder, 0o755),
            (&*socket, 0o666),
        ] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).unwrap();
        }
        let script = "import os, socket, sys\n\
                      os.setgid(65534); os.setuid(65534)\n\
                      s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
                      try: s.sendall(b'pause\\n'); print(s.recv(100))\n\
                      except (BrokenPipeError, ConnectionResetError): print(b'')\n";
        let python = Sandbox::new(Path::new("python3"));
        let output = python
            .run(["-c", script, socket.to_str().unwrap()])
            .success();
        assert_eq!(output.stdout, "b''\n");
        let socket = socket.to_str().unwrap();
        let status = status(&sandbox, &["--socket", socket]);
        assert!(status["paused_since"].is_null());
        assert_eq!(status["control"]["refused_clients"], 1);
    } else {
        eprintln!("SKIPPED: only root can become another user");
    }
    stop(&sandbox, running);
}
