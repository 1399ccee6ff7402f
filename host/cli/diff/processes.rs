//! Processes that came, went, became another program or another state; and their memory.

use model::{Process, Snapshot};

use super::{Change, Kind, both};
use crate::page::{base_name, safe, state_words, table};

/// Less than this, and less than a hundredth, is no news.
const MEMORY_NEWS_BYTES: u64 = 1 << 20;

pub(super) fn changes(from: &Snapshot, to: &Snapshot) -> Vec<Change> {
    let is_in = |snapshot: &Snapshot, process: &Process| {
        let mut processes = snapshot.processes.iter();
        processes.any(|other| other.identity == process.identity)
    };
    let went = from.processes.iter().filter(|process| !is_in(to, process));
    let mut changes: Vec<Change> = went
        .map(|process| {
            let text = format!("is gone: {}", command(process));
            Change::of(Kind::Went, process.identity, text)
        })
        .collect();
    for process in to.processes.iter().filter(|process| !is_in(from, process)) {
        let text = format!("came, from {}: {}", process.ppid, command(process));
        changes.push(Change::of(Kind::Came, process.identity, text));
    }
    for (before, after) in both(from, to) {
        changes.extend(exec(before, after));
        changes.extend(state(before, after));
    }
    changes
}

fn exec(before: &Process, after: &Process) -> Option<Change> {
    let counted = before.exec_generation.zip(after.exec_generation);
    let is_another = counted.map_or(before.exe != after.exe, |(before, after)| after > before);
    is_another.then(|| {
        let text = format!(
            "is another program: {} -> {}",
            command(before),
            command(after)
        );
        Change::of(Kind::Exec, after.identity, text)
    })
}

fn state(before: &Process, after: &Process) -> Option<Change> {
    if before.state == after.state {
        return None;
    }
    if after.state == 'Z' {
        let how = match (after.proc.exit_signal, after.proc.exit_code) {
            (Some(signal), _) => format!("killed by signal {signal}"),
            (None, Some(code)) => format!("ended with status {code}"),
            (None, None) => "ended".to_owned(),
        };
        let text = format!("{how}; its parent {} has not waited for it", after.ppid);
        return Some(Change::of(Kind::Went, after.identity, text));
    }
    // Between these two a healthy process goes to and fro.
    let is_common = |state: char| matches!(state, 'R' | 'S');
    if is_common(before.state) && is_common(after.state) {
        return None;
    }
    let (before, now) = (state_words(before.state), state_words(after.state));
    let text = format!("{before} -> {now}");
    Some(Change::of(Kind::State, after.identity, text))
}

pub(super) fn memory(before: &Process, after: &Process) -> Option<Change> {
    let (before, now) = (before.memory.as_ref()?, after.memory.as_ref()?);
    let (before, now) = (before.rss_bytes, now.rss_bytes);
    if before.abs_diff(now) < MEMORY_NEWS_BYTES.max(before / 100) {
        return None;
    }
    let text = format!("{} -> {}", table::bytes(before), table::bytes(now));
    Some(Change::of(Kind::Memory, after.identity, text))
}

fn command(process: &Process) -> String {
    let words: Vec<String> = process
        .cmdline
        .iter()
        .map(|word| {
            safe(if word.starts_with('/') {
                base_name(word)
            } else {
                word
            })
        })
        .collect();
    if words.is_empty() {
        let name = process.proc.status.get("Name");
        return format!("[{}]", safe(name.map_or("?", String::as_str)));
    }
    words.join(" ")
}
