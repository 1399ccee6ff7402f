//! Plugins that crash or never answer: a line on stderr, an entry under `plugins`, nothing else.

use std::path::Path;

use serde_json::Value;
use testkit::{DEADLINE, Sandbox};

use crate::support::{
    binary, misbehaving, sandbox, snapshot, stored, wait_for_plugins, wait_for_snapshot,
};

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
fn a_compiler_of_ours_is_never_one_of_the_tasks_processes() {
    let sandbox = sandbox();
    let cache = sandbox.path("own-cache");
    let sandbox = sandbox.environment("XDG_CACHE_HOME", cache.to_str().unwrap());
    wait_for_plugins(&sandbox);
    let ids = stored(&sandbox);
    for id in &ids {
        let snapshot = snapshot(&sandbox, id);
        for process in snapshot["processes"].as_array().unwrap() {
            let command = process["command"].as_str().unwrap();
            assert!(
                command.starts_with("sh -c while") || command == "sleep 0.05",
                "{command}"
            );
        }
    }
    assert!(cache.join("taskscope/plugins").is_dir());
}

#[test]
fn plugins_work_where_the_address_space_is_limited() {
    drop(sandbox()); // plugins are compiled from here on
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let shell = Sandbox::new(Path::new("/bin/sh"));
    let shell = shell.environment("XDG_CACHE_HOME", cache.to_str().unwrap());
    let script = "ulimit -v 2097152; \"$0\" snapshot --pid $$ --json";
    let output = shell
        .run(["-c", script, binary().to_str().unwrap()])
        .success();
    let snapshot: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(snapshot["plugins"][0]["outcome"], "ok", "{output}");
}

#[test]
fn a_cache_that_others_may_enter_is_not_used_and_said_to_be() {
    let sandbox = sandbox();
    sandbox.write("cache/file", "");
    sandbox.write("collector.toml", "[plugins]\ncache-dir = \"cache\"\n");
    let output = sandbox.run(["config", "check"]);
    let expected = "The plugin cache ./cache is not used: others may enter it (mode 7";
    assert!(output.stderr.contains(expected), "{output}");
    let left = std::fs::read_dir(sandbox.path("cache")).unwrap().count();
    assert_eq!(left, 1);
}
