//! Plugins: what the built-in ones say, and what those cost that crash or never answer.

use std::path::Path;

use serde_json::Value;
use testkit::{DEADLINE, Sandbox, newest_python};

use crate::support::{
    binary, cache, misbehaving, process, sandbox, snapshot, stored, wait_for_plugins,
    wait_for_snapshot,
};

const TERM: i32 = 15;

#[test]
fn a_plugin_that_crashes_or_loops_costs_a_line_and_an_entry() {
    let sandbox = sandbox();
    let entry = |name: &str, what: &str| {
        let wasm = misbehaving();
        let limits = "{ deadline = \"200ms\" }";
        format!(
            "[[enricher]]\nname = \"{name}\"\nwasm = \"{}\"\nconfig = {{ do = \"{what}\" }}\nlimits = {limits}\n",
            wasm.display()
        )
    };
    sandbox.write(
        "collector.toml",
        &(entry("crashing", "trap") + &entry("looping", "loop")),
    );
    let task = "while [ ! -e stop ]; do sleep 0.05; done; echo done; exit 5";
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", "sh", "-c", task]);
    let kind = |snapshot: &Value, name: &str| {
        let mut outcomes = snapshot["plugins"].as_array().unwrap().iter();
        outcomes.find(|it| it["instance"] == name).unwrap()["outcome"].clone()
    };
    let seen = wait_for_snapshot(&sandbox, |it| {
        kind(it, "crashing") == "trapped" && kind(it, "looping") == "out-of-time"
    });
    assert_eq!(kind(&seen, "torchrun-ranks"), "ok");
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    assert_eq!(output.stdout, "done\n");
    let lines = |name: &str| {
        output
            .stderr
            .lines()
            .filter(|line| line.contains(name))
            .count()
    };
    assert_eq!(
        (
            lines("Plugin crashing crashed: panicked"),
            lines("Plugin looping was too slow")
        ),
        (1, 1),
        "{output}"
    );
}

#[test]
fn settings_of_the_capture_reach_the_tags_and_the_focus_scores() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        "[capture]\nprocess-pattern = \"train[.]py\"\nfocus-files = [\"train.py\"]\n\
         [[enricher]]\nname = \"process-tags\"\nconfig = { rules = [{ tag = \"reader\", name = \"^cat$\" }] }\n",
    );
    let script = "import subprocess, time
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)  # it ends with us
def deeper(call):
    call()
deeper(lambda: time.sleep(1000))
";
    sandbox.write("train.py", script);
    let python = newest_python().path.to_str().unwrap();
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", python, "train.py"]);
    let note = |snapshot: &Value, command: &str, key: &str| {
        let identity = process(snapshot, command)?["identity"].clone();
        let mut notes = snapshot["annotations"].as_array().unwrap().iter();
        let found = notes.find(|it| it["target"]["process"] == identity && it["key"] == key)?;
        Some(found["value"]["text"].as_str().unwrap().to_owned())
    };
    let seen = wait_for_snapshot(&sandbox, |it| {
        note(it, "cat", "tag").is_some()
            && note(it, "train.py", "focus-files/hottest-line")
                .is_some_and(|line| line.contains(":5 "))
    });
    assert_eq!(note(&seen, "train.py", "tag").unwrap(), "process-pattern");
    assert_eq!(note(&seen, "cat", "tag").unwrap(), "reader");
    let line = note(&seen, "train.py", "focus-files/hottest-line").unwrap();
    assert!(line.ends_with("train.py:5 <lambda>"), "{line}");
    let mut notes = seen["annotations"].as_array().unwrap().iter();
    let scored = |it: &&Value| it["target"]["stack"].is_object() || it["target"]["stack"].is_u64();
    let score = notes.find(|it| it["key"] == "score" && scored(it)).unwrap();
    assert_eq!(score["value"]["number"], 1.0);
    running.signal(TERM);
    let _ = running.wait(DEADLINE).killed_by(TERM);
}

/// Ranks as Ray's workers and users of `multiprocessing` make them: they run already when they are numbered.
const NUMBERED_LATE: &str = "import multiprocessing, os, time
def work(rank, parent):
    while not os.path.exists('go') and os.getppid() == parent:
        time.sleep(0.05)
    os.environ.update(RANK=str(rank), WORLD_SIZE='2', LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE='2')
    while os.getppid() == parent:
        time.sleep(0.05)
if __name__ == '__main__':
    start = multiprocessing.get_context('spawn').Process
    for rank in range(2):
        start(target=work, args=(rank, os.getpid())).start()
";

#[test]
fn ranks_that_are_numbered_when_they_run_already_are_found() {
    let sandbox = sandbox();
    sandbox.write("late.py", NUMBERED_LATE);
    let python = newest_python().path.to_str().unwrap();
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", python, "late.py"]);
    let spawned = |it: &&Value| it["command"].as_str().unwrap().contains("spawn_main");
    let workers = |snapshot: &Value| {
        let processes = snapshot["processes"].as_array().unwrap().iter();
        processes.filter(spawned).count()
    };
    let ranks = |snapshot: &Value| {
        let notes = snapshot["annotations"].as_array().unwrap().iter();
        let ranks = notes.filter(|it| it["key"] == "rank");
        let mut ranks: Vec<f64> = ranks
            .filter_map(|it| it["value"]["number"].as_f64())
            .collect();
        ranks.sort_by(f64::total_cmp);
        ranks
    };
    let before = wait_for_snapshot(&sandbox, |it| workers(it) == 2);
    assert!(ranks(&before).is_empty(), "{}", before["annotations"]);
    sandbox.write("go", "");
    let after = wait_for_snapshot(&sandbox, |it| ranks(it) == [0.0, 1.0]);
    let source = |it: &Value| it["environment_source"].clone();
    let mut processes = after["processes"].as_array().unwrap().iter();
    assert!(processes.any(|it| source(it) == "memory"), "{after}");
    running.signal(TERM);
    let _ = running.wait(DEADLINE).killed_by(TERM);
}

#[test]
fn a_compiler_of_ours_is_never_one_of_the_tasks_processes() {
    let sandbox = sandbox();
    let cache = sandbox.path("own-cache");
    let sandbox = sandbox.environment("XDG_CACHE_HOME", cache.to_str().unwrap());
    wait_for_plugins(&sandbox);
    let ids = stored(&sandbox);
    for id in &ids {
        let snapshot = snapshot(&sandbox, id);
        let root = &snapshot["scope"]["root"];
        let processes = snapshot["processes"].as_array().unwrap();
        let shell = processes.iter().find(|one| one["identity"] == *root);
        for process in processes {
            let command = process["command"].as_str().unwrap();
            // One that has just ended has no command any more; who started it is known.
            let is_its_child = shell.is_some_and(|shell| process["ppid"] == shell["pid"]);
            assert!(
                command.starts_with("sh -c while") || command == "sleep 0.05" || is_its_child,
                "{process}"
            );
        }
    }
    assert!(cache.join("taskscope/plugins").is_dir());
}

#[test]
fn plugins_work_where_the_address_space_is_limited() {
    drop(sandbox()); // plugins are compiled from here on
    let shell = Sandbox::new(Path::new("/bin/sh"));
    let shell = shell.environment("XDG_CACHE_HOME", cache().to_str().unwrap());
    let script = "ulimit -v 2097152; \"$0\" snapshot --pid $$ --json";
    let output = shell
        .run(["-c", script, binary().to_str().unwrap()])
        .success();
    let snapshot: Value = serde_json::from_str(&output.stdout).unwrap();
    let mut outcomes = snapshot["plugins"].as_array().unwrap().iter();
    assert!(
        outcomes.len() > 0 && outcomes.all(|one| one["outcome"] == "ok"),
        "{output}"
    );
}

#[test]
fn a_cache_that_others_may_enter_is_not_used_and_said_to_be_once() {
    let sandbox = sandbox();
    sandbox.write("cache/file", "");
    // Components with nothing in them, which are compiled in a moment.
    sandbox.write("empty.wasm", "\0asm\r\0\x01\0");
    sandbox.write(
        "collector.toml",
        "[plugins]\ncache-dir = \"cache\"\n[[enricher]]\nname = \"one\"\nwasm = \"empty.wasm\"\n\
         [[sink]]\nname = \"other\"\nwasm = \"empty.wasm\"\n",
    );
    // Enrichers and sinks have a loader each, and both need the compiler.
    let task = "while [ ! -e stop ]; do sleep 0.05; done";
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", "sh", "-c", task]);
    let _ = wait_for_snapshot(&sandbox, |it| {
        let outcomes = it["plugins"].as_array().unwrap().iter();
        let failed = outcomes.filter(|it| it["outcome"] == "load-failed");
        failed.count() == 2
    });
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).success();
    let expected = "The plugin cache ./cache is not used: others may enter it (mode 7";
    assert_eq!(output.stderr.matches(expected).count(), 1, "{output}");
    let left = std::fs::read_dir(sandbox.path("cache")).unwrap().count();
    assert_eq!(left, 1);
}
