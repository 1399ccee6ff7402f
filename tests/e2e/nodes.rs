//! `why` about a job on several nodes, each with a collector of its own and one store.

use serde_json::Value;
use testkit::{DEADLINE, PythonJob, Sandbox, newest_python, wait_until};

use crate::read::{TALKERS, own_address, snapshot_of_node};
use crate::support::{files, sandbox};
use crate::why::{PRELUDE, why};

/// A rank on a node of its own: rank 0 listens, rank 1 connects, and in step 30 opens a FIFO that nobody writes to.
const RANK: &str = r#"
import os, socket, time
rank, meeting = int(os.environ["RANK"]), sys.argv[1]
if rank == 0:
    service = socket.socket(); service.bind((sys.argv[2], 0)); service.listen(1)
    with open(meeting + ".new", "w") as file:
        file.write(str(service.getsockname()[1]))
    os.rename(meeting + ".new", meeting)
    end = service.accept()[0]
else:
    while not os.path.exists(meeting):
        time.sleep(0.05)
    end = socket.create_connection((sys.argv[2], int(open(meeting).read())))
def exchange():
    end.sendall(b"x")
    return end.recv(1)
def load(step):
    time.sleep(0.05)
    if rank == 1 and step == 30:
        os.mkfifo("shard")
        open("shard").read()
for step in range(100000):
    load(step)
    exchange()
"#;

/// A node of the job.
fn node(name: &str, rank: &str) -> Sandbox {
    let sandbox = sandbox()
        .environment("TORCHELASTIC_RUN_ID", "job")
        .environment("TORCHELASTIC_RESTART_COUNT", "0")
        .environment("HOSTNAME", name)
        .environment("RANK", rank)
        .environment("WORLD_SIZE", "2")
        .environment("MASTER_ADDR", "first")
        .environment("MASTER_PORT", "29500");
    sandbox.write("job.py", &format!("{PRELUDE}{RANK}"));
    sandbox
}

/// Runs both nodes into one store until `why` says which rank is behind.
#[track_caller]
fn answer(address: &str) -> Value {
    let (first, second) = (node("first", "0"), node("second", "1"));
    let (store, meeting) = (first.path(".taskscope"), first.path("port"));
    let (store, meeting) = (store.to_str().unwrap(), meeting.to_str().unwrap());
    let python = newest_python().path.to_str().unwrap();
    let command = [
        "run",
        "--interval",
        "500ms",
        "--store",
        store,
        "--",
        python,
        "-u",
        "job.py",
        meeting,
        address,
    ];
    let running = [first.spawn(command), second.spawn(command)];
    let mut last = Value::Null;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let attempt = first.path(".taskscope/test/one/attempt-0/diagnostics");
        let has_index = |node| attempt.join(node).join("index.json").exists();
        wait_until(DEADLINE, || {
            has_index("node-first") && has_index("node-second")
        });
        wait_until(DEADLINE, || {
            last = why(&first, &[]);
            last["cause"] == "rank-behind"
        });
    }));
    let outputs = running.map(|one| {
        one.signal(15);
        one.wait(DEADLINE)
    });
    assert!(found.is_ok(), "{last:#}\n{}\n{}", outputs[0], outputs[1]);
    last
}

#[test]
fn the_rank_that_another_node_waits_for_is_found_there() {
    let Some(address) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but the loopback one");
        return;
    };
    let last = answer(&address);
    assert_eq!(last["verdict"], "hung");
    let culprit = &last["culprit"];
    assert_eq!(
        (&culprit["node"], &culprit["rank"]),
        (&"second".into(), &1.into()),
        "{last:#}"
    );
    assert_eq!(culprit["frame"]["function"], "load");
    let victims = last["victims"].as_array().unwrap();
    assert_eq!(victims.len(), 1);
    assert_eq!(
        (&victims[0]["node"], &victims[0]["rank"]),
        (&"first".into(), &0.into())
    );
    let twin = &last["twin"];
    assert_eq!(twin["twin"]["rank"], 0, "{twin:#}");
    let stack = &twin["differences"][0];
    assert!(
        stack["what"].as_str().unwrap().starts_with("stack"),
        "{twin:#}"
    );
    assert!(
        stack["suspect"].as_str().unwrap().contains("load (job.py:"),
        "{twin:#}"
    );
    assert_eq!(last.get("silent"), None);
}

/// Two that talk to each other, each on a node of its own, one of whose clocks is three hours ahead; rank 5's node has stored nothing
/// for half an hour, and another node nothing ever.
#[test]
fn a_node_that_is_silent_is_told_and_one_whose_clock_is_hours_off_is_not_called_so() {
    let Some(address) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but the loopback one");
        return;
    };
    let sandbox = sandbox();
    stored_by_four_nodes(&sandbox, &address);
    let answer = why(&sandbox, &[]);
    let silent = answer["silent"].as_array().unwrap();
    assert_eq!(silent.len(), 1, "{answer:#}");
    assert_eq!(
        (&silent[0]["node"], &silent[0]["ranks"]),
        (&"quiet".into(), &"5".into())
    );
    assert_eq!(answer["without_snapshot"], serde_json::json!(["never"]));
    assert_eq!(answer["unreadable"], serde_json::json!(["torn"]));
    let explained = why(&sandbox, &["--explain"]);
    assert_eq!(explained["verdict"]["silent"], answer["silent"]);
    // How far the clocks are apart is known as closely as the two were looked at.
    let since = "rank 5's node (quiet) has stored nothing since 2026-11-30 14:02:00 UTC, 30m";
    let by = " before the others, if its clock is right; it is not judged\n";
    for more in [&["why"][..], &["why", "--explain"]] {
        let page = sandbox.run(more).success().stdout;
        assert!(page.contains(since) && page.contains(by), "{page}");
        assert!(
            page.contains("node never has stored no snapshot yet"),
            "{page}"
        );
        assert!(
            page.contains("node torn has no snapshot that can be read"),
            "{page}"
        );
        assert!(!page.contains("late has stored nothing"), "{page}");
    }
    // A day later nobody has written anything: that is said beside the answer, which is the same.
    let page = sandbox.run(["why"]).success().stdout;
    let later = ["--now", "2026-12-01T17:00:00Z", "why"];
    let later = sandbox.run(later).success();
    let words = "[taskscope] the newest snapshot is 23h27m";
    let more = "s old: nothing has been stored since, so how the task is now is not seen\n";
    assert!(
        later.stderr.contains(words) && later.stderr.contains(more),
        "{later}"
    );
    assert_eq!(later.stdout, page);
}

/// Snapshots of `early`, of `late`, whose clock is ahead, of `quiet`, and of `torn` one that cannot be read; `never` has a folder.
#[track_caller]
fn stored_by_four_nodes(sandbox: &Sandbox, address: &str) {
    let python = newest_python();
    let talkers = PythonJob::new(python, TALKERS).argument(address).start();
    let alone = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n";
    let alone = PythonJob::new(python, alone).environment("RANK", "5");
    let alone = alone.start();
    let take = |node: &str, pid: i32, now: &str| {
        snapshot_of_node(sandbox, node, &pid.to_string(), now);
    };
    let (sender, receiver) = (talkers.printed("sender"), talkers.printed("receiver"));
    take("quiet", alone.pid(), "2026-11-30T14:02:00Z");
    for (ours, theirs) in [
        ("2026-11-30T14:32:00Z", "2026-11-30T17:32:01Z"),
        ("2026-11-30T14:32:10Z", "2026-11-30T17:32:11Z"),
    ] {
        take("early", sender, ours);
        take("late", receiver, theirs);
    }
    let index = &files(&sandbox.path(".taskscope"), "index.json")[0];
    let attempt = index.ancestors().nth(2).unwrap();
    std::fs::create_dir(attempt.join("node-never")).unwrap();
    let torn = attempt.join("node-torn/snapshots");
    std::fs::create_dir_all(&torn).unwrap();
    let name = "20261130T143200.000000Z-000000.json.gz";
    std::fs::write(torn.join(name), "torn").unwrap();
}
