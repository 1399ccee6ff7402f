//! py-spy's stack traces, packed for the pipe and corrected where py-spy cannot tell without stopping the process.

use std::collections::HashMap;

use py_spy::StackTrace;

use super::image::{self, Stat};
use super::wire::{Packed, PackedFrame, PackedNumber, PackedThread, PackedValue};
use crate::frames::Look;

/// The most frames of one process that are kept; py-spy itself stops at 4096 a thread.
const MOST_FRAMES: usize = 500_000;

/// Packs `traces` of the process `pid`. Errors: too many frames.
pub(super) fn pack(pid: i32, stat: &Stat, mut traces: Vec<StackTrace>) -> Result<Packed, String> {
    let count: usize = traces.iter().map(|trace| trace.frames.len()).sum();
    check(count, traces.len())?;
    correct(pid, stat, &mut traces);
    let mut packer = Packer::default();
    for trace in &traces {
        packer.thread(trace);
    }
    Ok(packer.packed)
}

/// Packs what our own reader saw of the process `pid`. `state` gives our id and the state letter of a thread by the id
/// that the process itself has for it.
pub(super) fn pack_look(
    pid: i32,
    stat: &Stat,
    look: &Look,
    mut state: impl FnMut(u64) -> Option<(u64, char)>,
) -> (Packed, Vec<PackedNumber>) {
    let mut packer = Packer::default();
    let mut any_runs = None;
    for thread in &look.threads {
        let is_only = look.threads.len() == 1 && stat.thread_count == 1;
        let only = || Some((u64::try_from(pid).ok()?, stat.state));
        let known = thread.kernel_id.and_then(&mut state);
        let known = known.or_else(|| only().filter(|_| is_only));
        let active = match known {
            Some((_, letter)) => letter == 'R',
            None => any_runs
                .get_or_insert_with(|| image::any_thread_runs(pid))
                .unwrap_or(true),
        };
        let frames = thread.frames.iter().map(|frame| {
            let text = (frame.function(), frame.file());
            packer.frame(text, frame.line, frame.is_entry, frame.is_shim_entry)
        });
        let frames = frames.collect();
        packer.packed.threads.push(PackedThread {
            active,
            frames,
            os_thread_id: known.map(|(tid, _)| tid),
            owns_gil: thread.owns_gil,
            thread_id: thread.id,
            thread_name: thread.name.as_deref().map(str::to_owned),
        });
    }
    let index = |index| u32::try_from(index).expect("the frames of one process are limited");
    let numbers = look.numbers.iter().map(|number| PackedNumber {
        thread: index(number.thread),
        frame: index(number.frame),
        name: number.name.clone(),
        value: PackedValue::of(&number.value),
    });
    (packer.packed, numbers.collect())
}

fn check(frames: usize, threads: usize) -> Result<(), String> {
    if frames > MOST_FRAMES {
        return Err(format!(
            "{frames} frames in {threads} threads are more than the {MOST_FRAMES} that are kept"
        ));
    }
    Ok(())
}

/// Fills in what `CPython` up to 3.10 does not tell, and what py-spy misreads.
fn correct(pid: i32, stat: &Stat, traces: &mut [StackTrace]) {
    if let ([only], 1) = (&mut *traces, stat.thread_count) {
        only.os_thread_id = only.os_thread_id.or(u64::try_from(pid).ok());
        // py-spy did not know the thread, so it did not know its state.
        only.active &= stat.state == 'R';
    }
    let mut any_runs = None;
    for trace in traces.iter_mut().filter(|trace| trace.active) {
        match trace.os_thread_id {
            Some(tid) => {
                if let Some(state) = image::state_under_odd_name(pid, tid) {
                    trace.active = state == 'R';
                }
            }
            None => {
                trace.active = any_runs
                    .get_or_insert_with(|| image::any_thread_runs(pid))
                    .unwrap_or(true);
            }
        }
    }
}

#[derive(Default)]
struct Packer<'a> {
    packed: Packed,
    strings: HashMap<&'a str, u32>,
    frames: HashMap<PackedFrame, u32>,
}

impl<'a> Packer<'a> {
    fn thread(&mut self, trace: &'a StackTrace) {
        let frames = trace.frames.iter().map(|frame| {
            let text = (frame.name.as_str(), frame.filename.as_str());
            self.frame(text, frame.line, frame.is_entry, frame.is_shim_entry)
        });
        let frames = frames.collect();
        self.packed.threads.push(PackedThread {
            active: trace.active,
            frames,
            os_thread_id: trace.os_thread_id,
            owns_gil: trace.owns_gil,
            thread_id: trace.thread_id,
            thread_name: trace.thread_name.clone(),
        });
    }

    fn frame(
        &mut self,
        (function, file): (&'a str, &'a str),
        line: i32,
        is_entry: bool,
        is_shim_entry: bool,
    ) -> u32 {
        let (function, file) = (self.string(function), self.string(file));
        let frame = PackedFrame(function, file, line, is_entry, is_shim_entry);
        *self
            .frames
            .entry(frame)
            .or_insert_with(|| push(&mut self.packed.frames, frame))
    }

    fn string(&mut self, text: &'a str) -> u32 {
        *self
            .strings
            .entry(text)
            .or_insert_with(|| push(&mut self.packed.strings, text.to_owned()))
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    u32::try_from(list.len() - 1).expect("the frames of one process are limited")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(lines: &[i32]) -> StackTrace {
        let frame = |&line| py_spy::Frame {
            name: "step".into(),
            filename: "/a/train.py".into(),
            module: None,
            short_filename: None,
            line,
            locals: None,
            is_entry: false,
            is_shim_entry: false,
        };
        StackTrace {
            pid: 7,
            thread_id: 1,
            thread_name: None,
            os_thread_id: None,
            active: true,
            owns_gil: false,
            frames: lines.iter().map(frame).collect(),
            process_info: None,
        }
    }

    fn stat(state: char, thread_count: u64) -> Stat {
        Stat {
            state,
            thread_count,
            start_time_ticks: 1,
            stack_start: 1,
        }
    }

    #[test]
    fn equal_frames_and_strings_are_packed_once() {
        let packed = pack(7, &stat('S', 1), vec![trace(&[1, 2]), trace(&[3, 2])]).unwrap();
        assert_eq!(packed.strings, ["step", "/a/train.py"]);
        assert_eq!(packed.frames.len(), 3);
        let traces = packed.unpack(7).unwrap();
        let lines = |index: usize| -> Vec<i32> {
            traces[index]
                .frames
                .iter()
                .map(|frame| frame.line)
                .collect()
        };
        assert_eq!((lines(0), lines(1)), (vec![1, 2], vec![3, 2]));
    }

    #[test]
    fn the_only_thread_of_a_process_is_its_main_thread() {
        let pid = rustix::process::getpid().as_raw_pid();
        let traces = pack(pid, &stat('S', 1), vec![trace(&[1])]).unwrap();
        let thread = &traces.threads[0];
        assert_eq!(thread.os_thread_id, u64::try_from(pid).ok());
        assert!(!thread.active);
    }

    #[test]
    fn a_thread_among_others_keeps_its_unknown_id() {
        let pid = rustix::process::getpid().as_raw_pid();
        let traces = pack(pid, &stat('S', 2), vec![trace(&[1])]).unwrap();
        assert_eq!(traces.threads[0].os_thread_id, None);
    }

    #[test]
    fn too_many_frames_are_refused_with_their_number() {
        assert_eq!(check(MOST_FRAMES, 2), Ok(()));
        let error = check(MOST_FRAMES + 1, 2).unwrap_err();
        assert!(error.starts_with("500001 frames in 2 threads"), "{error}");
    }
}
