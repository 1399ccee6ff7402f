//! A diff as a page: one line for all processes that did the same, the most telling first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::activity::{self, Activity};
use super::{Change, Diff, Kind};
use crate::page::{bold, count, red, safe, table, yellow};
use crate::ui::Ui;

/// How many processes a line names.
const NAMED: usize = 6;

/// Returns the page.
pub(crate) fn page(diff: &Diff, ui: Ui) -> String {
    let mut page = String::new();
    title(&mut page, diff, ui);
    let mut last = None;
    for (kind, texts) in grouped(&diff.changes) {
        if last.replace(kind) != Some(kind) {
            _ = writeln!(page, "\n{}", heading(kind, ui));
        }
        for (text, changes) in texts {
            let who = who(&changes);
            let line = if who.is_empty() {
                text.to_owned()
            } else {
                format!("{who}: {text}")
            };
            _ = writeln!(page, "  {line}");
        }
    }
    activities(&mut page, diff);
    let mut changes = diff.changes.iter();
    let has_moved = changes.any(|change| !matches!(change.kind, Kind::Stuck | Kind::Back));
    if !has_moved && diff.activities.iter().all(Activity::is_none) {
        page.push_str("\nNothing moved.\n");
    }
    page
}

fn title(page: &mut String, diff: &Diff, ui: Ui) {
    let after = diff.seconds.map_or_else(
        || "the clock was set back in between, so there are no rates".to_owned(),
        |seconds| format!("{seconds:.1} s later"),
    );
    _ = writeln!(
        page,
        "{}  node {}\n{} -> {}  {after}",
        bold(&safe(&diff.task), ui.color),
        safe(&diff.node),
        diff.from,
        diff.to
    );
}

fn heading(kind: Kind, ui: Ui) -> String {
    match kind {
        Kind::Reboot => red("Restarted", ui.color),
        Kind::Cgroup => yellow("Limits and cgroups", ui.color),
        Kind::Went => red("Ended", ui.color),
        Kind::Came => "Came".to_owned(),
        Kind::Exec => "Became another program".to_owned(),
        Kind::State => yellow("State", ui.color),
        Kind::Stuck => yellow("Stands where it stood", ui.color),
        Kind::Moved => "Moved".to_owned(),
        Kind::Back => "At the same place, but ran".to_owned(),
        Kind::Wait => "Waits elsewhere".to_owned(),
        Kind::Memory => "Memory (RSS)".to_owned(),
        Kind::Unseen => yellow("Not seen any more", ui.color),
        Kind::Seen => "Seen again".to_owned(),
    }
}

type Texts<'a> = Vec<(&'a str, Vec<&'a Change>)>;

/// Changes by kind, and those alike together, in the order of their first.
fn grouped(changes: &[Change]) -> BTreeMap<Kind, Texts<'_>> {
    let mut kinds: BTreeMap<Kind, Texts<'_>> = BTreeMap::new();
    for change in changes {
        let texts = kinds.entry(change.kind).or_default();
        match texts.iter_mut().find(|(text, _)| *text == change.text) {
            Some((_, alike)) => alike.push(change),
            None => texts.push((&change.text, vec![change])),
        }
    }
    kinds
}

fn who(changes: &[&Change]) -> String {
    let name = |change: &&Change| {
        let pid = change.process?.pid;
        let mut name = if change.part.is_empty() {
            pid.to_string()
        } else {
            format!("{} ({pid})", change.part)
        };
        if let Some(thread) = &change.thread_name {
            _ = write!(name, " thread {thread}");
        }
        Some(name)
    };
    let mut names: Vec<String> = changes.iter().filter_map(name).collect();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let mut words = names.join(", ");
    if more > 0 {
        _ = write!(words, " and {more} more");
    }
    words
}

/// A table of what each process has done; those that did nothing in one line.
fn activities(page: &mut String, diff: &Diff) {
    let (idle, busy): (Vec<&Activity>, Vec<&Activity>) =
        diff.activities.iter().partition(|it| it.is_none());
    if busy.is_empty() {
        return;
    }
    let over = diff.seconds.map(Duration::from_secs_f64);
    let headings = ["PID", "PART", "STEP", "CPU", "SWITCHES", "READ", "WRITTEN"];
    let mut rows = vec![headings.map(str::to_owned)];
    rows.extend(busy.iter().map(|it| {
        [
            it.identity.pid.to_string(),
            it.part.clone(),
            steps(it),
            it.cpu_percent
                .map_or_else(|| "?".to_owned(), |percent| format!("{percent:.1} %")),
            number(it.timeslices, |slices| activity::rate(slices, over)),
            number(it.read_bytes, table::bytes),
            number(it.written_bytes, table::bytes),
        ]
    }));
    _ = writeln!(page, "\nDone meanwhile");
    for line in table::align(&rows).lines() {
        _ = writeln!(page, "  {line}");
    }
    if !idle.is_empty() {
        let processes = count(idle.len(), "process", "processes");
        let pids: Vec<String> = idle
            .iter()
            .take(NAMED)
            .map(|it| it.identity.pid.to_string())
            .collect();
        let more = if idle.len() > NAMED { ", …" } else { "" };
        _ = writeln!(page, "  {processes} did nothing: {}{more}", pids.join(", "));
    }
}

fn number(value: Option<u64>, words: impl Fn(u64) -> String) -> String {
    value.map_or_else(|| "?".to_owned(), words)
}

fn steps(activity: &Activity) -> String {
    let Some(step) = activity.steps.first() else {
        return String::new();
    };
    let name = safe(&step.name);
    if step.from == step.to {
        return format!("{name} {}, none more", step.to);
    }
    let rate = step
        .per_second
        .map_or_else(String::new, |rate| format!(", {rate:.2}/s"));
    format!("{name} {} -> {}{rate}", step.from, step.to)
}
