//! Where each thread stood and where it stands: in its program, else in the kernel.

use model::{Process, SharedFrame, Snapshot, Thread, Trace};

use super::{Change, Kind};
use crate::page::{call, code_words, frames, safe};

/// More threads than this of one process are told as a number.
const NAMED_THREADS: usize = 8;

pub(super) fn changes(to: &Snapshot, before: &Process, after: &Process) -> Vec<Change> {
    if after.state == 'Z' || before.state == 'Z' {
        return Vec::new();
    }
    let mut changes = match (&before.pyspy, &after.pyspy) {
        (Some(old), Some(new)) => stacks(before, after, &old.traces, &new.traces),
        _ => kernel(before, after),
    };
    for (kind, words) in [
        (Kind::Stuck, "stand where they stood"),
        (Kind::Moved, "moved"),
        (Kind::Back, "are where they were"),
    ] {
        keep_few(&mut changes, after, kind, words);
    }
    // A capture that left stacks out cannot say that nothing moved.
    if let (Some(_), None) = (&before.pyspy, &after.pyspy)
        && let Some(gap) = to
            .gaps
            .iter()
            .find(|gap| gap.process == Some(after.identity) && gap.what == "python_stack")
    {
        let text = format!("its Python stack is not seen now: {}", code_words(gap.code));
        changes.push(Change::of(Kind::Unseen, after.identity, text));
    }
    changes
}

/// Of many threads but the main one, only how many.
fn keep_few(changes: &mut Vec<Change>, process: &Process, kind: Kind, words: &str) {
    let is_other = |change: &Change| change.kind == kind && change.thread_name.is_some();
    let others = changes.iter().filter(|change| is_other(change)).count();
    if others > NAMED_THREADS {
        changes.retain(|change| !is_other(change));
        let text = format!("{others} more threads {words}");
        changes.push(Change::of(kind, process.identity, text));
    }
}

fn stacks(before: &Process, after: &Process, old: &[Trace], new: &[Trace]) -> Vec<Change> {
    let mut changes = Vec::new();
    for trace in new {
        let Some(earlier) = old.iter().find(|earlier| is_same(earlier, trace)) else {
            continue; // a new thread is seldom the point
        };
        let (was, is) = (place(&earlier.frames), place(&trace.frames));
        let (kind, text) = if at_same_place(&earlier.frames, &trace.frames) {
            stands(before, after, trace, &is)
        } else if was == is {
            (Kind::Moved, format!("moved within {is}"))
        } else {
            (Kind::Moved, format!("{was} -> {is}"))
        };
        let is_main = is_main(after, trace);
        let name = trace.thread_name.as_deref().map(safe);
        changes.push(Change {
            thread: thread_of(after, trace).filter(|_| !is_main),
            thread_name: name.filter(|_| !is_main),
            ..Change::of(kind, after.identity, text)
        });
    }
    changes
}

/// A thread that is where it was: what shows whether it stood there all the time, and what it waits for.
fn stands(before: &Process, after: &Process, trace: &Trace, place: &str) -> (Kind, String) {
    let tid = trace.os_thread_id.and_then(|tid| i32::try_from(tid).ok());
    let of = |process: &Process| {
        let mut threads = process.proc.threads.iter();
        threads.find(|thread| Some(thread.tid) == tid).cloned()
    };
    let (Some(before), Some(now)) = (of(before), of(after)) else {
        return (Kind::Stuck, format!("still at {place}"));
    };
    let waits = wait(&now);
    match (&before.schedstat, &now.schedstat) {
        (Some(old), Some(new)) if old == new => {
            let since = now.unchanged_since;
            let since = since.map_or_else(String::new, |since| format!(" since {}", since.human()));
            let text = format!("still at {place}, {waits}; it has not run{since}");
            (Kind::Stuck, text)
        }
        (Some(_), Some(_)) => (Kind::Back, format!("at {place}, {waits}")),
        _ => (Kind::Stuck, format!("still at {place}, {waits}")),
    }
}

/// The main thread's wait, for a process without a stack.
fn kernel(before: &Process, after: &Process) -> Vec<Change> {
    let main = |process: &Process| {
        let mut threads = process.proc.threads.iter();
        threads.find(|thread| thread.tid == process.pid).cloned()
    };
    let (Some(old), Some(new)) = (main(before), main(after)) else {
        return Vec::new();
    };
    let (was, is) = (wait(&old), wait(&new));
    if was == is {
        return Vec::new(); // most helpers of a task wait all the time
    }
    let text = format!("{was} -> {is}");
    vec![Change::of(Kind::Wait, after.identity, text)]
}

fn wait(thread: &Thread) -> String {
    match (&thread.call, thread.state) {
        (_, Some('R')) => "running".to_owned(),
        (Some(it), _) => format!("waits in {}", call(it)),
        (None, _) => match thread.wchan.as_deref() {
            Some("0") | None => "not waiting".to_owned(),
            Some(function) => format!("waits in the kernel: {}", safe(function)),
        },
    }
}

fn is_main(process: &Process, trace: &Trace) -> bool {
    match trace.os_thread_id {
        Some(tid) => u64::try_from(process.pid) == Ok(tid),
        None => trace.thread_name.as_deref() == Some("MainThread"),
    }
}

fn is_same(one: &Trace, other: &Trace) -> bool {
    match (one.os_thread_id, other.os_thread_id) {
        (Some(one), Some(other)) => one == other,
        _ => one.thread_id == other.thread_id,
    }
}

fn thread_of(process: &Process, trace: &Trace) -> Option<i32> {
    let tid = i32::try_from(trace.os_thread_id?).ok()?;
    let mut threads = process.proc.threads.iter();
    threads.any(|thread| thread.tid == tid).then_some(tid)
}

/// The innermost frames in a few words.
fn place(stack: &[SharedFrame]) -> String {
    frames(stack, 2)
}

fn at_same_place(one: &[SharedFrame], other: &[SharedFrame]) -> bool {
    let key = |frame: &SharedFrame| (frame.filename.clone(), frame.name.clone(), frame.line);
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| key(a) == key(b))
}
