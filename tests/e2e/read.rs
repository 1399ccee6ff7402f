//! `list`, `show` and `snapshot`: a person and a program read back what was seen.

use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use serde_json::Value;
use testkit::{PythonJob, Sandbox, newest_python, wait_until_asleep};

use crate::support::{UNTIL_STORED, binary, files, process, sandbox, scrubbed, stored};

#[test]
fn an_empty_store_says_how_to_fill_it() {
    let sandbox = sandbox();
    scrubbed(&sandbox).bind(|| {
        insta::assert_snapshot!(sandbox.run(["list"]), @"
        exit 1
        --- stderr
        [taskscope] error: there is no store at [ROOT]/.taskscope; `taskscope run -- COMMAND` makes one
        ");
        std::fs::create_dir(sandbox.path(".taskscope")).unwrap();
        insta::assert_snapshot!(sandbox.run(["show"]), @"
        exit 1
        --- stderr
        [taskscope] error: [ROOT]/.taskscope holds no snapshots; `taskscope run -- COMMAND` makes some
        ");
    });
    assert_eq!(sandbox.run(["list", "--json"]).success().stdout, "[]\n");
}

#[test]
fn list_and_show_find_the_newest_task_by_themselves() {
    let sandbox = sandbox();
    sandbox
        .run(["run", "--name", "older", "--", "sleep", "0.2"])
        .success();
    sandbox
        .run(["run", "--name", "newer/2", "--", "sleep", "0.2"])
        .success();
    let list = sandbox.run(["list", "--json"]).success();
    let list: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    let tasks: Vec<&str> = list
        .iter()
        .map(|row| row["task"].as_str().unwrap())
        .collect();
    assert_eq!(tasks, ["newer/2", "older"]);
    assert!(sandbox.run(["list"]).success().stdout.contains("newer/2"));
    assert!(
        sandbox
            .run(["show"])
            .success()
            .stdout
            .starts_with("newer/2  attempt 0")
    );
    assert!(
        sandbox
            .run(["show", "--task", "older"])
            .success()
            .stdout
            .starts_with("older  attempt 0")
    );
    let root = sandbox.path(".taskscope");
    assert!(
        sandbox
            .run(["show", root.to_str().unwrap()])
            .success()
            .stdout
            .starts_with("newer/2")
    );
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let sandbox = sandbox();
    sandbox.run(["run", "--", "sleep", "0.2"]).success();
    let output = sandbox.run(["show", "--task", "other"]).exited(1);
    assert!(output.stderr.contains("holds no task `other`"), "{output}");
    let output = sandbox.run(["show", "--node", "other"]).exited(1);
    assert!(output.stderr.contains("has no node `other`"), "{output}");
    let output = sandbox.run(["show", "--pid", "1"]).exited(1);
    assert!(
        output.stderr.contains("has no process 1; it has "),
        "{output}"
    );
    let output = sandbox
        .run(["show", "--at", "2020-01-01T00:00:00Z"])
        .exited(1);
    assert!(
        output.stderr.contains("no snapshot is as old as"),
        "{output}"
    );
    sandbox
        .run(["show", "--at", "yesterday"])
        .exited(2)
        .stderr
        .contains("latest")
        .then_some(())
        .unwrap();
}

#[test]
fn a_snapshot_of_a_running_process_is_a_document_a_page_or_stored() {
    let sandbox = sandbox();
    let script = "import threading, time\ndef wait_here():\n    time.sleep(1000)\n\
                  threading.Thread(target=wait_here, daemon=True, name='side').start()\nprint('ready')\nwait_here()\n";
    let job = PythonJob::new(newest_python(), script)
        .environment("RANK", "7")
        .environment("WORLD_SIZE", "8")
        .start();
    wait_until_asleep(job.pid());
    let pid = job.pid().to_string();
    let output = sandbox.run(["snapshot", "--pid", &pid]).success();
    assert!(output.stdout.is_ascii() && output.stdout.ends_with('\n'));
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let seen = process(&document, "train.py").unwrap();
    assert_eq!(document["schema_version"], "1.1");
    assert_eq!(document["scope"]["root"], seen["identity"]);
    assert_eq!(seen["distributed_environment"]["RANK"], "7");
    let names: Vec<&Value> = seen["pyspy"]["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["thread_name"])
        .collect();
    assert_eq!(names.len(), 2);
    assert!(
        names.contains(&&"side".into()) && names.contains(&&"MainThread".into()),
        "{names:?}"
    );
    assert_eq!(seen["proc"]["threads"].as_array().unwrap().len(), 2);
    let page = sandbox
        .run(["snapshot", "--pid", &pid, "--page"])
        .success()
        .stdout;
    assert!(
        page.contains("wait_here (train.py:3)") && page.contains("rank 7"),
        "{page}"
    );
    let output = sandbox
        .run(["snapshot", "--pid", &pid, "--store", ".taskscope"])
        .success();
    assert!(output.stdout.is_empty());
    assert_eq!(stored(&sandbox).len(), 1);
    let page = sandbox.run(["show", "--pid", &pid]).success().stdout;
    assert!(
        page.contains("wait_here (train.py:3)") && page.contains("side"),
        "{page}"
    );
    let one: Value = serde_json::from_str(
        &sandbox
            .run(["show", "--pid", &pid, "--json"])
            .success()
            .stdout,
    )
    .unwrap();
    assert_eq!(one["identity"], seen["identity"]);
}

#[test]
fn without_rights_what_is_missing_is_said_with_the_remedy() {
    let sandbox = sandbox();
    let job = PythonJob::new(
        newest_python(),
        "print('ready')\nimport time\ntime.sleep(1000)\n",
    )
    .start();
    let output = sandbox
        .run(["snapshot", "--pid", &job.pid().to_string()])
        .success();
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let gaps = document["gaps"].as_array().unwrap();
    let stack = gaps
        .iter()
        .find(|gap| gap["what"].as_str().unwrap().contains("stack"));
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        assert_eq!(stack, None);
    } else {
        let stack = stack.unwrap();
        assert_eq!(stack["code"], "denied");
        assert!(
            stack["remedy"].as_str().unwrap().contains("CAP_SYS_ADMIN"),
            "{stack}"
        );
        let threads = document["processes"][0]["proc"]["threads"]
            .as_array()
            .unwrap();
        assert_eq!(threads[0]["kernel_stack"], serde_json::json!([]));
    }
    assert!(
        document["processes"][0]["pyspy"].is_object(),
        "stacks need no rights over one's own processes"
    );
}

#[test]
fn secrets_on_the_command_line_never_reach_the_store() {
    let sandbox = sandbox();
    let command = [
        "run",
        "--",
        "sh",
        "-c",
        UNTIL_STORED,
        "--password=hunter2hunter2",
        "--epochs=3",
    ];
    sandbox.run(command).success();
    let snapshot = sandbox.run(["show", "--json"]).success().stdout;
    assert!(!snapshot.contains("hunter2"), "{snapshot}");
    assert!(
        snapshot.contains("--password=[redacted]") && snapshot.contains("--epochs=3"),
        "{snapshot}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let sandbox = sandbox();
    sandbox.run(["run", "--", "sleep", "0.2"]).success();
    let mut child = std::process::Command::new(binary())
        .args(["show", "--json"])
        .current_dir(sandbox.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// An address of this machine that is not the loopback one: where a packet to elsewhere would leave.
pub(crate) fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    let is_ours = !address.is_loopback() && !address.is_unspecified();
    is_ours.then(|| address.to_string())
}

/// Takes a snapshot of a process as the collector of `node` would at `now`.
pub(crate) fn snapshot_of_node(sandbox: &Sandbox, node: &str, pid: &str, now: &str) {
    let mut command = sandbox.command(["--now", now, "snapshot", "--pid", pid]);
    command
        .args(["--store", ".taskscope"])
        .env("TORCHELASTIC_RUN_ID", "job")
        .env("TORCHELASTIC_RESTART_COUNT", "0")
        .env("HOSTNAME", node);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Two processes with a connection on which the one sends all the time.
pub(crate) const TALKERS: &str = "
import os, socket, sys, time

listener = socket.socket()
listener.bind((sys.argv[1], 0))
listener.listen(1)
sender = os.fork()
if sender == 0:
    connection = socket.create_connection(listener.getsockname())
    listener.close()
    while True:
        connection.sendall(b'x' * 1000)
        time.sleep(0.02)
receiver = os.fork()
if receiver == 0:
    connection, _ = listener.accept()
    while connection.recv(1 << 16):
        pass
    os._exit(0)
listener.close()
print('sender %d' % sender)
print('receiver %d' % receiver)
print('ready')
sys.stdout.flush()
os.wait()
";

#[test]
fn clocks_of_two_nodes_an_hour_apart_are_told_by_a_connection_of_both() {
    let Some(address) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but the loopback one");
        return;
    };
    let job = PythonJob::new(newest_python(), TALKERS)
        .argument(&address)
        .start();
    let take = snapshot_of_node;
    let sandbox = sandbox();
    let (sender, receiver) = (
        job.printed("sender").to_string(),
        job.printed("receiver").to_string(),
    );
    // The node `late` is looked at five seconds after the other each time; its clock is an hour ahead.
    for (ours, theirs) in [
        ("2026-11-30T08:00:00Z", "2026-11-30T09:00:05Z"),
        ("2026-11-30T08:00:10Z", "2026-11-30T09:00:15Z"),
    ] {
        take(&sandbox, "early", &sender, ours);
        take(&sandbox, "late", &receiver, theirs);
    }
    let output = sandbox.run(["show", "--node", "early"]).success();
    let line = output
        .stdout
        .lines()
        .find(|line| line.starts_with("  late: "));
    let line = line.unwrap_or_else(|| panic!("{output}"));
    assert!(line.starts_with("  late: its clock is 59m"), "{line}");
    assert!(
        line.contains(" to 1h00m") && line.ends_with(" ahead"),
        "{line}"
    );
    let output = sandbox.run(["show", "--node", "late"]).success();
    assert!(
        output.stdout.contains("  early: its clock is 59m"),
        "{output}"
    );
    assert!(output.stdout.contains(" behind\n"), "{output}");
    listed_in_the_order_of_what_both_saw(&sandbox);
    let arguments = ["diff", "--from", "2026-11-30T08:00:00Z"];
    let output = sandbox.run(arguments).success();
    let words = "[taskscope] this is node early; --node compares another: late\n";
    assert!(output.stderr.contains(words), "{output}");
}

/// Snapshots of `early` and `late` in turns, though the clock of `late` is an hour ahead.
fn listed_in_the_order_of_what_both_saw(sandbox: &Sandbox) {
    let arguments = ["list", "--snapshots", "--json"];
    let rows: Vec<Value> = serde_json::from_str(&sandbox.run(arguments).success().stdout).unwrap();
    let order: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| {
            let id = row["id"].as_str().unwrap();
            let sequence = id.rsplit('-').next().unwrap().parse().unwrap();
            (row["node"].as_str().unwrap(), sequence)
        })
        .collect();
    assert_eq!(
        order,
        [("early", 0), ("late", 0), ("early", 1), ("late", 1)],
        "{rows:#?}"
    );
    assert!(
        rows[1]["at"].as_str().unwrap() < "2026-11-30T08:00:15",
        "{rows:#?}"
    );
    assert!(
        rows[1]["started_at"].as_str().unwrap() >= "2026-11-30T09:00:05",
        "{rows:#?}"
    );
    assert!(
        rows[1]["clock"]["at_least_us"].as_i64().unwrap() > 3_500_000_000,
        "{rows:#?}"
    );
    let since = [
        "list",
        "--snapshots",
        "--since",
        "2026-11-30T08:00:05Z",
        "--node",
        "early",
    ];
    let output = sandbox.run(since).success();
    assert_eq!(output.stdout.lines().count(), 2, "{output}");
    assert!(
        output
            .stdout
            .contains("2026-11-30 08:00:10  early  20261130T080010"),
        "{output}"
    );
    let output = sandbox.run(["list", "--snapshots"]).success();
    let words = "[taskscope] times are as the clock of node early shows them\n[taskscope]   late: its clock is 59m";
    assert!(output.stderr.contains(words), "{output}");
    let until = ["list", "--snapshots", "--until", "2026-11-30T07:00:00Z"];
    let output = sandbox.run(until).success();
    assert_eq!(output.stdout, "");
    assert!(
        output.stderr.contains("has no snapshot of that time"),
        "{output}"
    );
    let output = sandbox.run(["list", "--node", "late"]).success();
    assert_eq!(output.stdout.lines().count(), 2, "{output}");
    let output = sandbox.run(["list", "--node", "nobody"]).success();
    assert!(output.stderr.contains("holds nothing of that"), "{output}");
    sandbox
        .run(["list", "--since", "2026-11-30T07:00:00Z"])
        .exited(2);
}

#[test]
fn snapshots_without_an_index_tell_of_themselves_and_a_node_without_any_hides_no_other() {
    let sandbox = sandbox();
    let run = ["run", "--interval", "1h", "--", "sh", "-c", "sleep 0.3"];
    sandbox.run(run).success();
    let index = &files(&sandbox.path(".taskscope"), "index.json")[0];
    let node = index.parent().unwrap().to_owned();
    std::fs::remove_file(index).unwrap();
    let torn = "20991231T235959.000000Z-000099.json.gz";
    std::fs::write(node.join("snapshots").join(torn), "torn").unwrap();
    let listed = sandbox.run(["list", "--snapshots", "--json"]).success();
    let rows: Value = serde_json::from_str(&listed.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let (last, whole) = rows.split_last().unwrap();
    assert!(!whole.is_empty(), "{rows:?}");
    for row in whole {
        let has_numbers = row["processes"].is_u64() && row["bytes"].as_u64() > Some(0);
        assert!(has_numbers && row["trigger"].is_string(), "{row}");
        assert!(row.get("reason").is_none(), "{row}");
    }
    assert!(last["processes"].is_null(), "{last}");
    let page = sandbox.run(["list", "--snapshots"]).success().stdout;
    assert!(page.contains(last["reason"].as_str().unwrap()), "{page}");
    std::fs::remove_file(node.join("snapshots").join(torn)).unwrap();

    std::fs::create_dir(node.with_file_name("node-0-begins")).unwrap();
    sandbox.run(["show"]).success();
    let why = sandbox.run(["why"]).success();
    let words = "node 0-begins has stored no snapshot yet, and so cannot be judged";
    assert!(why.stdout.contains(words), "{why}");
    let why = sandbox.run(["why", "--json"]).success();
    let verdict: Value = serde_json::from_str(&why.stdout).unwrap();
    assert_eq!(verdict["without_snapshot"], serde_json::json!(["0-begins"]));
    assert_eq!(verdict["verdict"], "finished", "{why}");
    let asked = sandbox.run(["why", "--node", "0-begins"]).exited(1);
    assert!(asked.stderr.contains("node-0-begins"), "{asked}");
}
