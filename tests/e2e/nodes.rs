//! `why` about a job on several nodes, each with a collector of its own and one store.

use serde_json::Value;
use testkit::{DEADLINE, Sandbox, newest_python, wait_until};

use crate::read::own_address;
use crate::support::sandbox;
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
