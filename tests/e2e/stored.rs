//! What is stored: private, without secrets, and told apart by `diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{DEADLINE, PythonJob, Sandbox, newest_python, wait_until};

use crate::support::{
    process, repetitions, sandbox, snapshot, stored, wait_for_snapshot, wait_for_stored,
};

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
    // And in the paths of the working directory and of an open file.
    let task = "mkdir token=planted-folder-4711; cd token=planted-folder-4711; exec 5>password=planted-file-4711; \
                while [ ! -e ../stop ]; do sleep 0.05; done";
    let arguments = [
        "run",
        "--interval",
        "200ms",
        "--",
        "sh",
        "-c",
        task,
        "x",
        "--api-key",
        "planted-argument-4711",
    ];
    let running = sandbox.spawn(arguments);
    let seen = wait_for_snapshot(&sandbox, |snapshot| {
        let open =
            process(snapshot, "x --api-key").map(|it| it["proc"]["file_descriptors"].to_string());
        open.is_some_and(|open| open.contains("\"fd\":\"5\""))
    });
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
    assert!(seen.to_string().contains("\"RANK\":\"3\""), "{seen}");
    for id in stored(&sandbox) {
        let snapshot = sandbox.run(["show", "--json", "--at", &id]).success();
        assert!(!snapshot.stdout.contains("planted-"), "{snapshot}");
    }
    let files = below(&sandbox.path(".taskscope"));
    for path in files.iter().filter(|path| path.is_file()) {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("planted-"), "{}", path.display());
    }
    what_was_replaced_is_listed(&sandbox, seen["capture"]["id"].as_str().unwrap());
}

fn what_was_replaced_is_listed(sandbox: &Sandbox, id: &str) {
    let redactions = ["show", "--at", id, "--redactions"];
    let page = sandbox.run(redactions).success().stdout;
    assert!(
        page.starts_with("PID") && page.contains("cmdline/"),
        "{page}"
    );
    let json = [&redactions[..], &["--json"]].concat();
    let json = sandbox.run(json).success().stdout;
    let replaced: Vec<Value> = serde_json::from_str(&json).unwrap();
    let places: Vec<&str> = replaced
        .iter()
        .map(|it| it["place"].as_str().unwrap())
        .collect();
    assert!(
        places.iter().any(|place| place.starts_with("cmdline/")),
        "{places:?}"
    );
    for place in [
        "distributed_environment/TORCH_API_TOKEN",
        "proc/file_descriptors/5",
        "filesystem/mounts",
    ] {
        assert!(places.contains(&place), "{place}: {places:?}");
    }
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

#[test]
fn snapshots_of_two_attempts_are_found_by_their_ids_and_compared() {
    let sandbox = sandbox();
    let job = PythonJob::new(
        newest_python(),
        "print('ready')\nimport time\ntime.sleep(1000)\n",
    )
    .start();
    let pid = job.pid().to_string();
    let take = || sandbox.run(["snapshot", "--pid", &pid, "--store", ".taskscope"]);
    take().success();
    let first = stored(&sandbox).remove(0);
    take().success();
    let second = stored(&sandbox).remove(1);
    // Each is an attempt of its own.
    let attempt = |id: &str| snapshot(&sandbox, id)["task"]["attempt"].clone();
    assert_eq!((attempt(&first), attempt(&second)), (0.into(), 1.into()));
    let page = sandbox.run(["diff", "--from", &first, "--to", &second]);
    let page = page.success();
    assert_eq!(
        page.stderr, "",
        "the attempt decides which is the later one"
    );
    assert!(
        page.stdout.contains(&format!("{first} -> {second}"))
            && page.stdout.contains("still at <module> (train.py:3)"),
        "{page}"
    );
    assert_eq!(
        sandbox.run(["diff", "--from", &first]).success().stdout,
        page.stdout
    );
    // An attempt by number is that one alone.
    let shown = sandbox.run(["show", "--attempt", "0", "--json"]).success();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["capture"]["id"], first.as_str());
    let not_there = sandbox.run(["show", "--attempt", "1", "--at", &first]);
    let not_there = not_there.exited(1);
    assert!(
        not_there.stderr.contains("there is no such snapshot"),
        "{not_there}"
    );
    let unknown = sandbox.run(["show", "--attempt", "7"]).exited(1);
    assert!(
        unknown.stderr.contains("has no attempt 7; it has 0, 1"),
        "{unknown}"
    );
}

/// How often a collector is killed; a variable says otherwise.
const KILLED: u64 = 5;

/// The ids of all snapshots, each read back by the program. Panics if an attempt lacks a number.
fn read_back(sandbox: &Sandbox) -> BTreeSet<String> {
    let mut numbers: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let all = stored(sandbox);
    for id in &all {
        let snapshot = snapshot(sandbox, id);
        assert_eq!(snapshot["capture"]["id"], id.as_str());
        let attempt = snapshot["task"]["attempt"].as_u64().unwrap();
        let sequence = snapshot["capture"]["sequence"].as_u64().unwrap();
        numbers.entry(attempt).or_default().insert(sequence);
    }
    for (attempt, numbers) in numbers {
        let expected: BTreeSet<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "attempt {attempt}");
    }
    all.into_iter().collect()
}

#[test]
fn a_program_that_is_killed_at_any_instant_loses_no_snapshot_that_it_took() {
    let sandbox = sandbox();
    let mut taken = BTreeSet::new();
    for repetition in 0..repetitions(KILLED) {
        let flag = format!("stop-{repetition}");
        let task = format!("while [ ! -e {flag} ]; do sleep 0.05; done");
        let running = sandbox.spawn(["run", "--interval", "200ms", "--", "sh", "-c", &task]);
        // Half of them die at an instant after their start, half after their first snapshot, however slow the machine is.
        if repetition % 2 == 1 {
            let before = taken.len();
            wait_until(DEADLINE, || {
                taken.extend(ids_on_disk(&sandbox));
                taken.len() > before
            });
        }
        let instant = Duration::from_micros(repetition * 7_919_000 % 1_500_000);
        let began = Instant::now();
        while began.elapsed() < instant {
            taken.extend(ids_on_disk(&sandbox));
            std::thread::sleep(Duration::from_millis(5));
        }
        running.signal(9);
        sandbox.write(&flag, "");
        _ = running.wait(DEADLINE);
        taken.extend(ids_on_disk(&sandbox));
    }
    // The next one brings what waits in the spool.
    sandbox.run(["run", "--", "sleep", "0.3"]).success();
    assert!(taken.len() as u64 >= KILLED / 2, "{taken:?}");
    let readable = read_back(&sandbox);
    let lost: Vec<&String> = taken.difference(&readable).collect();
    assert_eq!(lost, Vec::<&String>::new());
    let rows = sandbox.run(["list", "--json"]).success().stdout;
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let counted: u64 = rows
        .iter()
        .map(|row| row["snapshots"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, readable.len() as u64);
    let spool = sandbox.path(".taskscope/.spool");
    let left = snapshots_below(&spool);
    assert_eq!(left, BTreeSet::new(), "nothing waits any more");
}

/// The ids of snapshots that were taken: those in the store and those in its spool, both written whole.
fn ids_on_disk(sandbox: &Sandbox) -> BTreeSet<String> {
    snapshots_below(&sandbox.path(".taskscope"))
}

fn snapshots_below(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            found.extend(snapshots_below(&path));
        } else if path
            .parent()
            .is_some_and(|folder| folder.ends_with("snapshots"))
            && let Some(id) = name.strip_suffix(".json.gz")
        {
            found.insert(id.to_owned());
        }
    }
    found
}

#[test]
fn where_nothing_can_be_written_snapshots_wait_in_the_user_s_own_place() {
    let sandbox = sandbox();
    // Nobody can make a directory there, root neither.
    let mut command = sandbox.command(["run", "--", "sh", "-c", "sleep 0.3; exit 7"]);
    let output = command.current_dir("/proc").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{words}");
    let state = sandbox.path("state/taskscope/spool");
    let place = state.to_str().unwrap();
    assert!(
        words.contains("The store takes no snapshots; they wait in the spool")
            && words.contains(place),
        "{words}"
    );
    let waiting = snapshots_below(&state);
    assert!(!waiting.is_empty(), "{words}");
    let push = sandbox
        .run(["spool", "push", place, ".taskscope"])
        .success();
    assert_eq!(read_back(&sandbox), waiting, "{push}");
    assert_eq!(snapshots_below(&state), BTreeSet::new());
}

#[test]
fn a_store_whose_disk_is_full_soon_is_said_once_while_the_task_runs() {
    let sandbox = sandbox();
    let Some(clock) = crate::monitor::stepped_clock(&sandbox) else {
        return;
    };
    // Some kilobytes each 0.2 s are a gigabyte a day; over less than a minute that is no rate. After some snapshots the clock says that
    // a minute has passed. Each wait ends after a minute, whatever happens.
    let task = r"
taken() { find /mnt -path '*/snapshots/*' -name '*.json.gz' | wc -l; }
wait_for() { i=0; until [ $(taken) -ge $1 ] || [ $i = 1200 ]; do i=$((i+1)); sleep 0.05; done; }
wait_for 4; grep -c 'is full in' said; echo 70 > step.new; mv step.new step
wait_for $(($(taken) + 8)); exit 3
";
    sandbox.write("task.sh", task);
    sandbox.write("step", "0");
    let script = format!(
        "mount -t tmpfs -o size=32m none /mnt && export LD_PRELOAD={} CLOCK_STEP=\"$PWD/step\" && \
         exec \"$0\" run --interval 200ms --store /mnt -- sh task.sh 2> said",
        clock.display()
    );
    let Some(output) = crate::our_failures::among_mounts(&sandbox, &script) else {
        return;
    };
    let words = std::fs::read_to_string(sandbox.path("said")).unwrap();
    assert_eq!(output.status.code(), Some(3), "{words}");
    let early = String::from_utf8_lossy(&output.stdout);
    assert_eq!(early, "0\n", "{words}");
    let warning = "and the disk of /mnt is full in";
    assert_eq!(words.matches(warning).count(), 1, "{words}");
}
