//! `run` and `attach`: the task is exactly as it would be without us, and what it did is in the store.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use testkit::{
    DEADLINE, PythonJob, newest_python, process_exists, process_state, send_signal, wait_until,
};

use crate::support::{
    files, process, sandbox, snapshot, stored, wait_for_snapshot, wait_for_stored,
};

const TERM: i32 = 15;
const KILL: i32 = 9;

#[test]
fn exit_status_and_output_are_the_tasks_own() {
    let sandbox = sandbox();
    let output = sandbox
        .run(["run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])
        .exited(3);
    assert_eq!(output.stdout, "out\n");
    let own: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| !line.starts_with("[taskscope] "))
        .collect();
    assert_eq!(own, ["err"]);
}

#[test]
fn a_task_that_is_over_at_once_is_seen_even_so() {
    let sandbox = sandbox();
    sandbox.run(["run", "--", "true"]).success();
    let ids = stored(&sandbox);
    assert_eq!(ids.len(), 1);
    let processes = snapshot(&sandbox, &ids[0])["processes"].clone();
    assert_eq!(
        processes[0]["proc"]["status"]["Name"], "true",
        "{processes}"
    );
}

#[test]
fn stdin_reaches_the_task() {
    let output = sandbox()
        .run_with_input(["run", "--", "cat"], "line 1\nline 2")
        .success();
    assert_eq!(output.stdout, "line 1\nline 2");
}

#[test]
fn a_task_that_dies_of_a_signal_looks_so_to_a_shell() {
    let sandbox = sandbox();
    sandbox
        .run(["run", "--", "sh", "-c", "kill -KILL $$"])
        .killed_by(KILL);
    sandbox
        .run(["run", "--", "sh", "-c", "kill -TERM $$"])
        .killed_by(TERM);
}

#[test]
fn a_command_that_cannot_be_run_ends_as_in_a_shell() {
    let sandbox = sandbox();
    let output = sandbox.run(["run", "--", "no-such-command"]).exited(127);
    insta::assert_snapshot!(output.stderr, @"[taskscope] error: the command was not found: cannot run `no-such-command`: No such file or directory ");
    let file = sandbox.write("data", "no program");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    sandbox
        .run(["run", "--", file.to_str().unwrap()])
        .exited(126);
}

#[test]
fn bad_usage_and_settings_are_refused_before_the_task_starts() {
    let sandbox = sandbox();
    sandbox
        .run(["run", "--interval", "0s", "--", "touch", "started"])
        .exited(125);
    sandbox
        .run(["run", "--name", "a//b", "--", "touch", "started"])
        .exited(125);
    sandbox.run(["run"]).exited(125);
    sandbox.write("collector.toml", "[capture]\nintervall = \"2m\"\n");
    let output = sandbox.run(["run", "--", "touch", "started"]).exited(125);
    assert!(!sandbox.path("started").exists());
    insta::assert_snapshot!(output.stderr, @r#"
    [taskscope] error: the settings cannot be used: collector.toml: TOML parse error at line 2, column 1
    [taskscope]   |
    [taskscope] 2 | intervall = "2m"
    [taskscope]   | ^^^^^^^^^
    [taskscope] unknown field `intervall`, expected one of `interval`, `scope`, `process-pattern`, `focus-files`, `environment`, `redact`, `budget`, `shared-memory`, `stacks`
    "#);
}

#[test]
fn what_a_sleeping_python_does_is_read_once_and_said_to_be_the_same_since() {
    let sandbox = sandbox();
    sandbox.write("train.py", "import time\ntime.sleep(1000)\n");
    let python = newest_python().path.to_str().unwrap();
    let task = ["run", "--interval", "200ms", "--", python, "train.py"];
    let running = sandbox.spawn(task);
    let train = |snapshot: &Value| process(snapshot, "train.py").unwrap().clone();
    let later = wait_for_snapshot(&sandbox, |snapshot| {
        train(snapshot)["pyspy"]["unchanged_since"].is_string()
    });
    running.signal(TERM);
    wait_until(DEADLINE, || running.has_ended());
    let later = train(&later);
    let since = &later["pyspy"]["unchanged_since"];
    let mut snapshots = stored(&sandbox)
        .into_iter()
        .map(|id| snapshot(&sandbox, &id));
    let first = snapshots.find(|it| it["capture"]["started_at"] == *since);
    let first = train(&first.expect("the snapshot that is spoken of is stored"));
    assert_eq!(first["pyspy"]["traces"], later["pyspy"]["traces"]);
    assert!(first["pyspy"].get("unchanged_since").is_none());
    let [first, later] = [&first, &later].map(|it| &it["proc"]["threads"][0]);
    let thread_since = later["unchanged_since"].as_str();
    assert!(thread_since.is_some_and(|it| it <= since.as_str().unwrap()));
    for same in ["call", "kernel_stack", "schedstat", "syscall", "wchan"] {
        assert_eq!(first[same], later[same], "{same}");
    }
}

#[test]
fn the_first_snapshot_is_taken_at_once_and_then_one_each_interval() {
    let sandbox = sandbox();
    let running = sandbox.spawn(["run", "--interval", "200ms", "--", "sleep", "1000"]);
    let ids = wait_for_stored(&sandbox, 5);
    running.signal(TERM);
    wait_until(DEADLINE, || running.has_ended());
    let snapshots: Vec<_> = ids
        .iter()
        .take(5)
        .map(|id| snapshot(&sandbox, id))
        .collect();
    assert_eq!(snapshots[0]["capture"]["trigger"], "start");
    assert_eq!(snapshots[0]["capture"]["interval_s"], 0.2);
    for (sequence, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot["capture"]["sequence"], sequence);
    }
    // By deadline, so the missed ones and the taken ones together keep step with the clock.
    let missed = |count: usize| -> u64 {
        let taken = snapshots.iter().take(count);
        taken
            .map(|it| it["capture"]["missed_cycles"].as_u64().unwrap())
            .sum()
    };
    let started = |index: usize| {
        let text = snapshots[index]["capture"]["started_at"]
            .as_str()
            .unwrap()
            .to_owned();
        let seconds = text
            .split(':')
            .next_back()
            .unwrap()
            .trim_end_matches('Z')
            .parse::<f64>()
            .unwrap();
        let minutes = text.split(':').nth(1).unwrap().parse::<f64>().unwrap();
        minutes * 60.0 + seconds
    };
    let passed = (started(3) - started(0)).rem_euclid(3600.0);
    // A cycle that begins late misses those that pass meanwhile, which the next one counts. The first may begin late too.
    #[expect(clippy::cast_precision_loss, reason = "a handful of cycles")]
    let (least, most) = ((missed(4) + 1) as f64, (missed(5) + 4) as f64);
    assert!(
        (least..most).contains(&(passed / 0.2)),
        "{passed} s for {least} to {most} cycles"
    );
}

#[test]
fn a_task_that_outlives_sigterm_is_waited_for_and_captured() {
    let sandbox = sandbox();
    let script =
        "trap 'echo caught' TERM; echo begun; while [ ! -e stop ]; do sleep 0.05; done; exit 7";
    let running = sandbox.spawn(["run", "--", "sh", "-c", script]);
    running.wait_for_stdout("begun");
    wait_for_stored(&sandbox, 1);
    running.signal(TERM);
    running.wait_for_stdout("caught");
    let ids = wait_for_stored(&sandbox, 2);
    sandbox.write("stop", "");
    let _ = running.wait(DEADLINE).exited(7);
    assert_eq!(snapshot(&sandbox, &ids[1])["capture"]["trigger"], "signal");
}

#[test]
fn a_child_that_daemonises_still_belongs_to_the_task() {
    let sandbox = sandbox();
    // The outer shell ends at once, and the sleeper leaves the session: only the subreaper sees it again.
    let script = "sh -c 'setsid sleep 31313 > /dev/null 2>&1 & echo $! > daemon' ; while [ ! -e stop ]; do sleep 0.05; done";
    let running = sandbox.spawn(["run", "--interval", "100ms", "--", "sh", "-c", script]);
    let adopted = |snapshot: &Value| {
        let mut processes = snapshot["processes"].as_array().unwrap().iter();
        let daemon = processes
            .find(|it| it["command"] == "sleep 31313" && it["ppid"] == i64::from(running.pid()))?;
        daemon["pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok())
    };
    let seen = wait_for_snapshot(&sandbox, |snapshot| adopted(snapshot).is_some());
    let daemon = adopted(&seen).unwrap();
    sandbox.write("stop", "");
    let _ = running.wait(DEADLINE).success();
    assert_ne!(
        process_state(daemon),
        None,
        "it outlives the task, as it does without us"
    );
    send_signal(daemon, KILL);
}

#[test]
fn processes_that_vanish_while_they_are_read_cost_nothing() {
    let sandbox = sandbox();
    let script = "while [ ! -e stop ]; do i=0; while [ $i -lt 50 ]; do /bin/true & i=$((i+1)); done; wait; done; echo done";
    let running = sandbox.spawn(["run", "--interval", "20ms", "--", "sh", "-c", script]);
    wait_for_stored(&sandbox, 8);
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).success();
    assert_eq!(output.stdout, "done\n");
    let warnings: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    assert_eq!(warnings, Vec::<&str>::new());
    for id in stored(&sandbox) {
        let snapshot = snapshot(&sandbox, &id);
        let codes = snapshot["gaps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|gap| gap["code"].as_str().unwrap());
        let odd: Vec<&str> = codes
            .filter(|code| ["failed", "malformed"].contains(code))
            .collect();
        assert_eq!(odd, Vec::<&str>::new());
    }
}

#[test]
fn a_store_that_cannot_be_written_costs_a_line_and_nothing_else() {
    let sandbox = sandbox();
    sandbox.write("file", "in the way");
    let output = sandbox
        .run([
            "run",
            "--store",
            "file/store",
            "--",
            "sh",
            "-c",
            "sleep 0.3; exit 4",
        ])
        .exited(4);
    assert!(output.stderr.contains("[taskscope] warning: "), "{output}");
    assert!(output.stderr.contains("file/store"), "{output}");
    let kept = std::process::Command::new("find")
        .arg(sandbox.path("state"))
        .output()
        .unwrap();
    let kept = String::from_utf8(kept.stdout).unwrap();
    let is_snapshot = |path: &&str| path.contains("/snapshots/") && path.ends_with(".json.gz");
    assert_eq!(
        kept.lines().filter(is_snapshot).count(),
        1,
        "the snapshot waits in the spool:\n{kept}"
    );
}

#[test]
fn a_plugin_that_is_none_costs_a_line_and_an_entry() {
    let sandbox = sandbox();
    sandbox.write("broken.wasm", "not a component");
    sandbox.write(
        "collector.toml",
        "[[enricher]]\nname = \"mine\"\nwasm = \"broken.wasm\"\n",
    );
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", "sleep", "1000"]);
    let outcome = |snapshot: &Value, name: &str| {
        let mut outcomes = snapshot["plugins"].as_array().unwrap().iter();
        outcomes.find(|it| it["instance"] == name).unwrap()["outcome"].clone()
    };
    // The first snapshots may be written before both are loaded.
    let seen = wait_for_snapshot(&sandbox, |snapshot| {
        outcome(snapshot, "torchrun-ranks") == "ok" && outcome(snapshot, "mine") != "not-ready"
    });
    assert_eq!(outcome(&seen, "mine"), "load-failed");
    running.signal(TERM);
    let output = running.wait(DEADLINE).killed_by(TERM);
    assert_eq!(output.stderr.matches("mine").count(), 1, "{output}");
}

#[test]
fn attach_watches_a_family_until_it_is_told_to_stop_and_hurts_nobody() {
    let sandbox = sandbox();
    let script = "import subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\nprint('ready')\ntime.sleep(1000)\n";
    let job = PythonJob::new(newest_python(), script).start();
    let attach = sandbox.spawn([
        "attach",
        "--pid",
        &job.pid().to_string(),
        "--interval",
        "100ms",
    ]);
    let seen = wait_for_snapshot(&sandbox, |snapshot| {
        process(snapshot, "train.py")
            .is_some_and(|it| it["pyspy"]["traces"][0]["frames"][0]["line"] == 4)
    });
    assert!(process(&seen, "sleep 1000").is_some());
    attach.signal(TERM);
    let output = attach.wait(DEADLINE).success();
    // A machine that is too busy for one more look in time gives it up, and says so.
    if !output.stderr.contains("that snapshot is lost") {
        let last = snapshot(&sandbox, stored(&sandbox).last().unwrap());
        assert_eq!(last["capture"]["trigger"], "signal");
    }
    assert!(process_exists(job.pid()));
}

#[test]
fn attach_ends_with_its_process() {
    let sandbox = sandbox();
    let job = PythonJob::new(
        newest_python(),
        "print('ready')\nimport time\ntime.sleep(1000)\n",
    )
    .start();
    let attach = sandbox.spawn(["attach", "--pid", &job.pid().to_string()]);
    wait_for_stored(&sandbox, 1);
    send_signal(job.pid(), KILL);
    let _ = attach.wait(DEADLINE).success();
}

#[test]
fn attaching_to_nobody_says_so() {
    let output = sandbox().run(["attach", "--pid", "2147483646"]).exited(1);
    assert!(output.stderr.contains("2147483646"), "{output}");
}

#[test]
fn a_second_run_of_one_name_is_the_next_attempt() {
    let sandbox = sandbox();
    // However short it is.
    for task in [&["sleep", "0.2"][..], &["true"]] {
        let output = sandbox.run([&["run", "--"], task].concat()).success();
        assert!(!output.stderr.contains("did not answer"), "{output}");
    }
    let attempts: Vec<bool> = (0..3)
        .map(|n| {
            sandbox
                .path(&format!(".taskscope/test/one/attempt-{n}"))
                .exists()
        })
        .collect();
    assert_eq!(attempts, [true, true, false]);
    assert_eq!(files(&sandbox.path(".taskscope"), "index.json").len(), 2);
}
