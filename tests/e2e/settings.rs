//! `config check` and `config show`.

use serde_json::Value;

use crate::support::sandbox;

#[test]
fn the_defaults_can_be_used_and_shown() {
    let sandbox = sandbox();
    insta::assert_snapshot!(sandbox.run(["config", "check"]), @"
    exit 0
    --- stderr
    [taskscope] plugin torchrun-ranks: torchrun-ranks 0.1.0
    [taskscope] plugin process-tags: process-tags 0.1.0
    [taskscope] plugin focus-files: focus-files 0.1.0
    [taskscope] no settings file; the defaults: all settings can be used
    ");
    let page = sandbox.run(["config", "show"]).success().stdout;
    assert!(
        page.lines().any(|line| line.split_whitespace().eq([
            "capture.interval",
            "120s",
            "default"
        ])),
        "{page}"
    );
}

#[test]
fn each_setting_says_where_it_comes_from() {
    let sandbox = sandbox();
    sandbox.write("other.toml", "[capture]\ninterval = \"5s\"\n");
    let output = sandbox
        .run(["config", "show", "--json", "--config", "other.toml"])
        .success();
    let rows: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let row = rows
        .iter()
        .find(|row| row["key"] == "capture.interval")
        .unwrap();
    assert_eq!(
        (&row["value"], &row["origin"]),
        (&"5s".into(), &"other.toml".into())
    );
}

#[test]
fn the_environment_names_a_settings_file_and_the_option_beats_it() {
    let sandbox = sandbox().environment("TASKSCOPE_CONFIG", "missing.toml");
    let output = sandbox.run(["config", "check"]).exited(2);
    assert!(output.stderr.contains("missing.toml"), "{output}");
    sandbox.write("fine.toml", "");
    sandbox
        .run(["config", "check", "--config", "fine.toml"])
        .success();
}

#[test]
fn a_plugin_that_cannot_be_loaded_fails_the_check() {
    let sandbox = sandbox();
    sandbox.write("broken.wasm", "not a component");
    sandbox.write(
        "collector.toml",
        "[[enricher]]\nname = \"mine\"\nwasm = \"broken.wasm\"\n",
    );
    let output = sandbox.run(["config", "check"]).exited(2);
    assert!(output.stderr.contains("error: plugin mine: "), "{output}");
    sandbox.write(
        "collector.toml",
        "[[enricher]]\nname = \"mine\"\nwasm = \"builtin:nothing\"\n",
    );
    let output = sandbox.run(["config", "check"]).exited(2);
    assert!(
        output.stderr.contains("`builtin:torchrun-ranks`"),
        "{output}"
    );
}

#[test]
fn the_example_settings_pass_the_check() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        include_str!("../../examples/collector.toml"),
    );
    sandbox.run(["config", "check"]).success();
}
