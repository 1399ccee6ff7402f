//! The stages of a report: each by itself where they are few, else those of one path together.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use monitor::{Report, Stage, StageTotal, Statistics, path_text};

use super::{brief, span, whole};
use crate::page::table::{self, align};
use crate::page::text::cut;
use crate::page::{count, red, safe};
use crate::ui::Ui;

/// So many rows there are at most, and so many open stages beside totals.
const MOST_ROWS: usize = 40;
const MOST_OPEN: usize = 5;

/// Returns the table of stages; nothing where there are none.
pub(super) fn stages(report: &Report, ui: Ui) -> String {
    if report.stages.is_empty() {
        return String::new();
    }
    let ended: u64 = report.stage_totals.iter().map(|it| it.count).sum();
    let is_open = |it: &&Stage| it.ended_by.is_none();
    let all = ended + report.stages.iter().filter(is_open).count() as u64;
    if all <= MOST_ROWS as u64 {
        one_by_one(&report.stages, ui)
    } else {
        by_path(report, ui)
    }
}

fn one_by_one(stages: &[Stage], ui: Ui) -> String {
    let head = [
        "STAGE",
        "TOOK",
        "CPU",
        "PEAK RSS",
        "PROCESSES",
        "SAMPLES",
        "",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(stages.iter().map(|stage| row(stage, stages, ui)));
    format!("\n{}", align(&rows))
}

fn row(stage: &Stage, stages: &[Stage], ui: Ui) -> [String; 7] {
    let mut depth = 0;
    let mut parent = stage.parent_id;
    while let Some(id) = parent.filter(|_| depth < 20) {
        depth += 1;
        let outer = stages.iter().find(|it| it.id == id);
        parent = outer.and_then(|it| it.parent_id);
    }
    let end = match (&stage.error, stage.ended_at) {
        (Some(error), _) => red(&safe(error), ui.color),
        (None, None) => "open".to_owned(),
        (None, Some(_)) => String::new(),
    };
    let [cpu, rss, processes] = of_samples(&stage.statistics);
    [
        indented(depth, &stage.name),
        brief(stage.wall_seconds),
        cpu,
        rss,
        processes,
        stage.statistics.samples.to_string(),
        end,
    ]
}

/// Returns what the samples within come to, in words: CPU time, peak of RSS and of processes.
fn of_samples(statistics: &Statistics) -> [String; 3] {
    let cpu = statistics.used.map(|used| span(used.cpu_seconds));
    let rss = statistics.peak_tree_rss_bytes.map(table::bytes);
    let processes = statistics.peak_process_count.map(|it| it.to_string());
    [cpu, rss, processes].map(|words| words.unwrap_or_else(|| "-".to_owned()))
}

fn indented(depth: usize, name: &str) -> String {
    format!("{}{}", "  ".repeat(depth), cut(&safe(name), 40))
}

fn by_path(report: &Report, ui: Ui) -> String {
    let totals = &report.stage_totals;
    let shown = &totals[..totals.len().min(MOST_ROWS)];
    let head = [
        "STAGE",
        "ENDED",
        "IN ALL",
        "MEAN",
        "LONGEST",
        "CPU",
        "PEAK RSS",
        "PROCESSES",
        "",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(
        tree(shown)
            .into_iter()
            .map(|path| total_row(path, shown, ui)),
    );
    rows.extend(
        shown
            .iter()
            .filter(|it| it.path.is_empty())
            .map(|it| total_row(&[], std::slice::from_ref(it), ui)),
    );
    let mut page = format!("\n{}", align(&rows));
    if totals.len() > shown.len() {
        let more = count((totals.len() - shown.len()) as u64, "path", "paths");
        _ = writeln!(page, "and {more} more of less time; --json has all");
    }
    let open: Vec<&Stage> = report
        .stages
        .iter()
        .filter(|it| it.ended_by.is_none())
        .collect();
    for stage in open.iter().rev().take(MOST_OPEN).rev() {
        let path = safe(&path_text(&stage.path));
        _ = writeln!(page, "open: {path} for {}", brief(stage.wall_seconds));
    }
    page
}

/// Returns the paths of `totals` and those that they lie in: inner ones behind their outer one, those of most time first.
fn tree(totals: &[StageTotal]) -> Vec<&[String]> {
    let whole = totals.iter().map(|it| it.path.as_slice());
    let all: BTreeSet<&[String]> = whole
        .flat_map(|path| (1..=path.len()).map(|depth| &path[..depth]))
        .collect();
    let weight = |path: &[String]| {
        let within = totals.iter().filter(|it| it.path.starts_with(path));
        within.map(|it| it.total_seconds).fold(0.0, f64::max)
    };
    let mut paths: Vec<&[String]> = all.into_iter().collect();
    paths.sort_by(|a, b| {
        let depths = 1..=a.len().min(b.len());
        let mut forks = depths.filter(|&depth| a[..depth] != b[..depth]);
        match forks.next() {
            Some(depth) => weight(&b[..depth])
                .total_cmp(&weight(&a[..depth]))
                .then_with(|| a.cmp(b)),
            None => a.len().cmp(&b.len()),
        }
    });
    paths
}

fn total_row(path: &[String], totals: &[StageTotal], ui: Ui) -> [String; 9] {
    let name = match path.last() {
        Some(name) => indented(path.len() - 1, name),
        None => "all of further paths".to_owned(),
    };
    let Some(total) = totals.iter().find(|it| it.path == path) else {
        // It is open still: what lies in it has ended.
        let [ended, all, mean, longest, cpu, rss, processes, end] = Default::default();
        return [name, ended, all, mean, longest, cpu, rss, processes, end];
    };
    let [cpu, rss, processes] = of_samples(&total.statistics);
    let failed = match total.errors {
        0 => String::new(),
        errors => red(&format!("{errors} failed"), ui.color),
    };
    [
        name,
        total.count.to_string(),
        brief(total.total_seconds),
        brief(total.total_seconds / whole(total.count.max(1))),
        brief(total.max_seconds),
        cpu,
        rss,
        processes,
        failed,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor::Monitor;
    use serde_json::json;

    use crate::sampling::tests::about;

    const UI: Ui = Ui {
        color: false,
        terminal: false,
        width: 80,
    };

    fn total(path: &[&str], count: u64, seconds: f64, errors: u64) -> StageTotal {
        StageTotal {
            count,
            errors,
            max_seconds: seconds / 2.0,
            path: path.iter().map(|&name| name.to_owned()).collect(),
            total_seconds: seconds,
            ..StageTotal::default()
        }
    }

    #[test]
    fn many_stages_are_shown_by_their_paths_in_the_order_of_their_time() {
        let mut report = Monitor::new(about()).report(about().started_at, 9.0);
        let open = json!({"id": 7, "name": "fit", "path": ["fit"], "start_seconds": 1.0, "wall_seconds": 8.0});
        report.stages = vec![serde_json::from_value(open).unwrap()];
        report.stage_totals = vec![
            total(&["fit", "epoch"], 20, 6.0, 0),
            total(&["save"], 2, 4.0, 1),
            total(&["fit", "epoch", "batch"], 1000, 0.02, 0),
            total(&[], 3, 0.000_05, 0),
        ];
        insta::assert_snapshot!(stages(&report, UI), @"
        STAGE                 ENDED  IN ALL  MEAN   LONGEST  CPU  PEAK RSS  PROCESSES
        fit
          epoch               20     6.0s    0.3s   3.0s     -    -         -
            batch             1000   20 ms   20 µs  10 ms    -    -         -
        save                  2      4.0s    2.0s   2.0s     -    -         -          1 failed
        all of further paths  3      50 µs   17 µs  25 µs    -    -         -
        open: fit for 8.0s
        ");
    }

    #[test]
    fn few_stages_are_shown_one_by_one() {
        let mut report = Monitor::new(about()).report(about().started_at, 9.0);
        let stage = |id: u64, parent: Option<u64>, error: Option<&str>| {
            let value = json!({"id": id, "name": format!("s{id}"), "parent_id": parent, "start_seconds": 0.0, "wall_seconds": 0.05,
                "error": error, "ended_at": about().started_at, "ended_by": "owner"});
            serde_json::from_value(value).unwrap()
        };
        report.stages = vec![stage(0, None, None), stage(1, Some(0), Some("ValueError"))];
        insta::assert_snapshot!(stages(&report, UI), @"
        STAGE  TOOK   CPU  PEAK RSS  PROCESSES  SAMPLES
        s0     50 ms  -    -         -          0
          s1   50 ms  -    -         -          0        ValueError
        ");
    }
}
