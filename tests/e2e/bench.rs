//! The benches still work; what they measure here is no figure.

use std::path::Path;
use std::time::Duration;

use testkit::Sandbox;

use crate::support::{binary, cache, sandbox};

/// Runs a bench on the program as it was built for tests; returns its table.
#[track_caller]
fn table(bench: &str, options: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/");
    let (script, program) = (script.join(bench), binary());
    drop(sandbox()); // plugins are compiled from here on
    let python = Sandbox::new(Path::new("python3"))
        .environment("PYTHONDONTWRITEBYTECODE", "1")
        .environment("XDG_CACHE_HOME", cache().to_str().unwrap());
    let common = [
        script.to_str().unwrap(),
        "--binary",
        program.to_str().unwrap(),
    ];
    let shortest = ["--cycles", "1", "--interval", "0.5"];
    let arguments = common.iter().chain(&shortest).chain(options);
    let output = python.run(arguments).success();
    let rows = output.stdout.lines().skip(2);
    rows.map(str::to_owned).collect()
}

#[test]
fn the_bench_of_a_cycle_counts_one_that_left_nothing_out() {
    let rows = table("cycle.py", &["--n", "2", "--wake", "0.5", "--quick"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(
        rows[0].starts_with("| 2 | 0.5 | taskscope without plugins | "),
        "{rows:?}"
    );
}

#[test]
fn the_bench_of_scale_asks_two_things_of_each_node() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/scale.py");
    let program = binary();
    // Cargo builds examples with tests.
    let maker = program.with_file_name("examples").join("scale");
    let python = Sandbox::new(Path::new("python3"))
        .deadline(Duration::from_mins(3))
        .environment("PYTHONDONTWRITEBYTECODE", "1");
    let (binary, maker) = (program.to_str().unwrap(), maker.to_str().unwrap());
    let size = ["--nodes", "5", "--snapshots", "1100", "--days", "0"];
    let arguments = [
        script.to_str().unwrap(),
        "--binary",
        binary,
        "--maker",
        maker,
    ];
    let output = python.run(arguments.iter().chain(&size)).success();
    let rows: Vec<&str> = output.stdout.lines().collect();
    assert!(rows[2].starts_with("| 5 | 1100 | "), "{output}");
    assert!(rows[2].ends_with("| 10 | 2.00 |"), "{output}");
    assert!(output.stdout.contains("| day | snapshots | "), "{output}");
}

#[test]
fn the_bench_of_the_start_has_a_row_for_each_command() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/start.py");
    let program = binary();
    drop(sandbox()); // plugins are compiled from here on
    let python = Sandbox::new(Path::new("python3"))
        .environment("PYTHONDONTWRITEBYTECODE", "1")
        .environment("XDG_CACHE_HOME", cache().to_str().unwrap());
    let binary = program.to_str().unwrap();
    let arguments = [script.to_str().unwrap(), "--binary", binary, "--runs", "2"];
    let output = python.run(arguments).success();
    let has_row = |name: &str| output.stdout.contains(&format!("| {name} | 2 | "));
    assert!(has_row("bare") && has_row("taskscope run"), "{output}");
}

#[test]
fn the_bench_of_growth_has_a_row_for_each_size() {
    let rows = table("linear.py", &["--n", "2", "--open", "8"]);
    assert!(rows[0].starts_with("| processes | 2 | "), "{rows:?}");
    assert!(rows[1].starts_with("| descriptors | 8 | "), "{rows:?}");
}

#[test]
fn the_bench_of_the_step_clock_tells_each_rank_s_rate() {
    let rows = table("steps.py", &["--seconds", "3", "--error", "1000"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    // The slow one among eight is seen; how right the rates are on a quiet machine is for the bench to say.
    assert!(rows[0].contains(" | 8 | "), "{rows:?}");
}

#[test]
fn the_bench_of_mapping_counts_pages_within_the_budget_alone() {
    let rows = table(
        "mapping.py",
        &["--mib", "64", "--pairs", "1", "--seconds", "0.5"],
    );
    let names = [
        "| nobody | 64 | 1 | ",
        "| taskscope | 64 | 1 | ",
        "| taskscope, PSS counted | ",
    ];
    assert_eq!(rows.len(), names.len(), "{rows:?}");
    // Whether pages were counted the bench looks at itself.
    assert!(
        rows.iter()
            .zip(names)
            .all(|(row, name)| row.starts_with(name)),
        "{rows:?}"
    );
}

#[test]
fn the_bench_of_stages_tells_what_one_costs() {
    let rows = table("stage.py", &["--stages", "200"]);
    let names = [
        "| floor: two sends | 200 | ",
        "| a stage | 200 | ",
        "| stages without a pause | 200 | ",
        "| without a collector | 200 | ",
    ];
    assert_eq!(rows.len(), names.len(), "{rows:?}");
    assert!(
        rows.iter()
            .zip(names)
            .all(|(row, name)| row.starts_with(name)),
        "{rows:?}"
    );
}

#[test]
fn the_bench_of_a_day_weighs_the_samples_of_a_few_seconds() {
    let rows = table("day.py", &["--n", "2", "--seconds", "3"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].starts_with("| 2 | "), "{rows:?}");
    assert!(!rows[0].starts_with("| 2 | 0 | "), "{rows:?}");
}

#[test]
fn the_bench_of_stalls_tells_what_was_added() {
    let rows = table(
        "stall.py",
        &["--threads", "8", "--runs", "1", "--seconds", "1", "--quick"],
    );
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[1].starts_with("| taskscope | 1 | "), "{rows:?}");
}

#[test]
fn the_bench_of_why_finds_the_straggler() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/why.py");
    let judge = binary().with_file_name("examples").join("judge");
    let python = Sandbox::new(Path::new("python3")).environment("PYTHONDONTWRITEBYTECODE", "1");
    let (script, judge) = (script.to_str().unwrap(), judge.to_str().unwrap());
    let arguments = [script, "--judge", judge, "--rows", "2", "--ranks", "70"];
    let output = python.run(arguments).success();
    let rows: Vec<&str> = output.stdout.lines().skip(2).collect();
    // It waits for what no thread of its own can give: two intervals show that.
    for (row, snapshots) in rows.iter().zip([3, 7]) {
        let begin = format!("| 70 | 8 | 40 | {snapshots} | ");
        assert!(
            row.starts_with(&begin) && row.ends_with("| found |"),
            "{output}"
        );
    }
    assert_eq!(rows.len(), 2, "{output}");
}
