//! Judging while a task runs: a hang is told once, where people and programs look; a job that gets on is left alone.

use serde_json::Value;
use testkit::{Answer, DEADLINE, HttpServer, Running, Sandbox, newest_python, wait_until};

use crate::support::{sandbox, snapshot, stored, wait_for_snapshot, wait_for_stored};
use crate::why::{PRELUDE, RANKS};

/// Starts a job under taskscope.
fn start(sandbox: &Sandbox, script: &str, options: &[&str]) -> Running {
    sandbox.write("job.py", &format!("{PRELUDE}{script}"));
    let python = newest_python().path.to_str().unwrap();
    let command = ["--", python, "-u", "job.py"];
    sandbox.spawn(["run"].iter().chain(options).chain(&command))
}

/// Whether a snapshot has a finding of ours.
fn is_told(snapshot: &Value) -> bool {
    let mut findings = snapshot["findings"].as_array().unwrap().iter();
    findings.any(|finding| finding.get("plugin").is_none())
}

/// What was said about it to stderr.
fn told(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines().filter(|line| {
        [
            "[taskscope] hung (",
            "[taskscope] slow (",
            "[taskscope] a limit is near (",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    });
    // The machine that the tests run on may be short of room.
    lines
        .filter(|line| !line.contains("a limit is near"))
        .collect()
}

#[test]
fn a_hang_is_told_once_on_stderr_in_the_snapshot_and_to_sinks() {
    let server = HttpServer::start(|_, _| Answer::Whole(200, Vec::new(), b"ok".to_vec()));
    let sandbox = sandbox();
    let url = server.url();
    let settings = format!(
        "[[sink]]\nname = \"hook\"\nwasm = \"builtin:webhook\"\n\
         config = {{ url = \"{url}/hook\", format = \"slack\", severity = \"error\" }}\n\
         permissions = {{ http = [\"{url}\"] }}\n"
    );
    sandbox.write("collector.toml", &settings);
    let running = start(&sandbox, RANKS, &["--interval", "500ms"]);
    let first = wait_for_snapshot(&sandbox, is_told);
    wait_until(DEADLINE, || !server.received().is_empty());
    // Long enough for a second message, if there were one.
    wait_for_stored(&sandbox, stored(&sandbox).len() + 8);
    running.signal(15);
    let output = running.wait(DEADLINE).exited(1);

    let finding = &first["findings"][0];
    assert_eq!(finding["kind"], "rank-behind", "{finding:#}");
    assert_eq!(finding["severity"], "error");
    let evidence = finding["evidence"].as_array().unwrap();
    assert!(!evidence.is_empty());
    for item in evidence {
        let found = first.pointer(item["pointer"].as_str().unwrap()).unwrap();
        let value: Value = serde_json::from_str(item["value"].as_str().unwrap()).unwrap();
        assert_eq!(*found, value);
    }
    let told = told(&output.stderr);
    assert_eq!(told.len(), 1, "{output}");
    assert!(
        told[0].starts_with("[taskscope] hung (rank-behind): rank 1 is behind: ")
            && told[0].contains("load (job.py:")
            && told[0].contains("ranks 0,2 wait in exchange"),
        "{output}"
    );
    let all: Vec<Value> = stored(&sandbox)
        .iter()
        .map(|id| snapshot(&sandbox, id))
        .collect();
    assert_eq!(all.iter().filter(|it| is_told(it)).count(), 1);
    let triggers: Vec<&str> = all
        .iter()
        .filter_map(|it| it["capture"]["trigger"].as_str())
        .collect();
    let bursts = triggers.iter().filter(|it| **it == "burst").count();
    // Once to make sure, and the burst around it; on a busy machine some come with those that are due.
    assert!((1..=8).contains(&bursts), "{triggers:?}");
    let received = server.received();
    assert_eq!(received.len(), 1, "{received:?}");
    let body = String::from_utf8_lossy(&received[0].body).into_owned();
    assert!(body.contains("error rank-behind"), "{body}");
}

#[test]
fn with_long_intervals_samples_ask_for_closer_looks() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        "[monitor]\ninterval = \"200ms\"\n[findings]\npatience = \"6s\"\nburst = 0\n",
    );
    let running = start(&sandbox, RANKS, &["--interval", "1h"]);
    let first = wait_for_snapshot(&sandbox, is_told);
    running.signal(15);
    let output = running.wait(DEADLINE).exited(1);
    assert_eq!(first["findings"][0]["kind"], "rank-behind");
    assert_eq!(first["capture"]["trigger"], "burst");
    assert_eq!(told(&output.stderr).len(), 1, "{output}");
}

#[test]
fn where_it_is_off_nothing_is_told_and_no_closer_look_is_taken() {
    let sandbox = sandbox();
    sandbox.write("collector.toml", "[findings]\nlive = false\n");
    let running = start(&sandbox, RANKS, &["--interval", "300ms"]);
    wait_until(DEADLINE, || {
        stored(&sandbox).len() > 5 && crate::why::why(&sandbox, &[])["cause"] == "rank-behind"
    });
    wait_for_stored(&sandbox, stored(&sandbox).len() + 4);
    running.signal(15);
    let output = running.wait(DEADLINE).exited(1);
    assert_eq!(told(&output.stderr), [""; 0], "{output}");
    for id in stored(&sandbox) {
        let snapshot = snapshot(&sandbox, &id);
        assert!(!is_told(&snapshot));
        assert_ne!(snapshot["capture"]["trigger"], "burst");
    }
}

#[test]
fn a_job_with_pauses_for_checkpoints_and_evaluation_is_left_alone() {
    let script = "import os, time\n\
                  def optimize():\n\
                  \x20   time.sleep(0.1)\n\
                  def evaluate(total=0):\n\
                  \x20   end = time.monotonic() + 4\n\
                  \x20   while time.monotonic() < end:\n\
                  \x20       total += sum(range(1000))\n\
                  def save():\n\
                  \x20   with open('checkpoint', 'wb') as file:\n\
                  \x20       for part in range(20):\n\
                  \x20           file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno()); time.sleep(0.1)\n\
                  for step in range(30):\n\
                  \x20   optimize()\n\
                  \x20   if step % 30 == 20: evaluate()\n\
                  \x20   if step % 30 == 10: save()\n\
                  time.sleep(4)\n";
    let sandbox = sandbox();
    let running = start(&sandbox, script, &["--interval", "400ms"]);
    let output = running.wait(DEADLINE * 4).success();
    assert_eq!(told(&output.stderr), [""; 0], "{output}");
    assert!(stored(&sandbox).len() > 5);
}
