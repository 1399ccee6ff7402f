//! `taskscope doctor`: which rights hold, as root and without any.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::Sandbox;

use crate::support::{FILTERED, sandbox};

fn right<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut rights = report["rights"].as_array().unwrap().iter();
    rights
        .find(|right| right["right"] == name)
        .unwrap_or_else(|| panic!("{name} in {report:#}"))
}

/// Runs it and checks that its exit code says what its rights say.
fn report<const N: usize>(arguments: [&str; N]) -> Value {
    let sandbox = sandbox();
    let mut words = vec!["doctor", "--json"];
    words.extend(arguments);
    let output = sandbox.run(words);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let is_lost = report["rights"]
        .as_array()
        .unwrap()
        .iter()
        .any(|right| right["state"] == "lost");
    output.exited(if is_lost { 3 } else { 0 });
    report
}

#[test]
fn a_process_of_our_own_is_tried_where_none_is_named() {
    let report = report([]);
    assert_eq!(report["is_own_process"], true);
    assert_eq!(report["process"]["is_descendant"], true);
    assert_eq!(right(&report, "process_files")["state"], "holds");
    let root = report["ours"]["effective_uid"] == 0;
    assert_eq!(root, rustix::process::geteuid().is_root());
    let stacks = right(&report, "kernel_stacks");
    if stacks["state"] == "lost" && !root {
        let line = stacks["remedy"]["docker"].as_str().unwrap();
        assert_eq!(line, "--cap-add=SYS_ADMIN");
    }
}

#[test]
fn without_rights_every_loss_has_its_line() {
    // What started this test runs as root in both passes where there are two.
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
    let output = sandbox().run(["doctor", "--pid", &parent.to_string()]);
    if rustix::process::geteuid().is_root() {
        assert!(output.stdout.contains("holds    process_files"), "{output}");
        return;
    }
    if output.stdout.contains("holds    process_files") {
        return eprintln!("SKIPPED: what started this test has our own user; nothing is lost.");
    }
    let output = output.exited(3);
    for words in [
        "lost     process_files",
        "it is a process of user 0, and we are user",
        "lost without it:  environment (so ranks)",
        "docker:           --cap-add=SYS_PTRACE",
        r#"kubernetes:       securityContext: {capabilities: {add: ["SYS_PTRACE"]}}"#,
        "lost     process_memory",
        "lost     process_descriptors",
        "lost     kernel_stacks",
        "lost     wait_channels",
    ] {
        assert!(output.stdout.contains(words), "{words}\n{output}");
    }
}

#[test]
fn a_store_is_tried_and_left_as_it_was() {
    let sandbox = sandbox();
    let output = sandbox.run(["doctor", "--store", "kept"]);
    for operation in ["", " write", " list", " read", " delete"] {
        let line = format!("holds    store{operation} ");
        assert!(output.stdout.contains(&line), "{line}: {output}");
    }
    assert!(
        sandbox
            .run(["list", "kept", "--json"])
            .success()
            .stdout
            .contains("[]")
    );
    sandbox.write("file", "");
    let output = sandbox.run(["doctor", "--store", "file/below"]);
    let output = output.exited(3);
    for line in [
        "lost     store ",
        "lost     store write ",
        "unknown  store delete ",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let output = sandbox
        .run(["doctor", "--store", "/proc/kept", "--json"])
        .exited(3);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let write = &report["store"][0];
    assert_eq!(
        (&write["operation"], &write["state"]),
        (&"write".into(), &"lost".into())
    );
    assert!(
        write["detail"].as_str().unwrap().contains("/proc/kept"),
        "{write}"
    );
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    // The kernel gives none above 4194304; the number of one that has ended may be another's.
    let output = sandbox().run(["doctor", "--pid", "4194305"]);
    let output = output.exited(1);
    assert!(output.stderr.contains("there is no process"), "{output}");
}

#[test]
fn a_filter_of_system_calls_is_told_from_a_lack_of_rights() {
    let sandbox = sandbox();
    let output = Command::new("python3")
        .args(["-c", FILTERED])
        .arg(crate::support::binary())
        .args(["doctor", "--json"])
        .current_dir(sandbox.directory())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ours"]["seccomp"], "filter");
    assert_eq!(right(&report, "process_files")["state"], "holds");
    let memory = right(&report, "process_memory");
    assert_eq!(memory["state"], "lost");
    let detail = memory["detail"].as_str().unwrap();
    assert_eq!(
        detail,
        "a seccomp filter refuses process_vm_readv; /proc/PID/mem can be opened, and stacks of CPython 3.8 to 3.13 \
         are read by it, no others"
    );
    let line = memory["remedy"]["kubernetes"].as_str().unwrap();
    assert_eq!(
        line,
        "securityContext: {seccompProfile: {type: Unconfined}}"
    );
    assert_eq!(right(&report, "process_descriptors")["state"], "lost");
}

#[test]
fn a_process_that_made_itself_undumpable_is_called_so() {
    let undumpable = "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nprint('ready', flush=True)\ntime.sleep(1000)";
    let python = Sandbox::new(Path::new("python3"));
    let child = python.spawn(["-c", undumpable]);
    child.wait_for_stdout("ready");
    let report = report(["--pid", &child.pid().to_string()]);
    let files = right(&report, "process_files");
    if rustix::process::geteuid().is_root() {
        assert_eq!(files["state"], "holds");
        return;
    }
    assert_eq!(files["state"], "lost");
    assert_eq!(report["process"]["dumpable"], false);
    let detail = files["detail"].as_str().unwrap();
    assert!(detail.contains("not dumpable"), "{detail}");
}
