//! A verdict as a page for a terminal: the sentence, the culprit's stack, who waits, what shows it, what to try.

use std::fmt::Write as _;

use diagnose::{Cause, Culprit, Evidence, Silent, State, Tried, Twin, Verdict, Victim};
use model::{Process, Snapshot};

use crate::page::{base_name, bold, red, safe, yellow};
use crate::root::few;
use crate::ui::Ui;

/// Frames of the culprit's stack that are shown.
const FRAMES: usize = 12;
/// A difference in longer words takes a line for each of the two.
const SHORT: usize = 78;
/// Values that are shown as evidence; `--json` has all.
const EVIDENCE: usize = 12;

/// Returns the page.
pub(crate) fn page(verdict: &Verdict, nodes: &[Vec<Snapshot>], ui: Ui) -> String {
    let mut page = String::new();
    title(&mut page, verdict, nodes, ui);
    if let Some(culprit) = &verdict.culprit {
        blame(&mut page, culprit, nodes);
    }
    victims(&mut page, verdict);
    if !verdict.evidence.is_empty() {
        page.push_str("\nevidence\n");
        for evidence in verdict.evidence.iter().take(EVIDENCE) {
            line(&mut page, evidence, nodes.len() > 1);
        }
        if let Some(more @ 1..) = verdict.evidence.len().checked_sub(EVIDENCE) {
            _ = writeln!(page, "  and {more} more: --json");
        }
    }
    if !verdict.findings.is_empty() {
        page.push_str("\nalso\n");
        for finding in &verdict.findings {
            _ = writeln!(
                page,
                "  {}: {}",
                finding.cause.word(),
                safe(&finding.summary)
            );
        }
    }
    if let Some(advice) = advice(verdict.cause) {
        _ = writeln!(page, "\nwhat to try\n  {advice}");
    }
    page
}

fn title(page: &mut String, verdict: &Verdict, nodes: &[Vec<Snapshot>], ui: Ui) {
    let word = match verdict.verdict {
        State::Hung | State::Failed => red(&verdict.verdict.word(), ui.color),
        State::Slow | State::Unknown => yellow(&verdict.verdict.word(), ui.color),
        State::Healthy | State::Finished => bold(&verdict.verdict.word(), ui.color),
    };
    _ = writeln!(
        page,
        "{word} ({}): {}",
        verdict.cause.word(),
        safe(&verdict.summary)
    );
    let newest = nodes.iter().filter_map(|snapshots| snapshots.last());
    for snapshot in newest {
        let capture = &snapshot.capture;
        _ = writeln!(
            page,
            "as of {} UTC  {}  attempt {}  node {}",
            capture.started_at.human(),
            snapshot.task.pathspec,
            snapshot.task.attempt,
            safe(&snapshot.task.node)
        );
    }
}

fn blame(page: &mut String, culprit: &Culprit, nodes: &[Vec<Snapshot>]) {
    page.push_str("\nculprit ");
    if let Some(rank) = culprit.rank {
        _ = write!(page, " rank {rank}");
    }
    _ = write!(page, " process {}", culprit.process);
    if let Some(thread) = culprit.thread.filter(|thread| *thread != culprit.pid) {
        _ = write!(page, " thread {thread}");
    }
    _ = writeln!(page, " on {}", safe(&culprit.node));
    let Some(process) = process(culprit, nodes) else {
        return;
    };
    _ = writeln!(page, "  {}", safe(&process.command));
    let thread = culprit.thread.and_then(|thread| u64::try_from(thread).ok());
    let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
    let trace = traces
        .clone()
        .find(|trace| trace.os_thread_id.is_some() && trace.os_thread_id == thread)
        .or_else(|| diagnose::main_trace(process));
    for frame in trace.iter().flat_map(|trace| &trace.frames).take(FRAMES) {
        let is_it = culprit.frame.as_ref().is_some_and(|place| {
            place.function == frame.name && place.file == frame.filename && place.line == frame.line
        });
        let mark = if is_it { ">" } else { " " };
        let file = base_name(&frame.filename);
        _ = writeln!(
            page,
            "  {mark} {} ({}:{})",
            safe(&frame.name),
            safe(file),
            frame.line
        );
    }
}

/// The culprit as it was last seen, with its stack where that was ever read: a task that is being ended shows none.
fn process<'a>(culprit: &Culprit, nodes: &'a [Vec<Snapshot>]) -> Option<&'a Process> {
    let snapshots = nodes.iter().flat_map(|snapshots| snapshots.iter().rev());
    let of_node = snapshots.filter(|snapshot| snapshot.task.node == culprit.node);
    let mut seen = of_node.flat_map(|snapshot| {
        let processes = snapshot.processes.iter();
        processes.filter(|process| process.identity.to_string() == culprit.process)
    });
    let last = seen.next()?;
    let with_stack = std::iter::once(last).chain(seen);
    let mut with_stack = with_stack.filter(|process| process.pyspy.is_some());
    with_stack.next().or(Some(last))
}

fn victims(page: &mut String, verdict: &Verdict) {
    if verdict.victims.is_empty() {
        return;
    }
    let ranks = verdict.victims.iter().filter_map(|victim| victim.rank);
    let ranks = diagnose::ranges(ranks);
    let others = verdict
        .victims
        .iter()
        .filter(|victim| victim.rank.is_none());
    let pids: Vec<String> = others.map(|victim| victim.pid.to_string()).collect();
    page.push_str("\nwaiting ");
    if !ranks.is_empty() {
        _ = write!(page, " ranks {ranks}");
    }
    if !pids.is_empty() {
        _ = write!(page, " processes {}", pids.join(", "));
    }
    page.push('\n');
}

fn line(page: &mut String, evidence: &Evidence, with_node: bool) {
    let mut value = evidence.value.to_string();
    if value.chars().count() > 100 {
        value = value.chars().take(99).collect::<String>() + "…";
    }
    let node = if with_node {
        format!("{} ", safe(&evidence.node))
    } else {
        String::new()
    };
    _ = writeln!(
        page,
        "  {node}{} {} = {}",
        evidence.snapshot,
        evidence.path,
        safe(&value)
    );
}

/// Returns how the suspect differs from its twin, and of which nodes nothing new is seen.
pub(crate) fn comparison(
    twin: Option<&Twin>,
    silent: &[Silent],
    without_snapshot: &[String],
) -> String {
    let mut page = String::new();
    if let Some(twin) = twin.filter(|twin| !twin.differences.is_empty()) {
        let who = |victim: &Victim| match victim.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", victim.pid),
        };
        let (suspect, other) = (who(&twin.suspect), who(&twin.twin));
        _ = writeln!(
            page,
            "\nwhat differs between {suspect} and {other}, which waits"
        );
        for difference in &twin.differences {
            let [what, one, two] =
                [&difference.what, &difference.suspect, &difference.twin].map(|text| safe(text));
            let short = format!("  {what}: {one}; {other}: {two}");
            if short.chars().count() <= SHORT {
                _ = writeln!(page, "{short}");
            } else {
                _ = writeln!(page, "  {what}\n    {suspect}: {one}\n    {other}: {two}");
            }
        }
    }
    for node in silent {
        _ = writeln!(page, "\n{}", safe(&node.words()));
    }
    if !without_snapshot.is_empty() {
        let (nodes, verb) = match without_snapshot {
            [_] => ("node", "has"),
            _ => ("nodes", "have"),
        };
        let names = safe(&few(without_snapshot));
        _ = writeln!(
            page,
            "\n{nodes} {names} {verb} stored no snapshot yet, and so cannot be judged"
        );
    }
    page
}

/// Returns which rules were tried and how it went.
pub(crate) fn explanation(tried: &[Tried], ui: Ui) -> String {
    let mut page = String::from("\nrules, in the order in which they were tried\n");
    for tried in tried {
        let mark = if tried.held {
            bold("holds", ui.color)
        } else {
            "no   ".to_owned()
        };
        _ = writeln!(page, "  {mark} {}: {}", tried.rule, safe(&tried.reason));
        if let Some(rule) = diagnose::rules::all().find(|rule| rule.name == tried.rule) {
            _ = writeln!(page, "        needs {}", rule.needs);
            _ = writeln!(page, "        proves that {}", rule.proves);
            _ = writeln!(page, "        refuted if {}", rule.refuted_by);
        }
    }
    page
}

/// What people usually do about it; `docs/causes.md` has more.
fn advice(cause: Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::RankBehind => {
            "look at the line above: what it waits for is what the others wait for"
        }
        Cause::RankDead => {
            "find out why it ended; give all ranks the same number of batches, and let the launcher end the others"
        }
        Cause::Deadlock => "take locks in the same order everywhere, or with a timeout",
        Cause::InheritedLock => {
            "start children before threads, or with the `spawn` or `forkserver` method instead of fork"
        }
        Cause::PipeFull => "read the child's output (`communicate()`), or send it to a file",
        Cause::PipeOrphaned => {
            "close the ends of a pipe that a process does not use, so that the end of the other side is seen"
        }
        Cause::WaitingForChild => {
            "find out what the child waits for; close its standard input if it reads that"
        }
        Cause::WaitingForInput => "give it its input, or run it with `</dev/null`",
        Cause::WaitingForPeer => "look at the other side; give the call a timeout",
        Cause::FileLock => "end the holder, or give the wait a timeout",
        Cause::Stopped => "continue it: kill -CONT PID",
        Cause::StorageStall => {
            "look at the mount and its server; the process cannot be ended before it answers"
        }
        Cause::GilHeld => "bound the call that keeps the lock, or move it to another process",
        Cause::BusyLoop => "look at the condition of the loop at that line",
        Cause::OutOfMemory => {
            "give it more memory or let it take less; a pool whose worker was killed does not recover"
        }
        Cause::MemoryPressure => "give it more memory or let it take less",
        Cause::CpuThrottled => "raise the quota, or run fewer threads",
        Cause::ShmFull => {
            "give /dev/shm more room (`--shm-size`, an emptyDir of medium Memory), or use fewer workers"
        }
        Cause::DiskFull => "make room, or write elsewhere",
        Cause::FdExhausted => "close what is not needed any more, or raise `ulimit -n`",
        Cause::ZombieUnreaped => "wait for the children and look at how they ended",
        Cause::Crashed => "look at its last words and at a core dump",
        Cause::Progressing | Cause::Finished | Cause::Unknown => return None,
    })
}
