//! What a process is doing, in a few words: the innermost frames of its main thread, else where the kernel has it.

use std::fmt::Write as _;

use diagnose::{is_standard_library, main_trace};
use model::{Frame, Process, SharedFrame, Snapshot};

pub(crate) use model::code_words;

use super::text::{base_name, safe};

/// How many frames of a stack fit a line.
const FRAMES: usize = 5;

/// Returns what the main thread of `process` is doing.
pub(crate) fn doing(snapshot: &Snapshot, process: &Process) -> String {
    if process.state == 'Z' {
        return ended(snapshot, process);
    }
    if let Some(trace) = main_trace(process) {
        let mut words = frames(&trace.frames, FRAMES);
        if trace.owns_gil {
            words.push_str("  [holds the GIL]");
        }
        return words;
    }
    let missing = snapshot
        .gaps
        .iter()
        .find(|gap| gap.process == Some(process.identity) && gap.what == "python_stack");
    let kernel = kernel(process);
    match missing {
        Some(gap) => format!("{kernel}  [no Python stack: {}]", code_words(gap.code)),
        None => kernel,
    }
}

/// Returns one frame as `function (file:line)`.
pub(crate) fn frame(frame: &Frame) -> String {
    format!(
        "{} ({}:{})",
        safe(&frame.name),
        safe(base_name(&frame.filename)),
        frame.line
    )
}

/// The innermost frames, `most` of them, without those of the standard library where there are others: what a tired reader looks for is
/// which line of the job waits. Of the library, the innermost call is named behind it.
pub(crate) fn frames(frames: &[SharedFrame], most: usize) -> String {
    let own: Vec<&SharedFrame> = frames
        .iter()
        .filter(|frame| !is_standard_library(frame))
        .collect();
    let shown = if own.is_empty() {
        frames.iter().collect()
    } else {
        own
    };
    let Some((first, rest)) = shown.split_first() else {
        return "no Python frame".to_owned();
    };
    let mut words = frame(first);
    if let Some(innermost) = frames.first().filter(|innermost| innermost != first) {
        _ = write!(words, " in {}", safe(&innermost.name));
    }
    for outer in rest.iter().take(most - 1) {
        _ = write!(words, " < {}", frame(outer));
    }
    if shown.len() > most {
        words += " < …";
    }
    words
}

fn kernel(process: &Process) -> String {
    match process.proc.wchan.as_deref() {
        Some("0") | None if process.state == 'R' => "running".to_owned(),
        Some("0") | None => "-".to_owned(),
        Some(function) => {
            let main = process
                .proc
                .threads
                .iter()
                .find(|thread| thread.tid == process.pid);
            let call = main.and_then(|main| main.call.as_ref());
            let call = call.map(|call| format!(" ({})", super::call::call(call)));
            format!(
                "in the kernel: {}{}",
                safe(function),
                call.unwrap_or_default()
            )
        }
    }
}

/// A zombie whose parent is not the task's is taskscope's own child, which it leaves so until the last look is over.
fn ended(snapshot: &Snapshot, process: &Process) -> String {
    let known = snapshot
        .processes
        .iter()
        .any(|other| other.pid == process.ppid);
    if known {
        format!("ended; its parent {} has not waited for it", process.ppid)
    } else {
        "ended".to_owned()
    }
}
