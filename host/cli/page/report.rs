//! A report as a page for a terminal.

mod peaks;
mod stages;

use std::fmt::Write as _;
use std::time::Duration;

use monitor::{GapTotal, Point, Report};

use super::table;
use super::{bold, code_words, count, red, safe, yellow};
use crate::ui::Ui;
use peaks::{peaks, value};
use stages::stages;

/// Things that could not be read, of those that are shown.
const MOST_GAPS: usize = 8;
/// A gap in the samples is worth a word when it is so many intervals long.
const LONG_GAP: f64 = 3.0;
/// Marks of a curve, from nothing to the highest value.
const MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the page of `report`, with the curves of its samples.
/// `ends` is what there is to say of how processes ended.
pub(crate) fn report(
    report: &Report,
    curve: &[Point],
    ends: &[String],
    other_nodes: &[String],
    ui: Ui,
) -> String {
    let mut page = heading(report, other_nodes, ui);
    page.push('\n');
    page.push_str(&peaks(report));
    page.push_str(&curves(curve, ui));
    page.push_str(&used(report));
    page.push_str(&stages(report, ui));
    if !ends.is_empty() {
        _ = writeln!(page, "\n{}", bold("ends", ui.color));
        for line in ends {
            _ = writeln!(page, "  {line}");
        }
    }
    page.push_str(&notes(report, ui));
    page
}

fn heading(report: &Report, other_nodes: &[String], ui: Ui) -> String {
    let task = &report.task;
    let state = match (&report.error, report.running) {
        (_, true) => "running".to_owned(),
        (Some(error), false) => red(&format!("failed: {}", safe(error)), ui.color),
        (None, false) => "finished".to_owned(),
    };
    let title = format!(
        "{} · attempt {} · node {}",
        safe(&task.pathspec.to_string()),
        task.attempt,
        safe(&task.node)
    );
    let mut page = format!("{} · {state}\n", bold(&title, ui.color));
    let end = match report.ended_at {
        Some(at) => format!("to {}", at.human()),
        None => format!("still watched at {}", report.updated_at.human()),
    };
    _ = writeln!(
        page,
        "watched for {} from {} {end} UTC · main process {} · {}",
        span(report.wall_seconds),
        report.started_at.human(),
        report.pid,
        safe(&report.platform)
    );
    if !other_nodes.is_empty() {
        let nodes: Vec<String> = other_nodes.iter().map(|node| safe(node)).collect();
        _ = writeln!(
            page,
            "other nodes of this attempt: {}; --node shows one",
            nodes.join(", ")
        );
    }
    page
}

fn curves(curve: &[Point], ui: Ui) -> String {
    if curve.len() < 2 {
        return String::new();
    }
    let float = |value: u64| {
        #[expect(clippy::cast_precision_loss, reason = "eight marks are shown")]
        let value = value as f64;
        value
    };
    let of = |get: &dyn Fn(&Point) -> Option<f64>| curve.iter().map(get).collect::<Vec<_>>();
    let rss = of(&|it| it.tree_rss_bytes.map(float));
    let cgroup = of(&|it| it.cgroup_memory_bytes.map(float));
    let cpu = of(&|it| it.cpu_percent);
    let processes = of(&|it| Some(float(it.process_count)));
    let mut page = String::from("\n");
    let lines = [
        ("RSS", rss, "tree_rss_bytes"),
        ("cgroup", cgroup, "cgroup_memory_bytes"),
        ("CPU", cpu, "cpu_percent"),
        ("processes", processes, "process_count"),
    ];
    for (words, values, name) in lines {
        let highest = values.iter().flatten().copied().fold(0.0, f64::max);
        if highest > 0.0 {
            let marks = marks(&values, highest, ui.width.saturating_sub(30));
            _ = writeln!(page, "{words:<9}  {marks}  {}", value(name, highest));
        }
    }
    let first = curve[0].elapsed_seconds;
    let last = curve[curve.len() - 1].elapsed_seconds;
    _ = writeln!(
        page,
        "{:<9}  from {} to {}, highest values on the right",
        "",
        span(first),
        span(last)
    );
    page
}

/// Returns a mark a value, blank where it is not known; the highest of neighbours where there are more than `width`.
fn marks(values: &[Option<f64>], highest: f64, width: usize) -> String {
    let each = values.len().div_ceil(width.max(1));
    let mark = |some: &[Option<f64>]| {
        let value = some.iter().flatten().copied().reduce(f64::max)?;
        let steps = MARKS.iter().enumerate().rev();
        let step = |at: usize| f64::from(u32::try_from(at).unwrap_or(0)) / 8.0 * highest;
        let mut reached = steps.filter(|(at, _)| value > step(*at));
        Some(reached.next().map_or(MARKS[0], |(_, mark)| *mark))
    };
    values
        .chunks(each)
        .map(|some| mark(some).unwrap_or(' '))
        .collect()
}

fn used(report: &Report) -> String {
    let Some(used) = report.statistics.used else {
        return String::new();
    };
    let mut parts = vec![format!("CPU time {}", span(used.cpu_seconds))];
    let bytes = |bytes: Option<u64>, word: &str| Some(format!("{word} {}", table::bytes(bytes?)));
    parts.extend(bytes(used.read_bytes, "read"));
    parts.extend(bytes(used.written_bytes, "written"));
    let faults = |number| count(number, "major fault", "major faults");
    parts.extend(used.major_faults.map(faults));
    let switches = used.voluntary_switches.zip(used.involuntary_switches);
    let switches = switches.map(|(asked, not)| asked.saturating_add(not));
    let words = |number| {
        count(
            number,
            "switch of a main thread",
            "switches of main threads",
        )
    };
    parts.extend(switches.map(words));
    format!(
        "\nused by the processes that were sampled: {}\n",
        parts.join(" · ")
    )
}

/// How much of it can be believed, and what it is not.
fn notes(report: &Report, ui: Ui) -> String {
    let statistics = &report.statistics;
    let mut page = format!(
        "\n{}, one every {}, {:.1} ms each on average",
        count(statistics.samples, "sample", "samples"),
        brief(report.sample_interval),
        report.sampling_seconds * 1e3 / whole(report.sampling_attempts.max(1))
    );
    if report.wall_seconds > 0.0 {
        let percent = report.sampling_cpu_seconds / report.wall_seconds * 100.0;
        _ = write!(page, " ({percent:.2} % of a core)");
    }
    page.push('\n');
    for words in doubts(report) {
        _ = writeln!(page, "{}", yellow(&words, ui.color));
    }
    if report.peaks.contains_key("tree_rss_bytes") {
        let pss = if report.detailed_memory {
            "; PSS is not"
        } else {
            "; `[monitor] detailed-memory` adds PSS, which is not"
        };
        _ = writeln!(
            page,
            "the sum of RSS is an overcount: a page that n processes share counts n times{pss}"
        );
    }
    for total in report.gap_totals.iter().take(MOST_GAPS) {
        _ = writeln!(page, "{}", gap_words(total));
    }
    if report.gap_totals.len() > MOST_GAPS {
        _ = writeln!(page, "and {} more", report.gap_totals.len() - MOST_GAPS);
    }
    page
}

fn doubts(report: &Report) -> Vec<String> {
    let mut doubts = Vec::new();
    let partial = report.statistics.partial_rss_samples;
    if partial > 0 {
        doubts.push(format!(
            "in {} the memory of a process could not be read",
            count(partial, "sample", "samples")
        ));
    }
    if let Some(gap) = report
        .max_sample_gap_seconds
        .filter(|&gap| gap > LONG_GAP * report.sample_interval)
    {
        doubts.push(format!(
            "the longest time without a sample was {}; what was higher in it is not known",
            span(gap)
        ));
    }
    for (trouble, words) in [
        (&report.sampling_errors, "sampling"),
        (&report.output_errors, "keeping what was sampled"),
    ] {
        if let Some(error) = &trouble.last_error {
            let times = count(trouble.count, "time", "times");
            doubts.push(format!("{words} failed {times}, last: {}", safe(error)));
        }
    }
    let trouble = &report.stage_trouble;
    for (number, words) in [
        (
            trouble.skipped,
            "not told: the collector did not read in time",
        ),
        (trouble.too_many, "not kept: too many were open"),
        (
            trouble.begun_twice,
            "not kept: another with the same id was open",
        ),
    ] {
        if number > 0 {
            doubts.push(format!(
                "{} {words}",
                count(number, "stage was", "stages were")
            ));
        }
    }
    if trouble.unmatched_ends > 0 {
        doubts.push(format!(
            "{} of a stage whose beginning is not known",
            count(trouble.unmatched_ends, "end was told", "ends were told")
        ));
    }
    doubts
}

fn gap_words(total: &GapTotal) -> String {
    let gap = &total.newest;
    let pids: Vec<String> = total
        .processes
        .iter()
        .map(|it| it.pid.to_string())
        .collect();
    let of = match pids.as_slice() {
        [] => String::new(),
        [pid] => format!(" of process {pid}"),
        // That is how many are named.
        [_, _, _, _, _] => format!(" of processes {} and perhaps others", pids.join(", ")),
        pids => format!(" of processes {}", pids.join(", ")),
    };
    let detail = gap
        .detail
        .as_ref()
        .map_or_else(String::new, |it| format!(": {}", safe(it)));
    format!(
        "not seen in {}: {}{of} ({}){detail}",
        count(total.samples, "sample", "samples"),
        safe(&gap.what),
        code_words(gap.code)
    )
}

fn span(seconds: f64) -> String {
    table::duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// The same, of what may be much shorter than a second.
fn brief(seconds: f64) -> String {
    match seconds {
        0.1.. => span(seconds),
        0.001.. => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an average is shown to a tenth")]
fn whole(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use model::{Gap, GapCode};
    use monitor::{Curve, Monitor, Segment};

    use super::*;
    use crate::sampling::tests::{about, id, sample};

    const UI: Ui = Ui {
        color: false,
        terminal: false,
        width: 80,
    };

    #[test]
    fn a_report_begins_with_what_matters_and_ends_with_what_is_not_known() {
        let mut monitor = Monitor::new(about());
        let samples: Vec<_> = (0..9_u32)
            .map(|second| {
                let mut sample = sample(f64::from(second));
                let rss = u64::from(second.min(6) + 1) << 20;
                sample.processes[0].rss_bytes = Some(rss);
                sample.processes[0].utime_ticks = 50 * u64::from(second);
                sample.duration_ms = 2.0;
                let gap = Gap::new("io", GapCode::Denied).of(id(2));
                let gap = gap.with_detail("\u{1b}[2J");
                sample.gaps.extend((second == 3).then_some(gap));
                sample
            })
            .collect();
        for sample in &samples {
            monitor.sample(sample.clone(), 0);
        }
        monitor.failed("no room".to_owned(), about().started_at);
        monitor.end(
            about().started_at.after(Duration::from_secs(9)),
            Some("signal 9".to_owned()),
        );
        let mut curve = Curve::new(20);
        curve.add(&Segment::of(&samples, about().task, 100).unwrap());
        let report = monitor.report(about().started_at, 9.0);
        let others = vec!["other".to_owned()];
        let page = super::report(&report, &curve.finish(), &[], &others, UI);
        insta::assert_snapshot!(page, @"
        train · attempt 0 · node node · failed: signal 9
        watched for 9.0s from 2026-11-30 00:53:20 to 2026-11-30 00:53:29 UTC · main process 1 · Linux
        other nodes of this attempt: other; --node shows one

                         LATEST    PEAK              AT    MADE BY
        RSS, sum of all  7.00 MiB  7.00 MiB or more  6.0s  python 1 (7.00 MiB)
        CPU              50 %      50 %              1.0s  python 1 (50 %)
        processes        2         2                 0.0s
        threads          2         2                 0.0s  python 1 (1), python 2 (1)
        memory limit 4.00 GiB, of which 1.00 GiB are used (25 %), set by a cgroup that is not visible here

        RSS        ▂▃▄▅▆▇███  7.00 MiB
        CPU         ████████  50 %
        processes  █████████  2
                   from 0.0s to 8.0s, highest values on the right

        used by the processes that were sampled: CPU time 4.0s

        9 samples, one every 1.0s, 1.8 ms each on average (0.00 % of a core)
        in 9 samples the memory of a process could not be read
        sampling failed 1 time, last: no room
        the sum of RSS is an overcount: a page that n processes share counts n times; `[monitor] detailed-memory` adds PSS, which is not
        not seen in 1 sample: io of process 2 (denied): \\u{1b}[2J
        ");
    }

    #[test]
    fn a_run_without_a_sample_says_so() {
        let monitor = Monitor::new(about());
        let page = super::report(&monitor.report(about().started_at, 0.0), &[], &[], &[], UI);
        assert!(
            page.contains("no sample yet") && page.contains("running"),
            "{page}"
        );
    }

    #[test]
    fn a_curve_is_blank_where_nothing_is_known() {
        let values = [Some(0.0), None, Some(50.0), Some(100.0)];
        assert_eq!(marks(&values, 100.0, 10), "▁ ▄█");
        assert_eq!(marks(&values, 100.0, 2), "▁█");
    }
}
