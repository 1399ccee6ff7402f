//! The processes of all nodes as trees: which rank, in which state, with how much, and what each waits for.

use std::collections::{BTreeMap, HashMap, HashSet};

use diagnose::{History, Waiting, Waits, rank_processes};
use maud::{Markup, html};
use model::{Process, ProcessId, Snapshot, Target, size_words, state_words};
use store::Key;

use super::trouble::gaps;
use crate::answer::Trouble;
use crate::digest::{place, short};
use crate::moment::{Moment, NodeAt, read, readable};
use crate::query::written;
use crate::shelf::Loaded;
use crate::view::View;
use crate::work::Work;

/// Rows at most; the rest is counted.
const ROWS: usize = 600;

/// What is known of one snapshot for its rows.
struct Node<'a> {
    before: Option<&'a Snapshot>,
    moment: &'a Moment,
    ranks: HashMap<ProcessId, u64>,
    roles: HashMap<ProcessId, String>,
    snapshot: &'a Snapshot,
    waits: HashMap<ProcessId, &'a Waiting>,
}

/// Returns the part.
pub(crate) async fn processes(view: &View, moment: &Moment) -> Result<Markup, Trouble> {
    let loaded = moment.snapshots(&view.shelf).await;
    let before = read(&view.shelf, earlier(moment)).await;
    let (moment, is_large) = (moment.clone(), Work::is_large(readable(&loaded)));
    view.drawn(is_large, move || drawn(&moment, &loaded, &before))
        .await
}

fn drawn(moment: &Moment, loaded: &[Loaded], before: &[Loaded]) -> Markup {
    let snapshots = readable(loaded);
    let waits = waits(&snapshots);
    let before = readable(before);
    let mut left = ROWS;
    let mut all = 0;
    let nodes: Vec<Markup> = snapshots
        .iter()
        .map(|snapshot| {
            let mut before = before.iter().copied();
            let node = Node::of(
                moment,
                snapshot,
                before.find(|it| it.task.node == snapshot.task.node),
                &waits,
            );
            all += snapshot.processes.len();
            node.rows(&mut left)
        })
        .collect();
    html! {
        div.wide.tall tabindex="0" {
            table.processes.folding {
                thead { tr {
                    th { "process" } th { "part" } th { "state" } th.number { "RSS" } th.number { "CPU" }
                    th { "at" } th { "waits" }
                } }
                @for rows in &nodes { (rows) }
            }
        }
        @if left == 0 { p.quiet { "the first " (ROWS) " of " (all) "; the matrix of ranks has all ranks" } }
        (gaps(loaded))
    }
}

/// The snapshots before those of a moment: rates come from both.
fn earlier(moment: &Moment) -> Vec<(Key, store::Entry)> {
    let before = |at: &NodeAt| {
        let node = moment.run.node(&at.place.node)?;
        let entry = node.entries.get(at.position.checked_sub(1)?)?;
        Some((node.key(entry), *entry))
    };
    moment.nodes.iter().filter_map(before).collect()
}

/// What each process of these snapshots waits for.
pub(crate) fn waits(snapshots: &[&Snapshot]) -> Waits {
    let histories: Vec<History<'_>> = snapshots
        .iter()
        .map(|snapshot| History {
            snapshots: vec![snapshot],
            ends: Vec::new(),
        })
        .collect();
    Waits::of(&histories)
}

impl<'a> Node<'a> {
    fn of(
        moment: &'a Moment,
        snapshot: &'a Snapshot,
        before: Option<&'a Snapshot>,
        waits: &'a Waits,
    ) -> Self {
        let of_node = waits.waits.iter();
        let of_node = of_node.filter(|waiting| waiting.node == snapshot.task.node);
        let ranks = rank_processes(snapshot).into_iter();
        Self {
            before,
            moment,
            ranks: ranks
                .map(|(rank, process)| (process.identity, rank))
                .collect(),
            roles: roles(snapshot),
            snapshot,
            waits: of_node.map(|waiting| (waiting.process, waiting)).collect(),
        }
    }

    fn rows(&self, left: &mut usize) -> Markup {
        let node = &self.snapshot.task.node;
        html! {
            tbody {
                @if self.moment.nodes.len() > 1 { tr.node { th colspan="7" { (node) } } }
                @for (depth, process) in tree(self.snapshot) {
                    @if *left > 0 {
                        ({ *left -= 1; "" })
                        (self.row(depth, process))
                    }
                }
            }
        }
    }

    fn row(&self, depth: usize, process: &Process) -> Markup {
        let waiting = self.waits.get(&process.identity);
        html! {
            tr {
                td {
                    span.depth { (INDENT.repeat(depth.min(12))) }
                    a href={ "process?" (address(self.moment, &self.snapshot.task.node, process)) } { (process.pid) }
                    " " span.command title=(short(&process.command)) { (short(without_folder(&process.command))) }
                }
                td { (self.part(process)) }
                td.bad[matches!(process.state, 'D' | 'T' | 't' | 'Z' | 'X')] { (state_words(process.state)) }
                td.number data-name="RSS" { @if let Some(memory) = &process.memory { (size_words(memory.rss_bytes)) } @else { "?" } }
                td.number data-name="CPU" { (self.cpu(process).map_or_else(|| "?".to_owned(), |percent| format!("{percent:.0} %"))) }
                td.at { code { (place(process)) } }
                td.waits {
                    @if let Some(waiting) = waiting {
                        (short(&waiting.words))
                        @if waiting.is_in_circle { " " strong.bad { "in a circle" } }
                    }
                }
            }
        }
    }

    fn part(&self, process: &Process) -> String {
        let rank = self.ranks.get(&process.identity);
        let role = self.roles.get(&process.identity);
        match (rank, role) {
            (Some(rank), _) => format!("rank {rank}"),
            (None, Some(role)) => short(role),
            (None, None) => String::new(),
        }
    }

    /// CPU time since the snapshot before, percent of one core.
    fn cpu(&self, process: &Process) -> Option<f64> {
        let before = self.before?;
        let earlier = before.processes.iter();
        let earlier = earlier.clone().find(|it| it.identity == process.identity)?;
        let used = |process: &Process| {
            let facts = &process.proc;
            facts.utime_ticks?.checked_add(facts.stime_ticks?)
        };
        let ticks = used(process)?.checked_sub(used(earlier)?)?;
        let time = self
            .snapshot
            .capture
            .started_at
            .since(before.capture.started_at);
        let second = self.snapshot.machine.clock_ticks_per_second.max(1);
        let ticks = f64::from(u32::try_from(ticks).ok()?);
        let second = f64::from(u32::try_from(second).ok()?);
        (!time.is_zero()).then(|| ticks / second / time.as_secs_f64() * 100.0)
    }
}

/// A command without the folder of its program, which says little and takes much room.
fn without_folder(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or(command);
    program
        .rfind('/')
        .map_or(command, |slash| &command[slash + 1..])
}

/// What stands before a process for each process above it.
const INDENT: &str = "\u{2502} ";

/// What plugins say that processes are.
fn roles(snapshot: &Snapshot) -> HashMap<ProcessId, String> {
    let roles = snapshot.annotations.iter().filter(|it| it.key == "role");
    roles
        .filter_map(|it| match it.target {
            Target::Process(identity) => Some((identity, it.value.to_string())),
            _ => None,
        })
        .collect()
}

/// Returns the query of the page of a process.
pub(crate) fn address(moment: &Moment, node: &str, process: &Process) -> String {
    written([
        ("task", moment.run.id.task.to_string()),
        ("attempt", moment.run.id.attempt.to_string()),
        ("node", node.to_owned()),
        ("process", process.identity.to_string()),
        ("at", moment.named(node)),
    ])
}

/// The processes in the order of a tree, the oldest first, each with how many are above it. A parent that is its own descendant, in a damaged
/// snapshot, is a beginning.
fn tree(snapshot: &Snapshot) -> Vec<(usize, &Process)> {
    let pids: HashSet<i32> = snapshot.processes.iter().map(|it| it.pid).collect();
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    let mut roots = Vec::new();
    let by_age = snapshot.by_age().into_iter();
    let by_age: Vec<&Process> = by_age.map(|index| &snapshot.processes[index]).collect();
    for process in by_age.iter().copied() {
        if pids.contains(&process.ppid) && process.ppid != process.pid {
            children.entry(process.ppid).or_default().push(process);
        } else {
            roots.push(process);
        }
    }
    let mut ordered = Vec::new();
    let mut seen = HashSet::new();
    // What is in no tree, because it is in a circle, comes last.
    for root in roots.into_iter().chain(by_age) {
        let mut waiting = vec![(0, root)];
        while let Some((depth, process)) = waiting.pop() {
            if seen.insert(process.identity) {
                ordered.push((depth, process));
                let below = children.get(&process.pid).into_iter().flatten().rev();
                waiting.extend(below.map(|child| (depth + 1, *child)));
            }
        }
    }
    ordered
}
