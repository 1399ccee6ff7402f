//! Samples by hand, and what they fold to.

use model::{Gap, GapCode, ProcessId, ProcessSample, Sample, Task, TaskPath, Timestamp};

use crate::{About, Monitor};

/// Returns the identity of a process.
pub(crate) fn id(pid: i32) -> ProcessId {
    ProcessId {
        pid,
        start_time_ticks: 7,
    }
}

/// Returns a monitor of process 1.
pub(crate) fn monitor() -> Monitor {
    let path: TaskPath = "train".parse().unwrap();
    Monitor::new(About {
        clock_ticks_per_second: 100,
        collector_version: "1.2.3".to_owned(),
        detailed_memory: false,
        log_interval: Some(30.0),
        max_samples: 3,
        platform: "Linux-6.1.0-x86_64".to_owned(),
        root: id(1),
        sample_interval: 1.0,
        started_at: Timestamp::parse("2026-11-29T14:40:57Z").unwrap(),
        task: Task::new(path, 0, "node", "host"),
    })
}

/// Returns a sample `elapsed_seconds` after the start of processes with so many bytes of RSS; 0 stands for "could not be read".
pub(crate) fn sample(elapsed_seconds: f64, processes: &[(i32, u64)]) -> Sample {
    let started_at = monitor().about.started_at;
    let process = |&(pid, rss): &(i32, u64)| ProcessSample {
        name: format!("p{pid}"),
        rss_bytes: (rss > 0).then_some(rss),
        ..ProcessSample::of(id(pid))
    };
    Sample {
        at: started_at.after(std::time::Duration::from_secs_f64(elapsed_seconds)),
        cgroup: None,
        cpu_ms: Some(1.0),
        duration_ms: 2.0,
        elapsed_seconds,
        gaps: Vec::new(),
        gpus: Vec::new(),
        machine: model::MachineSample::default(),
        processes: processes.iter().map(process).collect(),
        root: id(1),
    }
}

#[test]
fn the_first_cpu_reading_of_a_process_is_unknown_and_not_zero() {
    let mut monitor = monitor();
    let reading = monitor.sample(sample(0.0, &[(1, 10)]), 0);
    assert_eq!((reading.cpu_percent, reading.cpu_processes), (None, 0));
    let mut second = sample(2.0, &[(1, 10), (2, 10)]);
    second.processes[0].utime_ticks = 100;
    second.processes[1].utime_ticks = 30; // began since: no rate of its own, but used
    let reading = monitor.sample(second, 0);
    assert_eq!(
        (reading.cpu_percent, reading.cpu_processes),
        (Some(50.0), 1)
    );
    assert!((reading.used.unwrap().cpu_seconds - 1.3).abs() < 1e-9);
}

#[test]
fn a_partial_sample_is_counted_and_marks_its_peak() {
    let mut monitor = monitor();
    monitor.sample(sample(0.0, &[(1, 100), (2, 50)]), 0);
    monitor.sample(sample(1.0, &[(1, 200), (2, 0)]), 0);
    let report = monitor.report(monitor.about.started_at, 1.0);
    assert_eq!(report.statistics.partial_rss_samples, 1);
    let peak = &report.peaks["tree_rss_bytes"];
    assert!(peak.is_partial);
    assert_eq!((peak.holders[0].identity, peak.holders.len()), (id(1), 1));
    assert_eq!(report.peak_rss_elapsed_seconds, Some(1.0));
}

#[test]
fn who_has_ended_has_no_memory_and_is_not_missing() {
    for state in ['Z', 'X'] {
        let mut monitor = monitor();
        let mut ended = sample(0.0, &[(1, 100), (2, 0)]);
        ended.processes[1].state = state;
        let reading = monitor.sample(ended, 0);
        assert!(reading.rss_complete, "{state}");
        assert_eq!(reading.rss_processes, 2);
    }
}

#[test]
fn errors_heal_and_are_counted() {
    let mut monitor = monitor();
    let at = monitor.about.started_at;
    monitor.failed("no room".to_owned(), at);
    monitor.lost(3, Some("disk full".to_owned()), at);
    let report = monitor.report(at, 0.0);
    assert_eq!(report.sampling_error.as_deref(), Some("no room"));
    assert_eq!(report.output_error.as_deref(), Some("disk full"));
    monitor.sample(sample(1.0, &[(1, 1)]), 4);
    monitor.lost(3, Some("disk full".to_owned()), at);
    let report = monitor.report(at, 1.0);
    assert_eq!(
        (&report.sampling_error, &report.output_error),
        (&None, &None)
    );
    assert_eq!(
        (report.sampling_errors.count, report.output_errors.count),
        (1, 3)
    );
    assert_eq!((report.sampling_attempts, report.missed_samples), (2, 4));
    assert_eq!(report.statistics.samples, 1);
}

#[test]
fn what_was_not_read_is_told_after_those_who_had_it_have_ended() {
    let mut monitor = monitor();
    let gap = |pid| Gap::new("smaps_rollup", GapCode::Skipped).of(id(pid));
    let mut large = sample(0.0, &[(1, 1), (2, 1)]);
    large.gaps = vec![gap(1), gap(2), Gap::new("gpus", GapCode::TimedOut)];
    monitor.sample(large, 0);
    let mut one = sample(1.0, &[(1, 1), (2, 1)]);
    one.gaps = vec![gap(2)];
    monitor.sample(one, 0);
    monitor.sample(sample(2.0, &[(1, 1)]), 0);
    let report = monitor.report(monitor.about.started_at, 2.0);
    assert!(report.gaps.is_empty());
    let totals = report.gap_totals.iter();
    let totals: Vec<_> = totals
        .map(|it| (it.newest.what.as_str(), it.samples, it.processes.len()))
        .collect();
    assert_eq!(totals, [("gpus", 1, 0), ("smaps_rollup", 2, 2)]);
    assert_eq!(report.gap_totals[1].last_at, sample(1.0, &[]).at);
}

#[test]
fn the_newest_samples_are_kept_and_no_more() {
    let mut monitor = monitor();
    for second in 0..10_u32 {
        monitor.sample(sample(f64::from(second), &[(1, 1)]), 0);
    }
    let kept: Vec<f64> = monitor
        .report(monitor.about.started_at, 10.0)
        .recent_samples
        .iter()
        .map(|reading| reading.elapsed_seconds)
        .collect();
    assert_eq!(kept, [7.0, 8.0, 9.0]);
}
