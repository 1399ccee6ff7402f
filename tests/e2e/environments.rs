//! One process looked at from eight places with fewer and fewer rights: no crash, and each value is right or marked.

use std::process::Command;

use serde_json::Value;
use testkit::{PythonJob, newest_python, wait_until_asleep};

use crate::support::{FILTERED, binary};

/// A place: its name, and what stands before the program's own command line.
type Place = (&'static str, Vec<String>);

fn places() -> Vec<Place> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let filtered = ["python3", "-c", FILTERED].map(str::to_owned).to_vec();
    vec![
        ("as we are", Vec::new()),
        ("no-new-privs", words("setpriv --no-new-privs")),
        (
            "no CAP_SYS_ADMIN",
            words("setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"),
        ),
        (
            "no CAP_SYS_PTRACE",
            words("setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace"),
        ),
        (
            "no capability",
            words("setpriv --bounding-set=-all --inh-caps=-all"),
        ),
        (
            "another user",
            words(
                "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all",
            ),
        ),
        ("another network", words("unshare --net")),
        ("a filter of system calls", filtered),
    ]
}

/// The document that `taskscope snapshot` prints from `place`; nothing where there is no such place on this machine.
fn seen_from((name, before): &Place, program: &str, pid: i32) -> Option<Value> {
    if let [tool, options @ ..] = before.as_slice() {
        let usable = Command::new(tool).args(options).arg("/bin/true").status();
        if !usable.is_ok_and(|status| status.success()) {
            eprintln!(
                "SKIPPED: nothing is seen from `{name}`, because `{tool}` cannot make it here"
            );
            return None;
        }
    }
    let line = before.iter().cloned().chain([
        program.to_owned(),
        "snapshot".to_owned(),
        "--pid".to_owned(),
        pid.to_string(),
    ]);
    let line: Vec<String> = line.collect();
    let output = Command::new(&line[0])
        .args(&line[1..])
        .current_dir("/")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {words}");
    assert!(!words.contains("panicked"), "{name}: {words}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Whether a gap of the snapshot speaks of `what`.
fn is_marked(snapshot: &Value, what: &str) -> bool {
    let mut gaps = snapshot["gaps"].as_array().unwrap().iter();
    gaps.any(|gap| {
        gap["what"]
            .as_str()
            .unwrap()
            .split(',')
            .any(|one| one.contains(what))
    })
}

/// What a gap would call each value, and whether the value is the right one.
fn right(process: &Value) -> [(&'static str, bool); 8] {
    [
        (
            "python_stack",
            process["pyspy"]["traces"][0]["frames"][0]["name"] == "wait_here",
        ),
        ("environ", process["distributed_environment"]["RANK"] == "5"),
        (
            "stack",
            !process["proc"]["kernel_stack"]
                .as_array()
                .unwrap()
                .is_empty(),
        ),
        (
            "fd",
            !process["proc"]["file_descriptors"]
                .as_array()
                .unwrap()
                .is_empty(),
        ),
        ("io", !process["proc"]["io"].as_object().unwrap().is_empty()),
        ("exe", process["exe"].is_string()),
        (
            "wchan",
            process["proc"]["wchan"]
                .as_str()
                .is_some_and(|function| function != "0"),
        ),
        ("syscall", process["proc"]["syscall"].is_string()),
    ]
}

#[test]
fn from_every_place_each_value_is_right_or_marked() {
    // Where another user may reach it.
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(
        open.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let program = open.path().join("taskscope");
    std::fs::copy(binary(), &program).unwrap();
    let script =
        "import time\ndef wait_here():\n    time.sleep(1000)\nprint('ready')\nwait_here()\n";
    let job = PythonJob::new(newest_python(), script)
        .environment("RANK", "5")
        .start();
    wait_until_asleep(job.pid());
    let mut looked = 0;
    for place in places() {
        let Some(snapshot) = seen_from(&place, program.to_str().unwrap(), job.pid()) else {
            continue;
        };
        looked += 1;
        let name = place.0;
        let process = &snapshot["processes"][0];
        assert_eq!(process["pid"], i64::from(job.pid()), "{name}");
        assert_eq!(process["state"], "S", "{name}");
        assert!(
            process["memory"]["rss_bytes"].as_u64().unwrap() > 1 << 20,
            "{name}"
        );
        for (what, is_right) in right(process) {
            assert_ne!(
                is_right,
                is_marked(&snapshot, what),
                "{name}: {what} is either right or marked: {}",
                snapshot["gaps"]
            );
        }
    }
    assert!(looked >= 1);
}
