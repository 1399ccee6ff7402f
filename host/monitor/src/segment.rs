//! Samples of a few minutes as one document, small because it holds columns of differences.
//!
//! A column has one number a row: the first is the value, each later one the difference to the last number before it, null where
//! it is not known; a column without any number is left out. What is of a sample has a row for each sample, what is of a process
//! a row for each sample that has the process. Memory and CPU time of a process are in every row. All else of it would take as much
//! room again, and is in rows of every thirtieth sample.

mod fields;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{CgroupSample, Gap, ProcessId, ProcessSample, Sample, Task, Timestamp};
use serde::{Deserialize, Serialize};

use fields::{DENSE, Field, OF_SAMPLE, SPARSE};

/// The `schema_version` of segments that we write.
pub const SEGMENT_VERSION: &str = "1.0";

/// Of so many samples, one has all that is known of each process.
const THIN: usize = 30;

/// Differences, null where a number is not known.
type Column = Vec<Option<i64>>;

/// Samples that follow one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// When each sample began, microseconds since 1970 by the clock of the node.
    at_usec: Column,
    /// The cgroups of the last sample. Of those before, `columns` has what changes.
    #[serde(default)]
    cgroup: Option<CgroupSample>,
    /// Clock ticks of a second, the unit of CPU times.
    pub clock_ticks_per_second: u64,
    /// By name: numbers of each sample.
    columns: BTreeMap<String, Column>,
    /// CPUs that were online.
    #[serde(default)]
    cpu_count: Option<u32>,
    /// From the start of the collector to each sample, microseconds by the monotonic clock.
    elapsed_usec: Column,
    /// What could not be read in the last sample.
    #[serde(default)]
    gaps: Vec<Gap>,
    /// Every process that was in a sample, by identity.
    processes: Vec<ProcessColumns>,
    /// The main process.
    root: ProcessId,
    /// [`SEGMENT_VERSION`].
    pub schema_version: String,
    /// The task.
    pub task: Task,
}

/// One process in the samples that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ProcessColumns {
    /// By name: numbers of each row.
    columns: BTreeMap<String, Column>,
    /// `PID:START`.
    identity: ProcessId,
    /// `comm` when it was last seen.
    name: String,
    /// Its parent's PID when it was last seen.
    ppid: i32,
    /// Which samples have it: a first one, and how many without a break.
    rows: Vec<(usize, usize)>,
    /// The letter of its state, one for each row of a thirtieth sample.
    states: String,
}

impl Segment {
    /// Returns `samples` as one document; nothing where there are none.
    pub fn of(samples: &[Sample], task: Task, clock_ticks_per_second: u64) -> Option<Self> {
        let last = samples.last()?;
        let mut rows = BTreeMap::<ProcessId, Vec<(usize, &ProcessSample)>>::new();
        for (at, sample) in samples.iter().enumerate() {
            for process in &sample.processes {
                rows.entry(process.identity)
                    .or_default()
                    .push((at, process));
            }
        }
        let microseconds = |seconds: f64| integer(seconds * 1e6);
        Some(Self {
            at_usec: differences(samples.iter().map(|it| Some(it.at.as_microseconds()))),
            cgroup: last.cgroup.clone(),
            clock_ticks_per_second,
            columns: columns(&OF_SAMPLE, &samples.iter()),
            cpu_count: last.machine.cpu_count,
            elapsed_usec: differences(samples.iter().map(|it| microseconds(it.elapsed_seconds))),
            gaps: last.gaps.clone(),
            processes: rows.values().map(|rows| ProcessColumns::of(rows)).collect(),
            root: last.root,
            schema_version: SEGMENT_VERSION.to_owned(),
            task,
        })
    }

    /// Returns the samples again, with all CPU time of a process as time in user mode. What they lack is absent in them: pressure, gaps of all but the last, and what processes have in
    /// every thirtieth sample alone. A document that does not hold together gives fewer.
    pub fn samples(&self) -> Vec<Sample> {
        let (at, elapsed) = (values(&self.at_usec), values(&self.elapsed_usec));
        let times = at.into_iter().zip(elapsed);
        let samples = times.map_while(|(at, elapsed)| self.sample(at?, elapsed?));
        let mut samples: Vec<Sample> = samples.collect();
        put(&OF_SAMPLE, &self.columns, samples.iter_mut());
        for process in &self.processes {
            process.put(&mut samples);
        }
        for sample in &mut samples {
            sample.processes.sort_by_key(|it| it.identity);
        }
        if let Some(last) = samples.last_mut() {
            last.gaps.clone_from(&self.gaps);
        }
        samples
    }

    /// Returns a sample of which only the time is known yet.
    fn sample(&self, at_usec: i64, elapsed_usec: i64) -> Option<Sample> {
        // Paths and limits change seldom; what changes is filled in from the columns.
        let cgroup = self.cgroup.as_ref().map(|last| CgroupSample {
            limit_bytes: last.limit_bytes,
            limit_path: last.limit_path.clone(),
            path: last.path.clone(),
            quota_cpus: last.quota_cpus,
            ..CgroupSample::default()
        });
        let machine = model::MachineSample {
            cpu_count: self.cpu_count,
            ..model::MachineSample::default()
        };
        Some(Sample {
            at: Timestamp::from_microseconds(at_usec)?,
            cgroup,
            cpu_ms: None,
            duration_ms: 0.0,
            elapsed_seconds: fields::float(elapsed_usec) / 1e6,
            gaps: Vec::new(),
            gpus: Vec::new(),
            machine,
            processes: Vec::new(),
            root: self.root,
        })
    }
}

impl ProcessColumns {
    /// Returns the columns of the samples `rows` of one process; there is at least one.
    fn of(rows: &[(usize, &ProcessSample)]) -> Self {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &(at, _) in rows {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == at => *length += 1,
                _ => runs.push((at, 1)),
            }
        }
        let thin = || rows.iter().filter(|(at, _)| at.is_multiple_of(THIN));
        let mut all = columns(&DENSE, &rows.iter().map(|(_, it)| *it));
        all.extend(columns(&SPARSE, &thin().map(|(_, it)| *it)));
        let last = rows[rows.len() - 1].1;
        Self {
            columns: all,
            identity: last.identity,
            name: last.name.clone(),
            ppid: last.ppid,
            rows: runs,
            states: thin().map(|(_, it)| it.state).collect(),
        }
    }

    /// Puts the process into the `samples` that have it.
    fn put(&self, samples: &mut [Sample]) {
        let total = samples.len();
        let runs = self
            .rows
            .iter()
            .flat_map(|&(first, length)| first.min(total)..first.saturating_add(length).min(total));
        let rows: Vec<usize> = runs.collect();
        let blank = ProcessSample {
            name: self.name.clone(),
            ppid: self.ppid,
            ..ProcessSample::of(self.identity)
        };
        let mut processes = vec![blank; rows.len()];
        put(&DENSE, &self.columns, processes.iter_mut());
        let is_thin = |at: &usize| at.is_multiple_of(THIN);
        let thin = rows
            .iter()
            .zip(&mut processes)
            .filter(|(at, _)| is_thin(at));
        put(&SPARSE, &self.columns, thin.map(|(_, process)| process));
        let mut states = self.states.chars();
        for (&at, mut process) in rows.iter().zip(processes) {
            if is_thin(&at) {
                process.state = states.next().unwrap_or(process.state);
            } else if process.rss_bytes.is_none() {
                process.state = 'Z'; // of who lives, memory is known
            }
            samples[at].processes.push(process);
        }
    }
}

/// Returns the columns of `fields` that have a number.
fn columns<'a, T: 'a>(
    fields: &[Field<T>],
    rows: &(impl Iterator<Item = &'a T> + Clone),
) -> BTreeMap<String, Column> {
    let column = |field: &Field<T>| {
        let column = differences(rows.clone().map(|row| (field.get)(row)));
        let has_any = column.iter().any(Option::is_some);
        has_any.then(|| (field.name.to_owned(), column))
    };
    fields.iter().filter_map(column).collect()
}

/// Puts what `columns` say of `fields` into `rows`.
fn put<'a, T: 'a>(
    fields: &[Field<T>],
    columns: &BTreeMap<String, Column>,
    rows: impl Iterator<Item = &'a mut T>,
) {
    let known = fields.iter().filter_map(|field| {
        let column = columns.get(field.name)?;
        Some((field, values(column).into_iter()))
    });
    let mut known: Vec<_> = known.collect();
    for row in rows {
        for (field, values) in &mut known {
            if let Some(Some(value)) = values.next() {
                (field.set)(row, value);
            }
        }
    }
}

fn differences(values: impl Iterator<Item = Option<i64>>) -> Column {
    let mut before = 0_i64;
    let difference = |value: i64| {
        let difference = value.wrapping_sub(before);
        before = value;
        difference
    };
    let mut difference = difference;
    values.map(|value| value.map(&mut difference)).collect()
}

fn values(column: &Column) -> Vec<Option<i64>> {
    let mut value = 0_i64;
    let mut add = |difference: i64| {
        value = value.wrapping_add(difference);
        value
    };
    column.iter().map(|it| it.map(&mut add)).collect()
}

/// Returns the whole number nearest to `number`; nothing beyond what a double counts exactly.
#[expect(clippy::cast_possible_truncation, reason = "it is in range")]
fn integer(number: f64) -> Option<i64> {
    let exact = (-9e15..9e15).contains(&number);
    exact.then(|| number.round() as i64)
}
