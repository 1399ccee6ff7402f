//! Ranks by time: where each rank was at each of a row of instants.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::Timestamp;
use serde::Serialize;

use crate::answer::Trouble;
use crate::digest::Digest;
use crate::grid::{Cell, Grid, grid, window};
use crate::query::Query;
use crate::runs::{Node, Run};
use crate::view::View;

/// No snapshot of the node of this rank is read yet.
const UNREAD: i64 = -1;
/// The rank was not there.
const ABSENT: i64 = -2;
/// The snapshot of its node cannot be read.
const UNREADABLE: i64 = -3;
/// Its node had stored nothing for a while.
const SILENT: i64 = -4;

/// The matrix. Rows of numbers are written as runs: a value, how often it follows, the next value, and so on.
#[derive(Debug, Serialize)]
pub(crate) struct Matrix {
    /// Places; the cells name them by number, the most frequent first.
    classes: Vec<String>,
    /// By instant: of each rank the number of its class, or -1 (not read yet), -2 (not there), -3 (unreadable),
    /// -4 (its node had stored nothing for a while).
    cells: Vec<Vec<i64>>,
    /// When, microseconds since 1970.
    columns: Vec<i64>,
    /// How many snapshots are not read yet: ask again.
    pub(crate) missing: usize,
    /// Of each rank the number of its node, as runs.
    node_of: Vec<i64>,
    nodes: Vec<String>,
    /// The ranks, ascending.
    ranks: Vec<u64>,
    /// By instant: of each rank the number that it counts, null where there is none, as runs. Empty where nobody counts.
    steps: Vec<Vec<Option<f64>>>,
}

impl View {
    /// Returns the matrix of a run.
    pub(crate) async fn matrix(&self, run: &Arc<Run>, query: &Query) -> Result<Matrix, Trouble> {
        let Some(window) = window(run, query) else {
            return Err(Trouble::missing(
                "there is no snapshot yet",
                "the first one comes right after the start",
            ));
        };
        let nodes: Vec<&Node> = run.nodes.iter().collect();
        let grid = grid(&self.shelf, &nodes, window).await;
        let run = Arc::clone(run);
        self.drawn(false, move || matrix(&run.nodes, &grid)).await
    }
}

fn matrix(nodes: &[Node], grid: &Grid) -> Matrix {
    let node_of = node_of(grid);
    let classes = classes(grid);
    let numbers: HashMap<&str, i64> = (0..).zip(&classes).map(|(at, it)| (*it, at)).collect();
    let class = |column: usize, rank: u64, node: usize| match &grid.cells[node][column] {
        Cell::Before => ABSENT,
        Cell::Unread => UNREAD,
        Cell::Read(_, Err(_)) => UNREADABLE,
        Cell::Read(at, Ok(digest)) if is_silent(*at, digest, grid.columns[column]) => SILENT,
        Cell::Read(_, Ok(digest)) => {
            let at = digest.ranks.get(&rank);
            at.map_or(ABSENT, |at| numbers[&*at.place])
        }
    };
    let cells = |column: usize| {
        let row = node_of.iter();
        runs(
            row.map(|(rank, node)| class(column, *rank, *node)),
            as_class,
        )
    };
    Matrix {
        cells: (0..grid.columns.len()).map(cells).collect(),
        columns: grid.columns.iter().map(|at| at.as_microseconds()).collect(),
        missing: grid.missing,
        node_of: runs(node_of.values().map(|node| as_class(*node)), as_class),
        nodes: nodes.iter().map(|node| node.place.node.clone()).collect(),
        ranks: node_of.keys().copied().collect(),
        steps: steps(grid, &node_of),
        classes: classes.into_iter().map(str::to_owned).collect(),
    }
}

/// Whether a node whose newest snapshot was taken at `at` had been silent for a while by `column`.
fn is_silent(at: Timestamp, digest: &Digest, column: Timestamp) -> bool {
    column.since(at) > diagnose::silent_after(digest.interval_s)
}

/// Returns the node of each rank. One that was moved to another node counts where it was last.
fn node_of(grid: &Grid) -> BTreeMap<u64, usize> {
    let mut node_of = BTreeMap::new();
    for (node, cells) in grid.cells.iter().enumerate() {
        for digest in cells.iter().filter_map(Cell::digest) {
            node_of.extend(digest.ranks.keys().map(|rank| (*rank, node)));
        }
    }
    node_of
}

/// Returns all places, the most frequent first.
fn classes(grid: &Grid) -> Vec<&str> {
    let mut frequency: HashMap<&str, usize> = HashMap::new();
    for digest in grid.cells.iter().flatten().filter_map(Cell::digest) {
        for at in digest.ranks.values() {
            *frequency.entry(&at.place).or_default() += 1;
        }
    }
    let mut classes: Vec<(&str, usize)> = frequency.into_iter().collect();
    classes.sort_by(|(one, count), (other, more)| (more, one).cmp(&(count, other)));
    classes.into_iter().map(|(place, _)| place).collect()
}

/// Returns what each rank counts, by instant; nothing where nobody counts.
fn steps(grid: &Grid, node_of: &BTreeMap<u64, usize>) -> Vec<Vec<Option<f64>>> {
    let step = |column: usize, rank: u64, node: usize| {
        let digest = grid.cells[node][column].digest()?;
        digest.ranks.get(&rank)?.step
    };
    let row = |column: usize| {
        let row = node_of.iter();
        runs(
            row.map(|(rank, node)| step(column, *rank, *node)),
            as_number,
        )
    };
    let rows: Vec<Vec<Option<f64>>> = (0..grid.columns.len()).map(row).collect();
    let mut values = rows.iter().flat_map(|row| row.iter().step_by(2));
    if values.any(Option::is_some) {
        rows
    } else {
        Vec::new()
    }
}

fn as_class(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

fn as_number(count: usize) -> Option<f64> {
    u32::try_from(count).ok().map(f64::from)
}

/// Writes values that follow one another as runs.
fn runs<T: PartialEq + Clone>(values: impl Iterator<Item = T>, count: fn(usize) -> T) -> Vec<T> {
    let mut runs: Vec<(T, usize)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((last, length)) if *last == value => *length += 1,
            _ => runs.push((value, 1)),
        }
    }
    runs.into_iter()
        .flat_map(|(value, length)| [value, count(length)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        assert_eq!(
            runs([3, 3, 3, -1, 3].into_iter(), as_class),
            [3, 3, -1, 1, 3, 1]
        );
        assert_eq!(runs(std::iter::empty(), as_class), Vec::<i64>::new());
    }
}
