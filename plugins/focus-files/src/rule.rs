//! The rule, without any WebAssembly: stacks and threads in, scores out.
//!
//! A stack is as near to the focus as its innermost frame there: with `d` frames further in, it scores 1 / (1 + d). So 1
//! is a thread that is in the user's own code now, and 0.1 one that went nine calls deep into a library from there. A
//! frame scores the sum of the scores of all threads for which it is that innermost frame: how much happens there.

use std::collections::BTreeMap;

use crate::focus::Focus;

/// All distinct stacks; stack `i` is `frame_ids[offsets[i] .. offsets[i + 1]]`, innermost frame first.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) frame_ids: Vec<u32>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) offsets: Vec<u32>,
    pub(crate) strings: Vec<String>,
}

/// One frame: indices of strings, and the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) file: usize,
    pub(crate) function: usize,
    pub(crate) line: u32,
}

/// One thread that has a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) running: bool,
    pub(crate) stack: u32,
}

/// What is said about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Frame(u32),
    Stack(u32),
}

/// One statement.
#[derive(Debug, PartialEq)]
pub(crate) enum Score {
    Number(Target, f64),
    /// Of the process with this PID: the line in focus at which most happens.
    HottestLine(u32, String),
}

/// Where a stack is nearest to the focus.
#[derive(Clone, Copy, Debug)]
struct Nearest {
    frame: u32,
    score: f64,
}

/// What happens at one frame of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Heat {
    running: u32,
    score: f64,
    threads: u32,
}

/// Scores the stacks and frames, and names each process's hottest line.
pub(crate) fn judge(focus: &Focus, table: &Table, threads: &[Thread]) -> Vec<Score> {
    let is_in_focus = table.in_focus(focus);
    let nearest: Vec<Option<Nearest>> = (0..table.stack_count())
        .map(|stack| table.nearest(stack, &is_in_focus))
        .collect();
    let mut scores = Vec::new();
    for (stack, nearest) in (0..).zip(&nearest) {
        if let Some(nearest) = nearest {
            scores.push(Score::Number(Target::Stack(stack), nearest.score));
        }
    }
    let mut frames: BTreeMap<u32, f64> = BTreeMap::new();
    let mut processes: BTreeMap<u32, BTreeMap<u32, Heat>> = BTreeMap::new();
    for thread in threads {
        let Some(Some(nearest)) = nearest.get(thread.stack as usize) else {
            continue;
        };
        *frames.entry(nearest.frame).or_default() += nearest.score;
        let process = processes.entry(thread.pid).or_default();
        let heat = process.entry(nearest.frame).or_default();
        heat.running += u32::from(thread.running);
        heat.score += nearest.score;
        heat.threads += 1;
    }
    let frames = frames.into_iter();
    scores.extend(frames.map(|(frame, score)| Score::Number(Target::Frame(frame), rounded(score))));
    for (pid, heats) in processes {
        let hottest = heats
            .into_iter()
            .max_by(|(_, one), (_, other)| one.order(other));
        if let Some(line) = hottest.and_then(|(frame, _)| table.line(frame)) {
            scores.push(Score::HottestLine(pid, line));
        }
    }
    scores
}

impl Table {
    fn stack_count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Which frames are in focus. Each file is matched once.
    fn in_focus(&self, focus: &Focus) -> Vec<bool> {
        let mut files: BTreeMap<usize, bool> = BTreeMap::new();
        let frames = self.frames.iter();
        frames
            .map(|frame| {
                let name = || self.strings.get(frame.file).map_or("", String::as_str);
                *files.entry(frame.file).or_insert_with(|| focus.has(name()))
            })
            .collect()
    }

    fn nearest(&self, stack: usize, is_in_focus: &[bool]) -> Option<Nearest> {
        let from = *self.offsets.get(stack)? as usize;
        let to = *self.offsets.get(stack + 1)? as usize;
        let frames = self.frame_ids.get(from..to)?;
        let is_in_focus = |frame: &u32| is_in_focus.get(*frame as usize) == Some(&true);
        let (depth, &frame) = (0_u32..)
            .zip(frames)
            .find(|(_, frame)| is_in_focus(frame))?;
        Some(Nearest {
            frame,
            score: rounded(1.0 / (1.0 + f64::from(depth))),
        })
    }

    /// `file:line function`
    fn line(&self, frame: u32) -> Option<String> {
        let frame = self.frames.get(frame as usize)?;
        let file = self.strings.get(frame.file)?;
        let function = self.strings.get(frame.function)?;
        Some(format!("{file}:{} {function}", frame.line))
    }
}

impl Heat {
    /// Threads that run count first, then how many there are, then how near.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let counts = (self.running, self.threads).cmp(&(other.running, other.threads));
        counts.then(self.score.total_cmp(&other.score))
    }
}

/// To three digits: a score is a hint, and short numbers are small in a snapshot.
fn rounded(score: f64) -> f64 {
    (score * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
