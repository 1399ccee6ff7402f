//! The processes of a snapshot as a tree, one line each.

use model::{Process, Snapshot};

pub(crate) use model::state_words;

use super::text::{base_name, cut, red, safe, yellow};
use super::{Notes, doing, steps, table};
use crate::ui::Ui;

/// The widest that a process's name and place in the tree may be.
const NAME_WIDTH: usize = 44;

/// Returns the tree with its heading.
pub(crate) fn tree(snapshot: &Snapshot, earlier: Option<&Snapshot>, ui: Ui) -> String {
    let notes = Notes::of(snapshot);
    let has_steps = snapshot.processes.iter().any(|it| !it.steps.is_empty());
    let headings = [
        "PID  COMMAND",
        "PART",
        "STATE",
        "RSS",
        "CPU",
        "STEP",
        "DOING",
    ];
    let mut rows = vec![headings.map(str::to_owned)];
    let mut states = vec![' '];
    for (prefix, process) in order(snapshot) {
        let name = format!("{prefix}{}  {}", process.pid, command(process));
        rows.push([
            cut(&name, NAME_WIDTH),
            notes.part(process.identity),
            state_words(process.state).to_owned(),
            memory(process),
            cpu(snapshot, process),
            steps::short(snapshot, process, earlier),
            doing::doing(snapshot, process),
        ]);
        states.push(process.state);
    }
    // Most tasks have none, and a line is short.
    let aligned = if has_steps {
        table::align(&rows)
    } else {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|[name, part, state, rss, cpu, _, doing]| [name, part, state, rss, cpu, doing])
            .collect();
        table::align(&rows)
    };
    let mut page = String::new();
    for (line, state) in aligned.lines().zip(states) {
        // On a terminal a wrapped line breaks the tree; in a pipe nothing is lost.
        let line = if ui.terminal {
            cut(line, ui.width)
        } else {
            line.to_owned()
        };
        page.push_str(&match state {
            'D' | 'T' | 't' => yellow(&line, ui.color),
            'Z' | 'X' => red(&line, ui.color),
            _ => line,
        });
        page.push('\n');
    }
    page
}

/// Parents before children, of those the oldest first; the prefix draws the branches.
fn order(snapshot: &Snapshot) -> Vec<(String, &Process)> {
    let by_age = snapshot.by_age().into_iter();
    let processes: Vec<&Process> = by_age.map(|index| &snapshot.processes[index]).collect();
    let here = |pid: i32| processes.iter().any(|process| process.pid == pid);
    let mut ordered = Vec::new();
    for process in &processes {
        if process.ppid == process.pid || !here(process.ppid) {
            ordered.push((String::new(), *process));
            descend(&processes, process, "", &mut ordered);
        }
    }
    ordered
}

fn descend<'a>(
    processes: &[&'a Process],
    parent: &Process,
    indent: &str,
    ordered: &mut Vec<(String, &'a Process)>,
) {
    let children: Vec<&Process> = processes
        .iter()
        .copied()
        .filter(|process| process.ppid == parent.pid && process.pid != parent.pid)
        .collect();
    for (index, child) in children.iter().enumerate() {
        // Parents that name each other in a circle exist only in a broken document: stop there.
        if ordered.len() > processes.len() {
            return;
        }
        let last = index + 1 == children.len();
        let (branch, below) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        ordered.push((format!("{indent}{branch}"), child));
        descend(processes, child, &format!("{indent}{below}"), ordered);
    }
}

/// The program and its arguments, paths as their last part.
fn command(process: &Process) -> String {
    if process.cmdline.is_empty() {
        let name = process.proc.status.get("Name").map_or("?", String::as_str);
        return format!("[{}]", safe(name));
    }
    let words: Vec<String> = process
        .cmdline
        .iter()
        .map(|word| safe(short(word)))
        .collect();
    words.join(" ")
}

/// An argument that is a path becomes its last part; anything else stays.
fn short(word: &str) -> &str {
    if word.starts_with('/') || word.starts_with("./") {
        base_name(word)
    } else {
        word
    }
}

fn memory(process: &Process) -> String {
    match &process.memory {
        Some(memory) => table::bytes(memory.rss_bytes),
        None if process.state == 'Z' => "-".to_owned(),
        None => "?".to_owned(),
    }
}

fn cpu(snapshot: &Snapshot, process: &Process) -> String {
    match (process.proc.utime_ticks, process.proc.stime_ticks) {
        (Some(user), Some(system)) if snapshot.machine.clock_ticks_per_second > 0 => {
            table::ticks(user + system, snapshot.machine.clock_ticks_per_second)
        }
        _ => "?".to_owned(),
    }
}
