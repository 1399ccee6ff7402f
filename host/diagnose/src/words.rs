//! Who and where, in the words of a sentence.

use model::{Circumstance, Ending, Obituary, Process};

use crate::case::{Case, Fate, main_thread, trace_of};
use crate::python;
use crate::ranges::ranges;
use crate::verdict::{Cause, Culprit};

/// `rank 2`, with the node where there are several; else `process 4711 (train.py)`.
pub(crate) fn who(case: &Case<'_>, actor: usize) -> String {
    let it = &case.actors[actor];
    let node = if case.nodes.len() > 1 {
        format!(" on {}", safe(&case.nodes[it.node].newest().task.node))
    } else {
        String::new()
    };
    match it.rank {
        Some(rank) if it.is_rank => format!("rank {rank}{node}"),
        Some(rank) => format!("process {} of rank {rank}{node}", it.process.pid),
        None => match program(it.process) {
            program if program.is_empty() => format!("process {}{node}", it.process.pid),
            program => format!("process {} ({program}){node}", it.process.pid),
        },
    }
}

/// The script or program of a process; empty where it has no command line.
pub(crate) fn program(process: &Process) -> String {
    let mut arguments = process.cmdline.iter().skip(1);
    let script = arguments.find(|argument| argument.to_ascii_lowercase().ends_with(".py"));
    let text = script.or(process.cmdline.first());
    text.map_or_else(String::new, |text| {
        safe(text.rsplit('/').next().unwrap_or(text))
    })
}

/// `ranks 0-2,5`, else `3 processes`; nothing for nobody.
pub(crate) fn many(case: &Case<'_>, actors: &[usize]) -> String {
    let ranks: Option<Vec<u64>> = actors
        .iter()
        .map(|actor| {
            case.actors[*actor]
                .rank
                .filter(|_| case.actors[*actor].is_rank)
        })
        .collect();
    match (ranks, actors) {
        (_, []) => String::new(),
        (Some(ranks), [_]) => format!("rank {}", ranges(ranks)),
        (Some(ranks), _) => format!("ranks {}", ranges(ranks)),
        (None, [one]) => who(case, *one),
        (None, _) => format!("{} processes", actors.len()),
    }
}

/// Where a culprit is: ` in load_batch (data.py:13)`.
pub(crate) fn at(culprit: &Culprit) -> String {
    culprit.frame.as_ref().map_or_else(String::new, |frame| {
        let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
        format!(
            " in {} ({}:{})",
            safe(&frame.function),
            safe(file),
            frame.line
        )
    })
}

/// Where the main thread of an actor is, or the thread that it waits for.
pub(crate) fn at_actor(case: &Case<'_>, actor: usize) -> String {
    let it = &case.actors[actor];
    let thread = (it.fate == Fate::Alive).then_some(it.waiting_thread);
    at(&case.culprit(actor, thread))
}

/// What the others wait in: the name of the function, or nothing.
pub(crate) fn meeting(case: &Case<'_>, actor: usize) -> String {
    let process = case.actors[actor].process;
    let trace = trace_of(process, process.pid);
    let frames = trace.map_or(&[][..], |trace| trace.frames.as_slice());
    let frame = python::meeting(frames).map(|index| &frames[index]);
    let frame = frame.or_else(|| python::telling_frame(frames));
    frame.map_or_else(String::new, |frame| format!(" in {}", safe(&frame.name)))
}

/// From where in the job the meeting is called that an actor is in: `, called in main (train.py:30)`; nothing where that is not known.
pub(crate) fn calling(case: &Case<'_>, actor: usize) -> String {
    let process = case.actors[actor].process;
    let trace = trace_of(process, process.pid);
    let frames = trace.map_or(&[][..], |trace| trace.frames.as_slice());
    let outer = python::meeting(frames).map_or(&[][..], |index| &frames[index + 1..]);
    let caller = outer.iter().find(|frame| !python::is_library(frame));
    caller.map_or_else(String::new, |frame| {
        let culprit = Culprit {
            frame: Some(python::place(frame)),
            ..Culprit::default()
        };
        format!(", called{}", at(&culprit))
    })
}

/// `waits` with what the kernel calls it, where nothing better is known.
pub(crate) fn call(process: &Process) -> String {
    let call = main_thread(process).and_then(|thread| thread.call.as_ref());
    call.map_or_else(
        || "waits".to_owned(),
        |call| format!("waits in {}", safe(&call.name)),
    )
}

/// How a process ended, as far as it is known.
pub(crate) fn ended(case: &Case<'_>, actor: usize) -> String {
    let it = &case.actors[actor];
    match it.ending() {
        Ending::Unknown if it.fate == Fate::Gone => "is gone".to_owned(),
        ending => how(ending),
    }
}

/// The words of an ending.
pub(crate) fn how(ending: Ending) -> String {
    match ending {
        Ending::Killed { signal, .. } => format!("was ended by {}", model::signal_name(signal)),
        Ending::Exited(code) => format!("ended with status {code}"),
        Ending::Unknown => "has ended".to_owned(),
    }
}

/// What was the matter around a process when it ended, as a cause and in words; nothing where nothing is known.
pub(crate) fn circumstance(one: &Obituary) -> (Option<Cause>, String) {
    let Some(first) = one.circumstances.first() else {
        return (None, String::new());
    };
    let (cause, words) = match first {
        Circumstance::OutOfMemory {
            limit_bytes: Some(limit),
            ..
        } => (
            Cause::OutOfMemory,
            format!(
                "because the memory of its cgroup ran out at the limit of {}",
                size(*limit)
            ),
        ),
        Circumstance::OutOfMemory { .. } => {
            let words = "because the memory of the machine ran out";
            (Cause::OutOfMemory, words.to_owned())
        }
        Circumstance::SharedMemoryFull { path, .. } => {
            (Cause::ShmFull, format!("when {} was full", safe(path)))
        }
        Circumstance::DiskFull { path, .. } => {
            let words = format!("when the file system of {} was full", safe(path));
            (Cause::DiskFull, words)
        }
        Circumstance::DescriptorsExhausted { limit, .. } => {
            let words = format!("with as many files open as it may have, {limit}");
            (Cause::FdExhausted, words)
        }
    };
    (Some(cause), format!(" {words}"))
}

/// A size as people say it: `64.0 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut unit = 0;
    // In tenths, cut: what is nearly full is not said to be.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Text of other people's processes without control characters.
pub(crate) fn safe(text: &str) -> String {
    text.chars()
        .map(|it| if it.is_control() { '\u{fffd}' } else { it })
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_in_the_unit_that_people_use() {
        let said = [0, 1023, 1024, 67_108_864, (1 << 30) - 1, 1 << 30, u64::MAX].map(size);
        let right = [
            "0 bytes",
            "1023 bytes",
            "1.0 KiB",
            "64.0 MiB",
            "1023.9 MiB",
            "1.0 GiB",
            "16383.9 PiB",
        ];
        assert_eq!(said, right);
    }
}
