//! The program with real storage servers on loopback, with credentials by each service's own conventions.

use serde_json::Value;
use testkit::{
    AZURE_ACCOUNT, AZURE_KEY, BUCKET, DEADLINE, FakeS3, Sandbox, StorageServer, newest_python,
};

use crate::support::{files, sandbox};

/// Asks for two snapshots, one after the other, and ends when they are there.
const TASK: &str = r#"
import json, os, socket, time
with socket.socket(socket.AF_UNIX) as collector:
    collector.connect(os.environ["TASKSCOPE_SOCKET"])
    answers = collector.makefile()
    def ask(line):
        collector.sendall(line)
        return json.loads(answers.readline())
    for _ in range(2):
        number = ask(b"snapshot\n")["request"]
        while ask(b"status\n")["status"]["snapshots"]["answered"] < number:
            time.sleep(0.02)
"#;

/// Runs a task into the store at `url` and reads it back.
#[track_caller]
fn run_and_read(sandbox: &Sandbox, url: &str) {
    let python = newest_python().path.to_str().unwrap();
    let options = ["run", "--interval", "1h", "--store", url, "--"];
    let arguments = options.into_iter().chain([python, "-c", TASK]);
    let output = sandbox.run(arguments).success();
    let shown = url.split('?').next().unwrap();
    assert!(
        output.stderr.contains(&format!("of test/one in {shown}")),
        "{output}"
    );
    assert!(!output.stderr.contains("warning"), "{output}");
    let count: u64 = output
        .stderr
        .lines()
        .find_map(|line| {
            line.strip_prefix("[taskscope] ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .unwrap();
    assert!(count >= 2, "{output}");

    let list = sandbox.run(["list", url, "--json"]).success();
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(
        list[0]["snapshots"], count,
        "as many are read as were taken: {list}"
    );
    let snapshot = sandbox.run(["show", url, "--json"]).success();
    let snapshot: Value = serde_json::from_str(&snapshot.stdout).unwrap();
    assert_eq!(snapshot["task"]["pathspec"], "test/one");
    let spooled = files(&sandbox.path("state"), "belongs-to");
    assert_eq!(spooled.len(), 1, "the spool of this store");

    let doctor = sandbox.run(["doctor", "--store", url]);
    for operation in ["write", "list", "read", "delete"] {
        let line = format!("holds    store {operation}");
        assert!(doctor.stdout.contains(&line), "{doctor}");
    }
    let elsewhere = url.replace(&format!("//{BUCKET}"), "//no-such-bucket");
    let doctor = sandbox.run(["doctor", "--store", &elsewhere]);
    assert!(doctor.stdout.contains("lost     store write"), "{doctor}");
    assert!(
        doctor.stdout.contains("make the bucket or container"),
        "{doctor}"
    );
}

#[test]
fn a_task_is_watched_into_s3_and_read_back() {
    let Some(server) = StorageServer::s3() else {
        return;
    };
    let sandbox = sandbox()
        .environment("AWS_ACCESS_KEY_ID", "test")
        .environment("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
        .environment("AWS_REGION", "us-east-1");
    let url = format!(
        "s3://{BUCKET}/some/prefix?endpoint=http://127.0.0.1:{}",
        server.port
    );
    run_and_read(&sandbox, &url);
}

#[test]
fn a_task_is_watched_into_azure_and_read_back() {
    let Some(server) = StorageServer::azure() else {
        return;
    };
    let connection = format!(
        "DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={};",
        server.azure_endpoint()
    );
    let sandbox = sandbox().environment("AZURE_STORAGE_CONNECTION_STRING", &connection);
    run_and_read(&sandbox, &format!("az://{BUCKET}/some/prefix"));
}

#[test]
fn a_task_is_watched_into_gcs_and_read_back() {
    let Some(server) = StorageServer::gcs() else {
        return;
    };
    let emulator = format!("127.0.0.1:{}", server.port);
    let sandbox = sandbox().environment("STORAGE_EMULATOR_HOST", &emulator);
    run_and_read(&sandbox, &format!("gs://{BUCKET}/some/prefix"));
}

#[test]
fn a_store_that_hangs_costs_a_short_task_nothing_and_a_push_brings_what_waits() {
    let server = FakeS3::start();
    for verb in ["PUT", "GET", "HEAD", "LIST"] {
        server.fail(verb, "", testkit::S3Fault::Hang, usize::MAX);
    }
    let sandbox = sandbox();
    let url = server.url();
    let running = sandbox.spawn([
        "run",
        "--store",
        &url,
        "--",
        "sh",
        "-c",
        "sleep 0.5; exit 7",
    ]);
    let output = running.wait(DEADLINE).exited(7);
    assert!(
        output.stderr.contains("1 of test/one could not be stored"),
        "{output}"
    );
    assert!(!output.stderr.contains("hunter2"), "{output}");

    server.heal();
    let notes = files(&sandbox.path("state"), "belongs-to");
    let spool = notes[0].parent().unwrap().to_str().unwrap();
    // The spool knows its store, but no secret.
    let push = sandbox.run(["spool", "push", spool, &url]).success();
    let records = push.stderr.contains("1 snapshot and ") && push.stderr.contains(" records of ");
    assert!(records, "{push}");
    let list = sandbox.run(["list", &url, "--json"]).success();
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list[0]["snapshots"], 1);
    let again = sandbox
        .run(["spool", "push", spool, &url, "--json"])
        .success();
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(
        (&again[0]["stored"], &again[0]["left"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn what_is_wrong_with_a_store_is_said_before_the_task_starts() {
    let sandbox = sandbox();
    let output = sandbox.run([
        "run",
        "--store",
        "s3://b?regoin=eu&secret_access_key=hunter2",
        "--",
        "true",
    ]);
    let output = output.exited(125);
    assert!(
        output
            .stderr
            .contains("s3:// has no option `regoin`; it takes"),
        "{output}"
    );
    assert!(!output.stderr.contains("hunter2"), "{output}");
    let output = sandbox.run(["spool", "push", "nowhere"]).exited(2);
    assert!(
        output.stderr.contains("cannot read the spool nowhere"),
        "{output}"
    );
    sandbox.write("directory/file", "");
    let output = sandbox.run(["spool", "push", "directory"]).exited(2);
    assert!(
        output.stderr.contains("taskscope spool push DIR ROOT"),
        "{output}"
    );
}
