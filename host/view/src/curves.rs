//! What the records beside the snapshots of a node say: samples as few points, ends of processes, stages. Each segment is
//! read once; a long run is read in several turns, so that no answer takes long.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{Ending, Obituary, ObituarySegment, Timestamp};
use monitor::{Curve, Point, Report, Segment, Stage};
use serde::Serialize;
use store::{Place, RecordKey, RecordKind, Store, StoreError};
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

use crate::digest::short;
use crate::runs::words;

/// Points of a curve.
const POINTS: usize = 600;
/// How long is read for one answer.
const PATIENCE: Duration = Duration::from_millis(150);
/// How long what was read is taken to be all.
const FRESH: Duration = Duration::from_secs(2);
/// Nodes that are remembered.
const REMEMBERED: usize = 64;
/// Ends that are told, the first ones: they are the causes.
const ENDS: usize = 200;
/// Stages that are told, the newest ones.
const STAGES: usize = 200;

/// What there is beside the snapshots of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curves {
    pub(crate) events: Vec<Event>,
    /// Segments that are not read yet.
    pub(crate) missing: usize,
    pub(crate) points: Vec<Point>,
    /// Why it is not all.
    pub(crate) trouble: Option<String>,
}

/// Something that happened at an instant, or for a time. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Event {
    at: i64,
    kind: EventKind,
    /// The end of a stage; null while it is open.
    until: Option<i64>,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum EventKind {
    /// A process ended, and not well.
    End,
    Stage,
}

impl Event {
    /// Returns it so many microseconds earlier.
    pub(crate) fn earlier(mut self, by: i64) -> Self {
        self.at = self.at.saturating_sub(by);
        self.until = self.until.map(|until| until.saturating_sub(by));
        self
    }
}

#[derive(Debug)]
struct State {
    at: Option<Instant>,
    curve: Curve,
    done: BTreeSet<RecordKey>,
    ends: Vec<Event>,
    known: Curves,
}

/// What was read of each node.
#[derive(Debug, Default)]
pub(crate) struct AllCurves(Mutex<HashMap<Place, Arc<Turn<State>>>>);

impl AllCurves {
    /// Returns what is known of `place`, after reading some more of it.
    pub(crate) async fn of(&self, store: &Store, place: &Place) -> Curves {
        let turn = self.turn(place);
        let mut state = turn.lock().await;
        let is_fresh = state.at.is_some_and(|at| at.elapsed() < FRESH);
        if is_fresh && state.known.missing == 0 {
            return state.known.clone();
        }
        let end = Instant::now() + PATIENCE;
        let trouble = match state.read(store, place, end).await {
            Ok(trouble) => trouble,
            Err(error) => Some(words(&error)),
        };
        state.known.trouble = trouble;
        state.at = Some(Instant::now());
        state.known.clone()
    }

    fn turn(&self, place: &Place) -> Arc<Turn<State>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= REMEMBERED && !places.contains_key(place) {
            places.clear();
        }
        Arc::clone(places.entry(place.clone()).or_default())
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            at: None,
            curve: Curve::new(POINTS),
            done: BTreeSet::new(),
            ends: Vec::new(),
            known: Curves::default(),
        }
    }
}

impl State {
    /// Reads what is new until `end`; returns why some of it could not be read.
    async fn read(
        &mut self,
        store: &Store,
        place: &Place,
        end: Instant,
    ) -> Result<Option<String>, StoreError> {
        let samples = store.records(place, RecordKind::Samples, None).await?;
        let obituaries = store.records(place, RecordKind::Obituaries, None).await?;
        let last = self.done.iter().filter(|key| samples.contains(key)).max();
        let is_late = |key: &RecordKey| last.is_some_and(|last| key < last);
        if samples
            .iter()
            .any(|key| is_late(key) && !self.done.contains(key))
        {
            // One that waited in a spool: curves are made in order.
            *self = Self::default();
        }
        let new = obituaries.iter().chain(&samples);
        let new: Vec<&RecordKey> = new.filter(|key| !self.done.contains(key)).collect();
        let mut trouble = None;
        let mut read = 0;
        for key in &new {
            if Instant::now() >= end && read > 0 {
                break;
            }
            read += 1;
            let taken = self.take(store, key, obituaries.contains(key)).await;
            match taken {
                Err(error @ (StoreError::Format { .. } | StoreError::NotFound { .. })) => {
                    trouble = Some(words(&error));
                }
                other => other?,
            }
            self.done.insert((*key).clone());
        }
        self.known.missing = new.len() - read;
        self.known.points = self.curve.clone().finish();
        self.known.events.clone_from(&self.ends);
        match stages(store, place).await {
            Ok(stages) => self.known.events.extend(stages),
            Err(words) => trouble = Some(words),
        }
        Ok(trouble)
    }

    async fn take(
        &mut self,
        store: &Store,
        key: &RecordKey,
        is_obituary: bool,
    ) -> Result<(), StoreError> {
        if is_obituary {
            let segment: ObituarySegment = store.record(key).await?;
            let ends = segment.obituaries.iter().filter_map(ended);
            self.ends.extend(ends);
            self.ends.sort();
            self.ends.truncate(ENDS);
        } else {
            let segment: Segment = store.record(key).await?;
            self.curve.add(&segment);
        }
        Ok(())
    }
}

/// How a process ended, where it did not end well.
fn ended(obituary: &Obituary) -> Option<Event> {
    if obituary.ending == Ending::Exited(0) {
        return None;
    }
    let who = match obituary.rank {
        Some(rank) => format!("rank {rank}, process {}", obituary.process.pid),
        None => format!("process {}", obituary.process.pid),
    };
    Some(Event {
        at: obituary.ended_at.as_microseconds(),
        kind: EventKind::End,
        until: None,
        words: short(&format!("{who} ({}): {}", obituary.name, obituary.ending)),
    })
}

/// The newest stages of the report; none where there is no report.
async fn stages(store: &Store, place: &Place) -> Result<Vec<Event>, String> {
    let document = match store.record(&place.report()).await {
        Ok(document) => document,
        Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(words(&error)),
    };
    let report = Report::from_document(document).map_err(|error| error.to_string())?;
    let start = report.started_at;
    let stage = |stage: &Stage| {
        let begin = Duration::try_from_secs_f64(stage.start_seconds).unwrap_or_default();
        Event {
            at: stage
                .started_at
                .unwrap_or_else(|| start.after(begin))
                .as_microseconds(),
            kind: EventKind::Stage,
            until: stage.ended_at.map(Timestamp::as_microseconds),
            words: short(&stage.path.join(" / ")),
        }
    };
    let skipped = report.stages.len().saturating_sub(STAGES);
    Ok(report.stages[skipped..].iter().map(stage).collect())
}
