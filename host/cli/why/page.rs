//! A verdict as a page for a terminal: the sentence, the culprit's stack, who waits, what shows it, what to try.

use std::fmt::Write as _;
use std::ops::Range;

use diagnose::{Cause, Culprit, State, Tried, Twin, Verdict, Victim};
use model::{Process, SharedFrame, Snapshot};

use crate::page::{base_name, bold, cut, red, safe, yellow};
use crate::root::few;
use crate::ui::Ui;
use crate::why::Sight;

/// Frames of the culprit's stack that are shown; where the one to blame is not among the innermost of them, so many come before it.
const FRAMES: usize = 12;
const INNERMOST: usize = 3;
/// A difference in longer words takes a line for each of the two.
const SHORT: usize = 78;
/// Values that are shown as evidence, and how much of each; `--json` has all.
const EVIDENCE: usize = 12;
const VALUE: usize = 100;
/// More nodes than these take one line together.
const NODES: usize = 4;

/// Returns the page: what is wrong and what to do first, what shows it last. `stands` are the snapshots that the answer is about, one
/// of each node.
pub(crate) fn page(
    verdict: &Verdict,
    twin: Option<&Twin>,
    sight: &Sight,
    stands: &[&Snapshot],
    ui: Ui,
) -> String {
    let mut page = String::new();
    let nodes = &sight.nodes;
    title(&mut page, verdict, (nodes, stands), ui);
    unseen(&mut page, sight);
    if let Some(culprit) = &verdict.culprit {
        blame(&mut page, verdict, culprit, (nodes, stands));
    }
    victims(&mut page, verdict, stands);
    if let Some(twin) = twin.filter(|twin| !twin.differences.is_empty()) {
        compare(&mut page, twin);
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
    evidence(&mut page, verdict, nodes.len() > 1);
    page
}

/// The snapshots of each node, and of each the one that the answer is about.
type Nodes<'a> = (&'a [Vec<Snapshot>], &'a [&'a Snapshot]);

fn title(page: &mut String, verdict: &Verdict, (nodes, stands): Nodes<'_>, ui: Ui) {
    let word = match verdict.verdict {
        State::Hung | State::Failed => red(&verdict.verdict.word(), ui.color),
        State::Slow | State::Unknown => yellow(&verdict.verdict.word(), ui.color),
        State::Healthy | State::Finished => bold(&verdict.verdict.word(), ui.color),
    };
    let cause = match verdict.cause.word() {
        same if same == verdict.verdict.word() => String::new(),
        cause => format!(" ({cause})"),
    };
    _ = writeln!(page, "{word}{cause}: {}", safe(&verdict.summary));
    let newest = nodes.iter().filter_map(|snapshots| snapshots.last());
    let stands = stands.iter().copied();
    let is_newest = |stand: &Snapshot| newest.clone().any(|it| it.capture.id == stand.capture.id);
    let as_of = |snapshot: &Snapshot, nodes: &str| {
        let told = if is_newest(snapshot) {
            ""
        } else {
            ", before it was told to end"
        };
        format!(
            "as of {} UTC{told}  {}  attempt {}  {nodes}\n",
            snapshot.capture.started_at.human(),
            snapshot.task.pathspec,
            snapshot.task.attempt,
        )
    };
    if nodes.len() > NODES {
        let first = stands.min_by_key(|it| it.capture.started_at);
        let line = first.map(|it| as_of(it, &format!("{} nodes", nodes.len())));
        page.extend(line);
        return;
    }
    for snapshot in stands {
        let node = format!("node {}", safe(&snapshot.task.node));
        *page += &as_of(snapshot, &node);
    }
}

fn blame(page: &mut String, verdict: &Verdict, culprit: &Culprit, nodes: Nodes<'_>) {
    page.push_str("\nculprit ");
    if let Some(rank) = culprit.rank {
        _ = write!(page, " rank {rank},");
    }
    _ = write!(page, " process {}", culprit.pid);
    if let Some(thread) = culprit.thread.filter(|thread| *thread != culprit.pid) {
        _ = write!(page, ", thread {thread}");
    }
    _ = writeln!(page, " on {}", safe(&culprit.node));
    let stands = nodes.1;
    let Some(process) = process(culprit, nodes) else {
        return;
    };
    _ = writeln!(page, "  {}", safe(&process.command));
    if let Some(since) = verdict.since.filter(|_| stands_itself(culprit, stands)) {
        _ = writeln!(page, "  it has not run since {} UTC", since.human());
    }
    let thread = culprit.thread.and_then(|thread| u64::try_from(thread).ok());
    let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
    let trace = traces
        .clone()
        .find(|trace| trace.os_thread_id.is_some() && trace.os_thread_id == thread)
        .or_else(|| diagnose::main_trace(process));
    let frames = trace.map_or(&[][..], |trace| trace.frames.as_slice());
    let is_it = |frame: &SharedFrame| {
        culprit.frame.as_ref().is_some_and(|place| {
            place.function == frame.name && place.file == frame.filename && place.line == frame.line
        })
    };
    let left_out = left_out(frames.iter().position(is_it).unwrap_or(0));
    let shown = frames.iter().enumerate();
    for (index, frame) in shown.take(FRAMES + left_out.len()) {
        if left_out.contains(&index) {
            if index == left_out.start {
                _ = writeln!(page, "    … {} frames", left_out.len());
            }
            continue;
        }
        let is_it = is_it(frame);
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

/// The frames between the innermost and the one to blame, which may be called through many of a library, that find no room.
fn left_out(telling: usize) -> Range<usize> {
    match (telling + 1).saturating_sub(FRAMES) {
        0 => 0..0,
        more => INNERMOST..INNERMOST + more,
    }
}

/// The culprit as the answer has it, with its stack where that was ever read.
fn process<'a>(culprit: &Culprit, (nodes, stands): Nodes<'a>) -> Option<&'a Process> {
    let mut stands = stands.iter();
    let stand = stands.find(|stand| stand.task.node == culprit.node)?;
    let snapshots = nodes.iter().flat_map(|snapshots| snapshots.iter().rev());
    let of_node = snapshots
        .filter(|snapshot| snapshot.task.node == culprit.node)
        .skip_while(|snapshot| snapshot.capture.id != stand.capture.id);
    let mut seen = of_node.flat_map(|snapshot| {
        let processes = snapshot.processes.iter();
        processes.filter(|process| process.identity.to_string() == culprit.process)
    });
    let last = seen.next()?;
    let with_stack = std::iter::once(last).chain(seen);
    let mut with_stack = with_stack.filter(|process| process.pyspy.is_some());
    with_stack.next().or(Some(last))
}

/// Whether the one to blame has not run itself, which is what an answer's `since` is about then.
fn stands_itself(culprit: &Culprit, stands: &[&Snapshot]) -> bool {
    let mut stands = stands.iter().filter(|it| it.task.node == culprit.node);
    let processes = stands.next().map(|stand| stand.processes.iter());
    let mut processes = processes.into_iter().flatten();
    let process = processes.find(|process| process.identity.to_string() == culprit.process);
    let tid = culprit.thread.unwrap_or(culprit.pid);
    process.is_some_and(|process| {
        let mut threads = process.proc.threads.iter();
        threads.any(|thread| thread.tid == tid && thread.unchanged_since.is_some())
    })
}

fn victims(page: &mut String, verdict: &Verdict, stands: &[&Snapshot]) {
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
    let word = |one: &str, many: &str, count: usize| match count {
        1 => one.to_owned(),
        _ => many.to_owned(),
    };
    let mut waiting = Vec::new();
    if !ranks.is_empty() {
        let count = verdict.victims.len() - pids.len();
        waiting.push(format!("{} {ranks}", word("rank", "ranks", count)));
    }
    if !pids.is_empty() {
        let word = word("process", "processes", pids.len());
        waiting.push(format!("{word} {}", few(&pids)));
    }
    let culprit = verdict.culprit.as_ref();
    let runs = culprit.is_some_and(|culprit| !stands_itself(culprit, stands));
    let since = verdict.since.filter(|_| runs);
    let since = since.map_or_else(String::new, |since| {
        format!(", all of them since {} UTC", since.human())
    });
    _ = writeln!(page, "\nwaiting  {}{since}", waiting.join(", "));
}

/// What shows it, by snapshot, in the order of the claim.
fn evidence(page: &mut String, verdict: &Verdict, with_node: bool) {
    if verdict.evidence.is_empty() {
        return;
    }
    page.push_str("\nevidence\n");
    let mut of: Option<(&str, &str)> = None;
    for evidence in verdict.evidence.iter().take(EVIDENCE) {
        let snapshot = (evidence.node.as_str(), evidence.snapshot.as_str());
        if of != Some(snapshot) {
            let node = if with_node {
                format!(" of node {}", safe(&evidence.node))
            } else {
                String::new()
            };
            _ = writeln!(page, "  {}{node}", evidence.snapshot);
            of = Some(snapshot);
        }
        let value = cut(&evidence.value.to_string(), VALUE);
        _ = writeln!(page, "    {} = {}", evidence.path, safe(&value));
    }
    if let Some(more @ 1..) = verdict.evidence.len().checked_sub(EVIDENCE) {
        _ = writeln!(page, "    and {more} more: --json");
    }
}

/// How the suspect differs from its twin.
fn compare(page: &mut String, twin: &Twin) {
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

/// Of which nodes nothing new is seen, or nothing at all.
fn unseen(page: &mut String, sight: &Sight) {
    for node in &sight.silent {
        _ = writeln!(page, "{}", safe(&node.words()));
    }
    let mut missing = |names: &[String], one: &str, many: &str| {
        let (nodes, verb) = match names {
            [] => return,
            [_] => ("node", one),
            _ => ("nodes", many),
        };
        _ = writeln!(page, "{nodes} {} {verb}", safe(&few(names)));
    };
    missing(
        &sight.without_snapshot,
        "has stored no snapshot yet, and so cannot be judged",
        "have stored no snapshot yet, and so cannot be judged",
    );
    missing(
        &sight.unreadable,
        "has no snapshot that can be read, and so is not judged",
        "have no snapshot that can be read, and so are not judged",
    );
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
        Cause::RankBehind => "look at the line above: the others go on when it is past it",
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
        Cause::Crashed => {
            "look at what it wrote last; where a signal ended it, at a core dump as well"
        }
        Cause::Progressing | Cause::Finished | Cause::Unknown => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_to_blame_is_always_among_those_that_are_shown() {
        for telling in 0..100 {
            let left_out = left_out(telling);
            let shown = (0..FRAMES + left_out.len()).filter(|frame| !left_out.contains(frame));
            let shown: Vec<usize> = shown.collect();
            assert!(shown.contains(&telling), "{telling}: {shown:?}");
            assert_eq!(shown.len(), FRAMES);
        }
        assert_eq!(left_out(FRAMES - 1), 0..0);
        assert_eq!(left_out(FRAMES + 4), 3..8);
    }
}
