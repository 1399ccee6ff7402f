//! Samples by hand, and what is said of them.

use model::{CgroupSample, Limit, MachineSample, ProcessId, ProcessSample, Sample, Timestamp};
use monitor::{About, Monitor};

use super::*;

pub(crate) fn id(pid: i32) -> ProcessId {
    ProcessId {
        pid,
        start_time_ticks: 0,
    }
}

pub(crate) fn about() -> About {
    About {
        clock_ticks_per_second: 100,
        collector_version: "0.0.0".to_owned(),
        detailed_memory: false,
        log_interval: Some(30.0),
        max_samples: 0,
        platform: "Linux".to_owned(),
        root: id(1),
        sample_interval: 1.0,
        started_at: Timestamp::from_microseconds(1_796_000_000_000_000).unwrap(),
        task: Task::new("train".parse().unwrap(), 0, "node", "host"),
    }
}

/// Two processes, of which one could not be read.
pub(crate) fn sample(elapsed_seconds: f64) -> Sample {
    let process = |pid, rss_bytes| ProcessSample {
        name: "python".to_owned(),
        rss_bytes,
        ..ProcessSample::of(id(pid))
    };
    Sample {
        at: about().started_at,
        cgroup: Some(CgroupSample {
            limit_bytes: Limit::At(4 << 30),
            limit_usage_bytes: Some(1 << 30),
            ..CgroupSample::default()
        }),
        cpu_ms: None,
        duration_ms: 0.0,
        elapsed_seconds,
        gaps: Vec::new(),
        gpus: Vec::new(),
        machine: MachineSample::default(),
        processes: vec![process(1, Some(3 << 20)), process(2, None)],
        root: id(1),
    }
}

#[test]
fn the_live_line_says_what_is_known_and_what_is_not() {
    let mut monitor = Monitor::new(about());
    let minute = Duration::from_secs(90);
    assert_eq!(line::live(&monitor, minute, ""), "1m30s · no sample yet");
    monitor.sample(sample(0.0), 0);
    let words = "1m30s · RSS 3.00 MiB of 1 of 2 processes, peak 3.00 MiB · limit 4.00 GiB (25 % used) · CPU unknown · 2 processes";
    assert_eq!(line::live(&monitor, minute, ""), words);
    let mut later = sample(2.0);
    later.processes[0].utime_ticks = 300;
    monitor.sample(later, 0);
    let ended: monitor::Stage = serde_json::from_value(serde_json::json!({
        "id": 0, "name": "fit\u{1b}[2J", "path": ["fit\u{1b}[2J"], "start_seconds": 0.0, "wall_seconds": 2.0
    }))
    .unwrap();
    let line = line::live(&monitor, minute, &line::stage(&ended, 2));
    assert!(
        line.starts_with("completed fit\\u{1b}[2J (2.0s) and 2 more stages · 1m30s · "),
        "{line}"
    );
    assert!(line.contains(" · CPU 150 % · "), "{line}");
    let finished = line::finished(&monitor, minute);
    assert_eq!(
        finished,
        "finished after 1m30s · peak RSS 3.00 MiB · CPU time 3.0s · up to 2 processes"
    );
}
