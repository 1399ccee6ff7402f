//! The live line, in words.

use std::time::Duration;

use model::{CgroupSample, Limit};
use monitor::{Monitor, NO_STAGE, Reading, Stage, path_text};

use crate::page::{count, safe, table};

/// Between the parts of a line.
const BETWEEN: &str = " · ";

/// Returns what goes on now. `what` says what just happened, in words that end with the separator or are empty.
pub(super) fn live(monitor: &Monitor, elapsed: Duration, what: &str) -> String {
    let mut parts = vec![format!("{what}{}", table::duration(elapsed))];
    let Some(reading) = monitor.latest() else {
        parts.push("no sample yet".to_owned());
        return parts.join(BETWEEN);
    };
    if reading.stage != NO_STAGE {
        parts.push(format!("in {}", safe(&reading.stage)));
    }
    parts.push(memory(reading, monitor.statistics().peak_tree_rss_bytes));
    parts.extend(reading.cgroup.as_ref().and_then(limit));
    parts.push(match reading.cpu_percent {
        Some(percent) => format!("CPU {percent:.0} %"),
        None => "CPU unknown".to_owned(),
    });
    parts.push(count(reading.process_count, "process", "processes"));
    parts.join(BETWEEN)
}

/// Returns that `stage` ended, and that `more` have ended since the last line.
pub(super) fn stage(stage: &Stage, more: usize) -> String {
    let took = table::duration(Duration::try_from_secs_f64(stage.wall_seconds).unwrap_or_default());
    let path = safe(&path_text(&stage.path));
    let words = match &stage.error {
        Some(error) => format!("failed {path} ({took}, {})", safe(error)),
        None => format!("completed {path} ({took})"),
    };
    match more {
        0 => format!("{words}{BETWEEN}"),
        more => format!(
            "{words} and {}{BETWEEN}",
            count(more, "more stage", "more stages")
        ),
    }
}

/// Returns what the whole run came to.
pub(super) fn finished(monitor: &Monitor, elapsed: Duration) -> String {
    let statistics = monitor.statistics();
    let mut parts = vec![format!("finished after {}", table::duration(elapsed))];
    if let Some(peak) = statistics.peak_tree_rss_bytes {
        parts.push(format!("peak RSS {}", table::bytes(peak)));
    }
    if let Some(peak) = statistics.peak_cgroup_memory_bytes {
        parts.push(format!("peak of its cgroup {}", table::bytes(peak)));
    }
    if let Some(used) = statistics.used {
        let cpu = Duration::from_secs_f64(used.cpu_seconds.max(0.0));
        parts.push(format!("CPU time {}", table::duration(cpu)));
    }
    if let Some(peak) = statistics.peak_process_count {
        parts.push(format!("up to {}", count(peak, "process", "processes")));
    }
    parts.join(BETWEEN)
}

fn memory(reading: &Reading, peak: Option<u64>) -> String {
    let Some(rss) = reading.tree_rss_bytes else {
        return "RSS unknown".to_owned();
    };
    let coverage = if reading.rss_complete {
        String::new()
    } else {
        format!(
            " of {} of {}",
            reading.rss_processes,
            count(reading.process_count, "process", "processes")
        )
    };
    let peak = peak.map_or_else(String::new, |peak| format!(", peak {}", table::bytes(peak)));
    format!("RSS {}{coverage}{peak}", table::bytes(rss))
}

fn limit(cgroup: &CgroupSample) -> Option<String> {
    let Limit::At(limit) = cgroup.limit_bytes else {
        return None;
    };
    let usage = cgroup.limit_usage_bytes.or(cgroup.usage_bytes)?;
    let percent = u128::from(usage) * 100 / u128::from(limit.max(1));
    Some(format!("limit {} ({percent} % used)", table::bytes(limit)))
}
