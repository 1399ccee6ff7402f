//! What is stored: private, without secrets, and told apart by `diff`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{DEADLINE, PythonJob, newest_python, wait_until};

use crate::support::{sandbox, stored, wait_for_stored};

/// Everything below `directory`, itself included.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    let mut next = 0;
    while next < found.len() {
        if found[next].is_dir() {
            let entries = std::fs::read_dir(&found[next]).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    found
}

#[test]
fn only_the_owner_can_read_what_is_stored_and_the_task_keeps_its_umask() {
    let sandbox = sandbox();
    let task = "umask; touch made; sleep 0.3";
    let said = sandbox
        .run(["run", "--", "sh", "-c", task])
        .success()
        .stdout;
    let mut ours = Command::new("sh");
    ours.args(["-c", "umask; touch made"]);
    let ours = ours.current_dir(sandbox.path(".taskscope"));
    let ours = ours.output().unwrap();
    assert_eq!(said.as_bytes(), ours.stdout);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let by_us = sandbox.path(".taskscope/made");
    assert_eq!(mode(&sandbox.path("made")), mode(&by_us));
    std::fs::remove_file(by_us).unwrap();

    let all = below(&sandbox.path(".taskscope"));
    assert!(all.iter().any(|path| path.ends_with("index.json")));
    for path in all {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn secrets_are_nowhere_in_the_store_and_what_was_replaced_is_listed() {
    let sandbox = sandbox();
    // Outside the allow-list, inside it under a telling name, and on the command line.
    let sandbox = sandbox
        .environment("MY_SECRET_ENV", "planted-outside-4711")
        .environment("TORCH_API_TOKEN", "planted-inside-4711")
        .environment("RANK", "3");
    let arguments = [
        "run",
        "--",
        "sh",
        "-c",
        "sleep 0.5; :",
        "x",
        "--api-key",
        "planted-argument-4711",
    ];
    sandbox.run(arguments).success();
    let ids = stored(&sandbox);
    assert!(!ids.is_empty());
    for id in &ids {
        let snapshot = sandbox.run(["show", "--json", "--at", id]).success().stdout;
        assert!(!snapshot.contains("planted-"), "{snapshot}");
        assert!(snapshot.contains("\"RANK\":\"3\""), "{snapshot}");
    }
    for path in below(&sandbox.path(".taskscope"))
        .iter()
        .filter(|path| path.is_file())
    {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("planted-"), "{}", path.display());
    }
    let page = sandbox.run(["show", "--redactions"]).success().stdout;
    assert!(
        page.starts_with("PID") && page.contains("cmdline/"),
        "{page}"
    );
    let json = sandbox
        .run(["show", "--redactions", "--json"])
        .success()
        .stdout;
    let replaced: Vec<Value> = serde_json::from_str(&json).unwrap();
    let places: Vec<&str> = replaced
        .iter()
        .map(|it| it["place"].as_str().unwrap())
        .collect();
    assert!(
        places.iter().any(|place| place.starts_with("cmdline/")),
        "{places:?}"
    );
    assert!(
        places.contains(&"distributed_environment/TORCH_API_TOKEN"),
        "{places:?}"
    );
    assert!(
        replaced
            .iter()
            .all(|it| it["rule"].is_string() && it["process"].is_string())
    );
}

#[test]
fn diff_says_where_a_thread_went_and_where_one_still_stands() {
    let sandbox = sandbox();
    let script = "import os, sys, time\ndef first():\n    while not os.path.exists(sys.argv[1]):\n        time.sleep(0.1)\n\
                  def second():\n    time.sleep(1000)\nprint('ready')\nfirst()\nsecond()\n";
    let flag = sandbox.path("go");
    let job = PythonJob::new(newest_python(), script)
        .argument(flag.to_str().unwrap())
        .start();
    let pid = job.pid().to_string();
    let watching = sandbox.spawn(["attach", "--pid", &pid, "--interval", "300ms"]);
    let first = wait_for_stored(&sandbox, 1).remove(0);
    sandbox.write("go", "");
    wait_until(DEADLINE, || {
        let page = sandbox.run(["diff", "--from", &first]).success();
        page.stdout.contains("-> second (train.py:6)")
    });
    let seen = stored(&sandbox).len();
    let last = wait_for_stored(&sandbox, seen + 3);
    let (stands, still) = (last[seen + 1].clone(), last[seen + 2].clone());
    let page = sandbox
        .run(["diff", "--from", &stands, "--to", &still])
        .success()
        .stdout;
    assert!(page.contains("still at second (train.py:6)"), "{page}");
    assert!(!page.contains("Moved"), "{page}");
    // The other way round is told, and gives the same.
    let swapped = sandbox
        .run(["diff", "--from", &still, "--to", &stands])
        .success();
    assert!(
        swapped.stderr.contains("--from is the later one"),
        "{swapped}"
    );
    assert_eq!(swapped.stdout, page);
    let json = sandbox
        .run(["diff", "--from", &first, "--json"])
        .success()
        .stdout;
    let diff: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(diff["from"], first.as_str());
    let changes = diff["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|change| change["kind"] == "moved"),
        "{json}"
    );
    assert!(diff["activities"][0]["cpu_seconds"].is_number(), "{json}");
    let missing = sandbox
        .run(["diff", "--from", "2020-01-01T00:00:00Z"])
        .exited(1);
    assert!(
        missing.stderr.contains("no snapshot is as old as"),
        "{missing}"
    );
    drop(job);
    watching.wait(DEADLINE).success();
}
