//! Lines of telemetry: when they are written, what is not known in them, and that they are bounded.

use model::{MachineSample, Timestamp};
use serde_json::Value;

use super::*;
use crate::sampling::tests::{about, id, sample};

fn lines(directory: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(directory.join(name)).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn write(telemetry: &Telemetry, second: u32, ticks: u64) {
    let mut sample = sample(f64::from(second));
    sample.machine = MachineSample {
        memory_total_bytes: Some(1000),
        memory_available_bytes: Some(400),
        uptime_seconds: Some(50.0),
        ..MachineSample::default()
    };
    sample.processes[0].utime_ticks = ticks;
    let reading = Reading::of(&sample, None, 100, String::new());
    telemetry.write(&sample, &reading, Duration::from_secs(second.into()));
}

#[test]
fn a_line_is_written_every_two_seconds_and_the_first_cpu_figure_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("runs/1");
    let telemetry = Telemetry::new(&run, &about());
    for second in 0..5 {
        write(&telemetry, second, u64::from(second) * 50);
    }
    let lines = lines(&run, NAME);
    let percents: Vec<&Value> = lines
        .iter()
        .map(|it| &it["processes"][0]["cpu_percent"])
        .collect();
    assert_eq!(percents, [&Value::Null, &50.0.into(), &50.0.into()]);
    assert_eq!(lines[0]["machine"]["mem_used"], 600);
    assert_eq!(lines[0]["machine"]["limited"], false);
    let row = &lines[0]["processes"][0];
    assert_eq!(
        (&row["cmd"], &row["status"], &row["pid"]),
        (&"python".into(), &"sleeping".into(), &id(1).pid.into())
    );
    let boot = sample(0.0).at.as_microseconds() / 1_000_000 - 50;
    assert_eq!(row["create_time"], f64::from(i32::try_from(boot).unwrap()));
}

#[test]
fn a_large_file_makes_room_for_another_and_both_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    fs::write(&path, vec![b'\n'; usize::try_from(MOST_BYTES).unwrap() + 1]).unwrap();
    let telemetry = Telemetry::new(directory.path(), &about());
    write(&telemetry, 0, 0);
    assert_eq!(lines(directory.path(), NAME).len(), 1);
    let old = fs::metadata(directory.path().join("telemetry.jsonl.1")).unwrap();
    assert!(old.len() > MOST_BYTES);
}

#[test]
fn a_directory_that_cannot_be_written_costs_nothing_and_heals() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    fs::write(&run, "a file").unwrap();
    let telemetry = Telemetry::new(&run, &about());
    write(&telemetry, 0, 0);
    assert!(telemetry.state().in_trouble);
    fs::remove_file(&run).unwrap();
    write(&telemetry, 2, 0);
    assert!(!telemetry.state().in_trouble);
    assert_eq!(lines(&run, NAME).len(), 1);
}

#[test]
fn every_state_has_a_word() {
    assert_eq!(
        [status('D'), status('Z'), status('?')],
        ["disk-sleep", "zombie", "unknown"]
    );
    assert_eq!(
        seconds(Timestamp::from_microseconds(1_500_000).unwrap()).to_bits(),
        1.5_f64.to_bits()
    );
}
