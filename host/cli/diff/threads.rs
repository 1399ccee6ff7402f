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
    let others = changes.iter().filter(|change| change.thread.is_some());
    if others.count() > NAMED_THREADS {
        let all = changes.len();
        changes.retain(|change| change.thread.is_none());
        let text = format!("{} more threads moved", all - changes.len());
        changes.push(Change::of(Kind::Moved, after.identity, text));
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

fn stacks(before: &Process, after: &Process, old: &[Trace], new: &[Trace]) -> Vec<Change> {
    let mut changes = Vec::new();
    for trace in new {
        let is_main = is_main(after, trace);
        let Some(earlier) = old.iter().find(|earlier| is_same(earlier, trace)) else {
            continue; // a new thread is seldom the point
        };
        let (was, is) = (place(&earlier.frames), place(&trace.frames));
        let has_moved = !at_same_place(&earlier.frames, &trace.frames);
        let thread = thread_of(after, trace);
        let text = match (has_moved, is_main) {
            (true, _) if was == is => format!("moved within {is}"),
            (true, _) => format!("{was} -> {is}"),
            (false, true) => format!("still at {is}{}", since(before, after, trace)),
            (false, false) => continue,
        };
        let text = match (is_main, &trace.thread_name) {
            (false, Some(name)) => format!("thread {}: {text}", safe(name)),
            _ => text,
        };
        let kind = if has_moved { Kind::Moved } else { Kind::Stuck };
        changes.push(Change {
            thread: (!is_main).then_some(thread).flatten(),
            ..Change::of(kind, after.identity, text)
        });
    }
    changes
}

/// What shows that a thread stood still, and what it waits for.
fn since(before: &Process, after: &Process, trace: &Trace) -> String {
    let tid = trace.os_thread_id.and_then(|tid| i32::try_from(tid).ok());
    let of = |process: &Process| {
        let mut threads = process.proc.threads.iter();
        threads.find(|thread| Some(thread.tid) == tid).cloned()
    };
    let (Some(before), Some(now)) = (of(before), of(after)) else {
        return String::new();
    };
    let waits = format!(", {}", wait(&now));
    match (&before.schedstat, &now.schedstat) {
        (Some(old), Some(new)) if old == new => match now.unchanged_since {
            Some(since) => format!("{waits}; it has not run since {}", since.human()),
            None => format!("{waits}; it has not run"),
        },
        (Some(_), Some(_)) => format!("{waits}; it has run in between"),
        _ => waits,
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
