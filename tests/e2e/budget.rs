//! What watching may cost: the budget where no interval is set, and the account that each snapshot gives.

use serde_json::Value;
use testkit::{DEADLINE, newest_python, wait_until};

use crate::support::{sandbox, snapshot, wait_for_snapshot, wait_for_stored};

const TERM: i32 = 15;
const TINY: &str = "[capture]\nbudget = \"0.01%\"\n";
const SCRIPT: &str =
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n";

fn skipped<'a>(snapshot: &'a Value, what: &str) -> Vec<&'a Value> {
    let gaps = snapshot["gaps"].as_array().unwrap().iter();
    gaps.filter(|gap| gap["what"] == what && gap["code"] == "skipped")
        .collect()
}

/// Nothing of the kind was dropped, and the account says so.
#[track_caller]
fn assert_full(snapshot: &Value) {
    assert_eq!(snapshot["capture"]["spending"]["detail"], "full");
    for what in ["task/*/stack", "ipc", "python_stack"] {
        assert!(skipped(snapshot, what).is_empty(), "{what}");
    }
}

#[test]
fn beyond_the_budget_the_interval_is_stretched_and_then_detail_is_left_out() {
    let sandbox = sandbox();
    sandbox.write("collector.toml", TINY);
    let script = sandbox.write("train.py", SCRIPT);
    let python = newest_python().path.to_str().unwrap().to_owned();
    let script = script.to_str().unwrap();
    let arguments = ["run", "--default-interval", "50ms", "--", &python, script];
    let running = sandbox.spawn(arguments);
    let stretched = wait_for_snapshot(&sandbox, |snapshot| {
        snapshot["capture"]["interval_s"] == 0.5 && snapshot["capture"]["trigger"] == "interval"
    });
    let spending = &stretched["capture"]["spending"];
    assert_eq!(spending["wanted_interval_s"], 0.05);
    assert_eq!(spending["budget_percent"], 0.01);
    assert!(spending["used_percent"].as_f64().unwrap() > 0.01);
    assert_full(&stretched);
    let bare = wait_for_snapshot(&sandbox, |snapshot| {
        snapshot["capture"]["spending"]["detail"] == "without_python_stacks"
    });
    for what in ["task/*/stack", "fdinfo", "ipc", "python_stack"] {
        let gaps = skipped(&bare, what);
        let [gap] = gaps.as_slice() else {
            panic!("not one gap of {what}: {gaps:?}");
        };
        assert!(gap["process"].is_null());
        assert!(gap["detail"].as_str().unwrap().contains("budget"), "{gap}");
        assert!(
            gap["remedy"].as_str().unwrap().contains("--interval"),
            "{gap}"
        );
    }
    assert!(bare["processes"][0]["pyspy"].is_null());
    assert!(bare["processes"][0]["proc"]["threads"][0]["state"].is_string());
    // A signal is answered at once, at the level in force.
    running.signal(TERM);
    let asked_for = wait_for_snapshot(&sandbox, |snapshot| {
        snapshot["capture"]["trigger"] == "signal"
    });
    assert_eq!(asked_for["capture"]["interval_s"], 0.5);
    assert_eq!(skipped(&asked_for, "python_stack").len(), 1);
    let page = sandbox.run(["show"]).success().stdout;
    assert!(
        page.contains("; interval stretched from 0.1 s to 0.5 s; kernel stacks, connections and"),
        "{page}"
    );
}

#[test]
fn with_an_interval_cost_is_only_reported() {
    for (settings, arguments) in [
        (TINY.to_owned(), &["run", "--interval", "50ms"][..]),
        (TINY.to_owned() + "interval = \"50ms\"\n", &["run"][..]),
    ] {
        let sandbox = sandbox();
        sandbox.write("collector.toml", &settings);
        let command = ["--", "sleep", "1000"];
        let running = sandbox.spawn(arguments.iter().chain(&command));
        let ids = wait_for_stored(&sandbox, 8);
        running.signal(TERM);
        wait_until(DEADLINE, || running.has_ended());
        let first = snapshot(&sandbox, &ids[0]);
        let spending = &first["capture"]["spending"];
        assert_eq!(spending["written_bytes"], 0);
        for absent in [
            "longest_cycle_ms",
            "used_percent",
            "previous_snapshot_bytes",
        ] {
            assert!(spending[absent].is_null(), "{absent}");
        }
        let later = snapshot(&sandbox, &ids[7]);
        assert_full(&later);
        let spending = &later["capture"]["spending"];
        assert!(spending["budget_percent"].is_null());
        assert_eq!(later["capture"]["interval_s"], 0.05);
        assert_eq!(spending["wanted_interval_s"], 0.05);
        for known in ["longest_cycle_ms", "used_percent", "recent_percent"] {
            assert!(spending[known].as_f64().unwrap() > 0.0, "{known}");
        }
        let [written, previous] = ["written_bytes", "previous_snapshot_bytes"]
            .map(|name| spending[name].as_u64().unwrap());
        assert!(
            previous > 0 && written > 3 * previous,
            "{written} {previous}"
        );
    }
}
