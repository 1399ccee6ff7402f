//! Samples beside the snapshots, the report of a run, and the live line.

mod jobs;

pub(crate) use jobs::stepped_clock;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{DEADLINE, Sandbox, newest_python, wait_until};

use crate::support::{binary, files, sandbox};

const KILL: i32 = 9;

/// Every field of the predecessor's summary, of its stages and of its samples.
const SUMMARY: [&str; 27] = [
    "pid",
    "running",
    "error",
    "wall_seconds",
    "sample_interval",
    "platform",
    "psutil_version",
    "detailed_memory",
    "sampling_attempts",
    "sampling_seconds",
    "max_sampling_seconds",
    "max_sample_gap_seconds",
    "sampling_error",
    "output_error",
    "samples",
    "partial_rss_samples",
    "peak_process_count",
    "peak_parent_rss_bytes",
    "peak_children_rss_bytes",
    "peak_tree_rss_bytes",
    "peak_tree_uss_bytes",
    "peak_tree_pss_bytes",
    "peak_tree_physical_footprint_bytes",
    "peak_rss_stage",
    "peak_rss_elapsed_seconds",
    "stages",
    "latest_sample",
];
const SAMPLE: [&str; 11] = [
    "parent_rss_bytes",
    "children_rss_bytes",
    "tree_rss_bytes",
    "tree_uss_bytes",
    "tree_pss_bytes",
    "tree_physical_footprint_bytes",
    "process_count",
    "rss_processes",
    "rss_complete",
    "elapsed_seconds",
    "stage",
];

const STAGE: [&str; 13] = [
    "id",
    "name",
    "parent_id",
    "start_seconds",
    "wall_seconds",
    "error",
    "samples",
    "partial_rss_samples",
    "peak_process_count",
    "peak_tree_rss_bytes",
    "peak_tree_uss_bytes",
    "peak_tree_pss_bytes",
    "peak_tree_physical_footprint_bytes",
];

/// A sandbox with quick samples and these further settings of `[monitor]`.
fn quick(more: &str) -> Sandbox {
    let sandbox = sandbox();
    let settings = format!("[monitor]\ninterval = \"50ms\"\n{more}");
    sandbox.write("collector.toml", &settings);
    sandbox
}

fn report(sandbox: &Sandbox) -> Value {
    let output = sandbox.run(["report", "--json"]).success();
    serde_json::from_str(&output.stdout).unwrap()
}

/// The report that is in the store now, if there is one.
fn stored_report(sandbox: &Sandbox) -> Option<Value> {
    let found = files(&sandbox.path(".taskscope"), "report.json");
    let text = fs::read(found.first()?).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

/// Waits until the stored report `is_right`.
#[track_caller]
fn wait_for_report(sandbox: &Sandbox, is_right: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    wait_until(DEADLINE, || {
        found = stored_report(sandbox).filter(&is_right);
        found.is_some()
    });
    found.unwrap()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is a number"))
}

fn python() -> String {
    newest_python().path.to_str().unwrap().to_owned()
}

#[test]
fn a_report_says_what_a_run_came_to_while_it_runs_and_after() {
    let sandbox = quick("log-interval = \"300ms\"\nmax-samples = 20\n");
    let task = "import os, sys, time\n\
        block = bytearray(os.urandom(1) * (150 << 20))\n\
        child = os.fork() or time.sleep(1000)\n\
        print('grown', flush=True)\n\
        sys.stdin.readline()\n\
        os.kill(child, 9); os.waitpid(child, 0)\n\
        del block\n\
        sys.exit(3)\n";
    sandbox.write("grow.py", task);
    let fifo = sandbox.path("go");
    let shell = format!("mkfifo go; {} grow.py < go", python());
    let running = sandbox.spawn(["run", "--", "sh", "-c", &shell]);
    let go = std::thread::spawn(move || {
        wait_until(DEADLINE, || fifo.exists());
        fs::File::options().write(true).open(fifo).unwrap()
    });
    running.wait_for_stdout("grown");
    let grown = |it: &Value| {
        let forked = it["peak_process_count"].as_u64() >= Some(3);
        forked && it["peak_tree_rss_bytes"].as_u64() > Some(290 << 20)
    };
    let during = wait_for_report(&sandbox, grown);
    assert_eq!(
        (&during["running"], &during["ended_at"]),
        (&Value::Bool(true), &Value::Null)
    );
    running.wait_for_stderr("RSS ");
    drop(go.join().unwrap()); // the end of its input is the sign to go on
    let output = running.wait(DEADLINE).exited(3);
    assert_eq!(output.stdout, "grown\n");
    let line = output
        .stderr
        .lines()
        .find(|it| it.contains("RSS "))
        .unwrap();
    assert!(
        line.starts_with("[taskscope] ") && line.contains("process"),
        "{line}"
    );
    assert!(
        output.stderr.contains("finished after "),
        "{}",
        output.stderr
    );

    is_whole(&sandbox);
}

/// Checks the report of the run above, and its page.
#[track_caller]
fn is_whole(sandbox: &Sandbox) {
    let report = report(sandbox);
    for field in SUMMARY {
        assert!(report.get(field).is_some(), "{field} is missing");
    }
    for field in SAMPLE {
        assert!(
            report["latest_sample"].get(field).is_some(),
            "{field} is missing"
        );
    }
    assert_eq!(
        (&report["running"], &report["error"]),
        (&Value::Bool(false), &"exit status 3".into())
    );
    assert!(number(&report["samples"]) > 3.0);
    let recent = report["recent_samples"].as_array().unwrap();
    assert!((1..=20).contains(&recent.len()), "{}", recent.len());
    let peak = &report["peaks"]["tree_rss_bytes"];
    assert!(
        number(&peak["holders"][0]["value"]) > f64::from(100 << 20),
        "{peak}"
    );
    assert_eq!(peak["is_partial"], false);
    assert!(!report["curve"].as_array().unwrap().is_empty());

    let page = sandbox.run(["report"]).success().stdout;
    assert!(
        page.contains("failed: exit status 3") && page.contains("RSS, sum of all"),
        "{page}"
    );
    assert!(page.contains("overcount"), "{page}");
}

#[test]
fn a_short_run_says_no_more_than_before() {
    let sandbox = sandbox();
    let output = sandbox.run(["run", "--", "true"]).success();
    let words = output.stderr;
    assert!(
        !words.contains("RSS") && !words.contains("finished"),
        "{words}"
    );
    assert_eq!(report(&sandbox)["error"], Value::Null);
}

#[test]
fn a_task_that_is_killed_has_a_whole_report() {
    let sandbox = quick("log-interval = \"off\"\n");
    let output = sandbox
        .run(["run", "--", "sh", "-c", "sleep 1; kill -KILL $$"])
        .killed_by(KILL);
    assert!(!output.stderr.contains("RSS "), "{}", output.stderr);
    let report = report(&sandbox);
    assert_eq!(report["error"], "signal 9");
    assert_eq!(report["running"], false);
    assert!(number(&report["samples"]) >= 1.0);
}

#[test]
fn what_a_killed_collector_left_is_read_to_its_last_segment() {
    let sandbox = sandbox();
    let settings = "[monitor]\ninterval = \"2ms\"\nlog-interval = \"100ms\"\n";
    sandbox.write("collector.toml", settings);
    let running = sandbox.spawn(["run", "--", "sleep", "1000"]);
    let segments = || {
        let store = sandbox.path(".taskscope");
        let found = folders(&store, "samples");
        let counts = found.iter().map(|it| fs::read_dir(it).unwrap().count());
        counts.sum::<usize>()
    };
    wait_until(DEADLINE, || segments() > 0);
    let before = wait_for_report(&sandbox, |it| it["samples"].as_u64() > Some(300));
    running.signal(KILL);
    wait_until(DEADLINE, || running.has_ended());
    let report = report(&sandbox);
    assert!(number(&report["samples"]) >= number(&before["samples"]));
    assert_eq!(report["running"], true, "nobody could say that it ended");
    let points = report["curve"].as_array().unwrap();
    let samples: f64 = points.iter().map(|it| number(&it["samples"])).sum();
    assert!(samples >= 300.0, "{samples}");
    let page = sandbox.run(["report"]).success().stdout;
    assert!(page.contains("running"), "{page}");
}

/// Every folder called `name` below `directory`, hidden ones apart.
fn folders(directory: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let inside = entries.filter(|it| it.path().is_dir());
    let visible = inside.filter(|it| !it.file_name().to_string_lossy().starts_with('.'));
    let found = visible.flat_map(|it| {
        let mut below = folders(&it.path(), name);
        below.extend((it.file_name() == name).then(|| it.path()));
        below
    });
    found.collect()
}

#[test]
fn a_held_gil_stops_no_sample() {
    let sandbox = quick("log-interval = \"100ms\"\nmax-samples = 2000\n");
    // `PyDLL` keeps the GIL during the call, which waits for us.
    let task = "import ctypes, os\n\
        os.mkfifo('go')\n\
        go, byte = os.open('go', os.O_RDWR), ctypes.create_string_buffer(1)\n\
        print('held', flush=True)\n\
        ctypes.PyDLL(None).read(go, byte, ctypes.c_size_t(1))\n\
        print('free', flush=True)\n";
    sandbox.write("hold.py", task);
    let running = sandbox.spawn(["run", "--", &python(), "hold.py"]);
    running.wait_for_stdout("held");
    let before = wait_for_report(&sandbox, |it| it["samples"].as_u64() > Some(0));
    let more = number(&before["samples"]) + 10.0;
    let after = wait_for_report(&sandbox, |it| number(&it["samples"]) >= more);
    assert!(
        !running.stdout().contains("free"),
        "samples went on while it was held: {}",
        after["samples"]
    );
    fs::write(sandbox.path("go"), "x").unwrap();
    running.wait(DEADLINE).success();
}

#[test]
fn a_stage_has_its_samples_a_line_at_its_end_and_a_row_in_the_report() {
    let sandbox = quick("");
    let program = binary();
    let task = format!("{} stage fit -- sleep 1.1; sleep 0.2", program.display());
    let output = sandbox.run(["run", "--", "sh", "-c", &task]).success();
    assert!(
        output.stderr.contains("completed fit ("),
        "{}",
        output.stderr
    );
    let report = report(&sandbox);
    let stage = &report["stages"][0];
    for field in STAGE {
        assert!(stage.get(field).is_some(), "{field} is missing");
    }
    assert_eq!(
        (&stage["name"], &stage["error"]),
        (&"fit".into(), &Value::Null)
    );
    assert!(number(&stage["samples"]) >= 1.0, "{stage}");
    assert!(stage["peak_tree_rss_bytes"].is_number(), "{stage}");
    assert_eq!(report["stage_totals"][0]["count"], 1);
    let page = sandbox.run(["report"]).success().stdout;
    assert!(
        page.contains("PEAK RSS") && page.contains("\nfit "),
        "{page}"
    );
}

#[test]
fn a_clock_that_stands_still_or_is_wrong_changes_no_duration() {
    let sandbox = quick("log-interval = \"100ms\"\nmax-samples = 1000\n");
    let arguments = ["--now", "2001-01-01T00:00:00Z", "run", "--", "sleep", "2"];
    sandbox.run(arguments).success();
    let report = report(&sandbox);
    assert_eq!(report["started_at"], "2001-01-01T00:00:00.000000Z");
    let recent = report["recent_samples"].as_array().unwrap();
    assert!(recent.iter().all(|it| it["at"] == report["started_at"]));
    let times: Vec<f64> = recent
        .iter()
        .map(|it| number(&it["elapsed_seconds"]))
        .collect();
    assert!(
        times.len() > 1 && times.is_sorted_by(|a, b| a < b),
        "{times:?}"
    );
}

#[test]
fn telemetry_is_written_in_the_form_of_the_viewer() {
    let sandbox = quick("");
    let sandbox = sandbox.environment("TASKSCOPE_RUN_DIRECTORY", "runs/task-000");
    sandbox
        .run(["run", "--", "sh", "-c", "sleep 3 & wait"])
        .success();
    let text = fs::read_to_string(sandbox.path("runs/task-000/telemetry.jsonl")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert!(lines.len() >= 2, "{text}");
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&lines[0]), ["machine", "processes", "ts"]);
    let machine = [
        "cpu_count",
        "cpu_percent",
        "gpus",
        "hostname",
        "limited",
        "load_avg",
        "mem_total",
        "mem_used",
    ];
    assert_eq!(keys(&lines[0]["machine"]), machine);
    let process = &lines[0]["processes"][0];
    let row = [
        "cmd",
        "cpu_percent",
        "create_time",
        "pid",
        "ppid",
        "rss_bytes",
        "status",
    ];
    assert_eq!(keys(process), row);
    assert_eq!(
        process["cpu_percent"],
        Value::Null,
        "the first reading is unknown"
    );
    assert!(
        lines[1]["processes"][0]["cpu_percent"].is_number(),
        "{text}"
    );
}

#[test]
fn a_stderr_that_nobody_empties_holds_up_no_end() {
    let sandbox = quick("log-interval = \"50ms\"\n");
    let (reader, writer) = std::io::pipe().unwrap();
    fill(&writer);
    let mut command = sandbox.command(["run", "--", "sh", "-c", "sleep 1; exit 4"]);
    let mut child = command.stderr(writer).spawn().unwrap();
    let mut status = None;
    wait_until(DEADLINE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(4));
    drop(reader);
    assert!(number(&report(&sandbox)["samples"]) > 1.0);
}

/// Writes into a pipe until it takes no more.
fn fill(writer: &std::io::PipeWriter) {
    use std::io::Write;
    rustix::io::ioctl_fionbio(writer, true).unwrap();
    let mut writer = writer;
    while writer.write(&[b'x'; 512]).is_ok() {}
    rustix::io::ioctl_fionbio(writer, false).unwrap();
}

#[test]
fn there_is_no_report_of_what_was_never_watched() {
    let sandbox = sandbox();
    let error = sandbox.run(["report"]).exited(1).stderr;
    assert!(error.contains("there is no store"), "{error}");
}
