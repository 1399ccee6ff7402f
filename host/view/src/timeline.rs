//! One node over time: its snapshots, what their digests say, and what the samples between them come to.

use std::sync::Arc;

use model::Timestamp;
use monitor::Point;
use serde::Serialize;

use crate::answer::Trouble;
use crate::curves::{Curves, Event};
use crate::digest::{Brief, Digest};
use crate::grid::{Cell, Grid, findings, grid, window};
use crate::query::Query;
use crate::runs::{Node, Run};
use crate::view::View;

/// Times of snapshots that are told one by one; of more, every so many.
const MARKS: usize = 20_000;

/// Times with findings that are told, the first ones.
const FOUND: usize = 512;

/// A node over time. Times are microseconds since 1970 by the clock of the run's first node; columns of one object have a value for each `at`, null where it is
/// not known.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    /// How far the clock of this node is taken to be ahead of that of the first one, microseconds.
    ahead: i64,
    /// What samples come to: the highest values within the time of a point.
    curve: CurveColumns,
    /// Ends and stages.
    events: Vec<Event>,
    /// From when until when all snapshots have findings, as the index says.
    found: Vec<(i64, i64)>,
    from: i64,
    looks: LookColumns,
    /// How many objects are not read yet: ask again.
    pub(crate) missing: usize,
    node: String,
    nodes: Vec<String>,
    /// How many snapshots this node has.
    snapshot_count: usize,
    /// When they were taken: the first time, then differences.
    snapshots: Vec<i64>,
    to: i64,
    /// What cannot be read, in words.
    troubles: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct CurveColumns {
    at: Vec<i64>,
    cgroup_memory_bytes: Vec<Option<u64>>,
    cpu_percent: Vec<Option<f64>>,
    process_count: Vec<u64>,
    read_bytes: Vec<Option<u64>>,
    tree_pss_bytes: Vec<Option<u64>>,
    tree_rss_bytes: Vec<Option<u64>>,
    written_bytes: Vec<Option<u64>>,
}

/// What snapshots say; of those that are read.
#[derive(Debug, Default, Serialize)]
struct LookColumns {
    at: Vec<i64>,
    /// CPU time since the look before, percent of one core; null where processes have ended that had more.
    cpu_percent: Vec<Option<f64>>,
    findings: Vec<Vec<Brief>>,
    gaps: Vec<u64>,
    gpu_percent: Vec<Option<f64>>,
    memory_bytes: Vec<Option<u64>>,
    memory_limit_bytes: Vec<Option<u64>>,
    pressure_cpu_percent: Vec<Option<f64>>,
    pressure_io_percent: Vec<Option<f64>>,
    pressure_memory_percent: Vec<Option<f64>>,
    processes: Vec<u64>,
    /// Time that the quota held threads back since the look before, percent of it; over 100 with several threads.
    throttled_percent: Vec<Option<f64>>,
}

impl View {
    /// Returns the time of the node that a query names, else of the one that is shown first.
    pub(crate) async fn timeline(
        &self,
        run: &Arc<Run>,
        query: &Query,
    ) -> Result<Timeline, Trouble> {
        let Some(window) = window(run, query) else {
            return Err(Trouble::missing(
                "there is no snapshot yet",
                "the first one comes right after the start",
            ));
        };
        let node = self.node_of(run, query)?;
        let nodes = [node];
        let (grid, curves) = tokio::join!(
            grid(&self.shelf, &nodes, window),
            self.curves.of(&self.store, &node.place)
        );
        let mut troubles: Vec<String> = node.trouble.iter().cloned().collect();
        let looks = looks(&grid, &mut troubles);
        let Curves {
            events,
            missing,
            points,
            trouble,
        } = curves;
        troubles.extend(trouble);
        let (snapshots, snapshot_count) = marks(node);
        Ok(Timeline {
            ahead: node.ahead,
            curve: curve(&points, node, window),
            events: events
                .into_iter()
                .map(|it| it.earlier(node.ahead))
                .collect(),
            found: times_found(node),
            from: window.0.as_microseconds(),
            looks,
            missing: grid.missing + missing,
            node: node.place.node.clone(),
            nodes: run.nodes.iter().map(|it| it.place.node.clone()).collect(),
            snapshot_count,
            snapshots,
            to: window.1.as_microseconds(),
            troubles,
        })
    }

    /// Returns the node that a query names, else the one that is shown first.
    pub(crate) fn node_of<'a>(&self, run: &'a Run, query: &Query) -> Result<&'a Node, Trouble> {
        if let Some(name) = &query.node {
            return run.node(name).ok_or_else(|| {
                let names: Vec<&str> = run.nodes.iter().map(|it| it.place.node.as_str()).collect();
                Trouble::missing(
                    format!("this run has no node `{name}`"),
                    format!("it has {}", names.join(", ")),
                )
            });
        }
        let shown = self.shown.node.as_deref().and_then(|name| run.node(name));
        let first = || run.nodes.iter().find(|node| !node.entries.is_empty());
        shown.or_else(first).or(run.nodes.first()).ok_or_else(|| {
            Trouble::missing("this run has no node yet", "wait for its first snapshot")
        })
    }
}

fn marks(node: &Node) -> (Vec<i64>, usize) {
    let count = node.entries.len();
    let each = count.div_ceil(MARKS).max(1);
    // From the end, so that the newest is among them.
    let mut times: Vec<i64> = node
        .entries
        .iter()
        .rev()
        .step_by(each)
        .map(|entry| node.common(entry.at()).as_microseconds())
        .collect();
    times.sort_unstable();
    let mut before = 0;
    let differences = times
        .iter()
        .map(|at| at - std::mem::replace(&mut before, *at));
    (differences.collect(), count)
}

/// When snapshots that follow one another have findings.
fn times_found(node: &Node) -> Vec<(i64, i64)> {
    let mut times: Vec<(i64, i64)> = Vec::new();
    let mut is_open = false;
    for entry in &node.entries {
        let at = node.common(entry.at()).as_microseconds();
        let has_some = findings(entry) > 0;
        match times.last_mut() {
            Some((_, until)) if is_open && has_some => *until = at,
            _ if has_some => times.push((at, at)),
            _ => {}
        }
        is_open = has_some;
    }
    times.truncate(FOUND);
    times
}

fn looks(grid: &Grid, troubles: &mut Vec<String>) -> LookColumns {
    let mut columns = LookColumns::default();
    let mut before: Option<(Timestamp, &Digest)> = None;
    let mut unreadable = 0;
    for cell in grid.cells.iter().flatten() {
        let (at, digest) = match cell {
            Cell::Read(at, Ok(digest)) => (*at, &**digest),
            Cell::Read(_, Err(words)) => {
                unreadable += 1;
                if unreadable == 1 {
                    troubles.push(words.to_string());
                }
                continue;
            }
            Cell::Before | Cell::Unread => continue,
        };
        columns.at.push(at.as_microseconds());
        columns.cpu_percent.push(busy(before, at, digest));
        columns.findings.push(digest.findings.clone());
        columns.gaps.push(digest.gaps);
        columns.gpu_percent.push(digest.gpu_percent);
        columns.memory_bytes.push(digest.memory_bytes);
        columns.memory_limit_bytes.push(digest.memory_limit_bytes);
        let [cpu, io, memory] = digest.pressure;
        columns.pressure_cpu_percent.push(cpu);
        columns.pressure_io_percent.push(io);
        columns.pressure_memory_percent.push(memory);
        columns.processes.push(digest.processes);
        columns
            .throttled_percent
            .push(throttled(before, at, digest));
        before = Some((at, digest));
    }
    if unreadable > 1 {
        troubles.push(format!(
            "and {} more of the snapshots shown",
            unreadable - 1
        ));
    }
    columns
}

fn busy(before: Option<(Timestamp, &Digest)>, at: Timestamp, digest: &Digest) -> Option<f64> {
    let (earlier, before) = before?;
    let used = digest.cpu_s? - before.cpu_s?;
    let time = at.since(earlier).as_secs_f64();
    (time > 0.0 && used >= 0.0).then(|| used / time * 100.0)
}

fn throttled(before: Option<(Timestamp, &Digest)>, at: Timestamp, digest: &Digest) -> Option<f64> {
    let (earlier, before) = before?;
    let held = digest.throttled_usec?.checked_sub(before.throttled_usec?)?;
    let time = at.since(earlier).as_secs_f64();
    let held = std::time::Duration::from_micros(held).as_secs_f64();
    (time > 0.0).then(|| held / time * 100.0)
}

fn curve(points: &[Point], node: &Node, (from, to): (Timestamp, Timestamp)) -> CurveColumns {
    let mut columns = CurveColumns::default();
    for point in points {
        let at = node.common(point.at);
        if !(from..=to).contains(&at) {
            continue;
        }
        columns.at.push(at.as_microseconds());
        columns.cgroup_memory_bytes.push(point.cgroup_memory_bytes);
        columns.cpu_percent.push(point.cpu_percent);
        columns.process_count.push(point.process_count);
        columns.read_bytes.push(point.read_bytes);
        columns.tree_pss_bytes.push(point.tree_pss_bytes);
        columns.tree_rss_bytes.push(point.tree_rss_bytes);
        columns.written_bytes.push(point.written_bytes);
    }
    columns
}
