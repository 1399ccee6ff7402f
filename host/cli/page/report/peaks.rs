//! The measures of a report, each with its latest value and its peak.

use model::Limit;
use monitor::{NO_STAGE, Peak, Reading, Report};

use super::span;
use crate::page::table::{self, align};
use crate::page::{count, safe};

/// Processes that are named with a peak.
const MOST_HOLDERS: usize = 2;

/// The measures as a table.
pub(super) fn peaks(report: &Report) -> String {
    let head = ["", "LATEST", "PEAK", "AT", "STAGE", "MADE BY"].map(str::to_owned);
    let mut rows = vec![head];
    let latest = report.latest_sample.as_ref();
    for (words, name, now) in measures(latest) {
        let Some(peak) = report
            .peaks
            .get(name)
            .filter(|peak| peak.value > 0.0 || now.is_some())
        else {
            continue;
        };
        if name == "tree_swap_bytes" && peak.value == 0.0 {
            continue;
        }
        // What was not walked later may have been more.
        let is_share = matches!(name, "tree_pss_bytes" | "tree_uss_bytes");
        let mut gaps = report.gap_totals.iter();
        let is_partial =
            peak.is_partial || is_share && gaps.any(|it| it.newest.what == "smaps_rollup");
        let mark = if is_partial { " or more" } else { "" };
        rows.push([
            words.to_owned(),
            now.unwrap_or_else(|| "-".to_owned()),
            value(name, peak.value) + mark,
            span(peak.elapsed_seconds),
            safe(&peak.stage),
            made_by(name, peak, latest),
        ]);
    }
    let has_stages = rows[1..].iter().any(|row| row[4] != NO_STAGE);
    let mut page = if has_stages {
        align(&rows)
    } else {
        let without =
            |[words, now, peak, at, _, made_by]: [String; 6]| [words, now, peak, at, made_by];
        align(&rows.into_iter().map(without).collect::<Vec<_>>())
    };
    if report.peaks.is_empty() {
        "no sample yet\n".clone_into(&mut page);
    }
    if let Some(words) = latest.and_then(limit) {
        page.push_str(&words);
        page.push('\n');
    }
    page
}

/// The measures in words and by name, each with its latest value where one is known.
fn measures(latest: Option<&Reading>) -> [(&'static str, &'static str, Option<String>); 9] {
    let bytes = |of: fn(&Reading) -> Option<u64>| latest.and_then(of).map(table::bytes);
    let plain = |of: fn(&Reading) -> u64| latest.map(|it| of(it).to_string());
    [
        (
            "RSS, sum of all",
            "tree_rss_bytes",
            bytes(|it| it.tree_rss_bytes),
        ),
        (
            "PSS, sum of all",
            "tree_pss_bytes",
            bytes(|it| it.tree_pss_bytes),
        ),
        (
            "USS, sum of all",
            "tree_uss_bytes",
            bytes(|it| it.tree_uss_bytes),
        ),
        (
            "swapped out",
            "tree_swap_bytes",
            bytes(|it| it.tree_swap_bytes),
        ),
        (
            "cgroup memory",
            "cgroup_memory_bytes",
            bytes(|it| it.cgroup.as_ref()?.usage_bytes),
        ),
        ("GPU memory", "gpu_memory_bytes", None),
        (
            "CPU",
            "cpu_percent",
            latest
                .and_then(|it| it.cpu_percent)
                .map(|it| format!("{it:.0} %")),
        ),
        ("processes", "process_count", plain(|it| it.process_count)),
        ("threads", "thread_count", plain(|it| it.thread_count)),
    ]
}

fn limit(reading: &Reading) -> Option<String> {
    let cgroup = reading.cgroup.as_ref()?;
    let Limit::At(limit) = cgroup.limit_bytes else {
        return None;
    };
    let path = cgroup.limit_path.as_ref().map_or_else(
        || "a cgroup that is not visible here".to_owned(),
        |path| safe(path),
    );
    let used = cgroup.limit_usage_bytes.map_or_else(String::new, |usage| {
        let percent = u128::from(usage) * 100 / u128::from(limit.max(1));
        format!(", of which {} are used ({percent} %)", table::bytes(usage))
    });
    let kills = match cgroup.oom_kills {
        Some(kills @ 1..) => format!(
            "; {} for it",
            count(kills, "process was killed", "processes were killed")
        ),
        _ => String::new(),
    };
    Some(format!(
        "memory limit {}{used}, set by {path}{kills}",
        table::bytes(limit)
    ))
}

/// Who made a peak: of the cgroup, which may hold others than the task, its path.
fn made_by(name: &str, peak: &Peak, latest: Option<&Reading>) -> String {
    if name == "cgroup_memory_bytes" {
        let path = latest.and_then(|it| it.cgroup.as_ref()?.path.as_deref());
        return path.map_or_else(String::new, |path| {
            format!("all in {}, page cache too", safe(path))
        });
    }
    let shown = peak.holders.iter().take(MOST_HOLDERS);
    let words = shown.map(|it| {
        format!(
            "{} {} ({})",
            safe(&it.name),
            it.identity.pid,
            value(name, it.value)
        )
    });
    let words: Vec<String> = words.collect();
    words.join(", ")
}

/// A number in the unit that the name of its measure ends with.
pub(super) fn value(name: &str, value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a peak is neither negative nor 2^64"
    )]
    let whole = value as u64;
    if name.ends_with("_bytes") {
        table::bytes(whole)
    } else if name.ends_with("_percent") {
        format!("{value:.0} %")
    } else {
        whole.to_string()
    }
}
