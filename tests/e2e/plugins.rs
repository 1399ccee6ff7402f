//! Plugins that crash or never answer: a line on stderr, an entry under `plugins`, nothing else.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::DEADLINE;

use crate::support::{sandbox, wait_for_snapshot};

/// The guest that misbehaves as its settings say, which the build script of `host/plugin` builds with the others.
fn misbehaving() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_taskscope"))
        .ancestors()
        .nth(2)
        .unwrap();
    target.join("plugins/wasm32-wasip2/release/testing.wasm")
}

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
