//! Reading a Python stack: which frames are the job's own, and what the library's innermost ones wait for.

use model::{Frame, Process, SharedFrame, Trace};

use crate::verdict::Place;

/// Returns the trace of the main thread: by kernel id, else by name, else the only one there is.
pub fn main_trace(process: &Process) -> Option<&Trace> {
    let traces = &process.pyspy.as_ref()?.traces;
    let main = u64::try_from(process.pid).ok();
    traces
        .iter()
        .find(|trace| trace.os_thread_id.is_some() && trace.os_thread_id == main)
        .or_else(|| {
            traces
                .iter()
                .find(|trace| trace.thread_name.as_deref() == Some("MainThread"))
        })
        .or_else(|| traces.first().filter(|_| traces.len() == 1))
}

/// Returns whether the frame is of Python's own library, and not of an installed package.
pub fn is_standard_library(frame: &Frame) -> bool {
    let file = frame.filename.as_str();
    let installed = ["/site-packages/", "/dist-packages/"]
        .iter()
        .any(|folder| file.contains(folder));
    file.starts_with("<frozen ") || (file.contains("/lib/python") && !installed)
}

/// Returns whether the frame is of an installed package or of Python's own library: not of the job.
pub(crate) fn is_library(frame: &Frame) -> bool {
    let file = frame.filename.as_str();
    is_standard_library(frame)
        || file.contains("/site-packages/")
        || file.contains("/dist-packages/")
}

/// Returns the frame to show a person: the innermost of the job's own code, else of an installed package, else the innermost.
pub fn telling_frame(frames: &[SharedFrame]) -> Option<&SharedFrame> {
    frames
        .iter()
        .find(|frame| !is_library(frame))
        .or_else(|| frames.iter().find(|frame| !is_standard_library(frame)))
        .or_else(|| frames.first())
}

pub(crate) fn place(frame: &Frame) -> Place {
    Place {
        function: frame.name.clone(),
        file: frame.filename.clone(),
        line: frame.line,
    }
}

/// Whether two stacks stand at the same lines.
pub(crate) fn same_place(one: &[SharedFrame], other: &[SharedFrame]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same_frame(a, b))
}

/// Whether two frames are at the same line of the same function.
pub(crate) fn same_frame(one: &SharedFrame, other: &SharedFrame) -> bool {
    let same =
        |a: &Frame, b: &Frame| a.line == b.line && a.name == b.name && a.filename == b.filename;
    one.place() == other.place() || same(one, other)
}

/// Whether two stacks are in the same innermost function, called from the same lines.
pub(crate) fn same_call(one: &[SharedFrame], other: &[SharedFrame]) -> bool {
    match (one.split_first(), other.split_first()) {
        (Some((a, callers)), Some((b, others))) => {
            let is_same = a.name == b.name && a.filename == b.filename;
            is_same && same_place(callers, others)
        }
        (None, None) => true,
        _ => false,
    }
}

/// Whether the second stack is the first, deeper in the same functions that call each other at the same lines: one that tries again
/// by calling itself.
pub(crate) fn is_deeper(one: &[SharedFrame], other: &[SharedFrame]) -> bool {
    other.len() > one.len() && same_course(one, other)
}

/// Whether two stacks are at the same lines in the same order, however often each.
pub(crate) fn same_course(one: &[SharedFrame], other: &[SharedFrame]) -> bool {
    let once = |frames: &[SharedFrame]| -> Vec<SharedFrame> {
        let mut course: Vec<SharedFrame> = Vec::new();
        for frame in frames {
            if !course.iter().any(|known| same_frame(known, frame)) {
                course.push(frame.clone());
            }
        }
        course
    };
    same_place(&once(one), &once(other))
}

/// What a thread that sleeps in a futex wants, as its innermost frames tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// A lock: `acquire`, `with lock`.
    Lock,
    /// That somebody notifies it: an event, a queue, a condition.
    Notice,
    /// That a thread ends.
    Thread,
}

/// Returns what a thread in a futex wants. `CPython`: `Lib/threading.py`, `Lib/queue.py`, `Lib/multiprocessing/synchronize.py`.
pub(crate) fn wants(frames: &[SharedFrame]) -> Option<Wants> {
    let innermost = frames.first()?;
    let name = innermost.name.rsplit('.').next().unwrap_or_default();
    let file = innermost.filename.as_str();
    if !file.ends_with("/threading.py") && !file.ends_with("/synchronize.py") {
        // `queue.SimpleQueue.get` and the like are C: they look like the lock of whoever calls them.
        if is_standard_library(innermost) {
            return Some(Wants::Notice);
        }
        // An installed package may be in native code that waits for threads of its own.
        let may_be_native = is_library(innermost) || meeting(frames).is_some();
        return (!may_be_native).then_some(Wants::Lock);
    }
    Some(match name {
        "wait" | "wait_for" => Wants::Notice,
        "join" | "_wait_for_tstate_lock" | "_shutdown" => Wants::Thread,
        _ => Wants::Lock,
    })
}

/// Whether a thread waits for the result of a future. `CPython`: `Lib/concurrent/futures/_base.py`.
pub(crate) fn is_at_result(frames: &[SharedFrame]) -> bool {
    let mut library = frames.iter().take_while(|frame| is_standard_library(frame));
    library.any(|frame| {
        let name = frame.name.rsplit('.').next().unwrap_or_default();
        matches!(name, "result" | "exception") && frame.filename.ends_with("/futures/_base.py")
    })
}

/// Whether a thread waits for a result of a `multiprocessing.Pool`. `CPython`: `Lib/multiprocessing/pool.py`.
pub(crate) fn is_at_pool(frames: &[SharedFrame]) -> bool {
    let mut library = frames.iter().take_while(|frame| is_standard_library(frame));
    library.any(|frame| {
        let name = frame.name.rsplit('.').next().unwrap_or_default();
        matches!(name, "wait" | "get" | "next" | "map" | "apply")
            && frame.filename.ends_with("/multiprocessing/pool.py")
    })
}

/// Whether a thread serves a client of a `multiprocessing` manager, and waits until another one gives what that client wants.
/// `CPython`: `Lib/multiprocessing/managers.py`.
pub(crate) fn is_for_a_client(frames: &[SharedFrame]) -> bool {
    let mut library = frames.iter().take_while(|frame| is_standard_library(frame));
    wants(frames) == Some(Wants::Notice)
        && library.any(|frame| {
            let name = frame.name.rsplit('.').next().unwrap_or_default();
            name == "serve_client" && frame.filename.ends_with("/multiprocessing/managers.py")
        })
}

/// How functions that wait for other ranks are called: `torch.distributed`, Horovod, `mpi4py`, JAX, and hand-made ones.
const MEETINGS: [&str; 9] = [
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
    "all_to_all",
    "alltoall",
    "barrier",
    "sync_global_devices",
];

/// The same where the whole name must be this: the words are used for much else.
const MEETINGS_IN_FULL: [&str; 10] = [
    "broadcast",
    "bcast",
    "gather",
    "gather_object",
    "scatter",
    "reduce",
    "broadcast_object_list",
    "wait_for_everyone",
    "synchronize",
    "rendezvous",
];

/// Returns the innermost frame that is a meeting of ranks, if the stack is in one.
pub(crate) fn meeting(frames: &[SharedFrame]) -> Option<usize> {
    let is_meeting = |frame: &SharedFrame| {
        let name = frame.name.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        MEETINGS.iter().any(|word| last.contains(word))
            || MEETINGS_IN_FULL.contains(&last)
            || name.contains("barrier.")
    };
    frames.iter().position(is_meeting)
}
