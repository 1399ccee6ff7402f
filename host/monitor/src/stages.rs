//! The stages of a task: which are open, what each came to.

use model::{ProcessId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Reading, Statistics};

/// What a reading names as its stage while none is open.
pub const NO_STAGE: &str = "workflow";

/// One stage, as the report has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// When it ended; null while it is open.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// The name of the error that it ended with.
    #[serde(default)]
    pub error: Option<String>,
    /// Its number, from 0, in the order in which stages began.
    pub id: u64,
    /// Its name, which may hold any character.
    pub name: String,
    /// The stage that it lies in; null at the top.
    #[serde(default)]
    pub parent_id: Option<u64>,
    /// The process that it belongs to.
    #[serde(default)]
    pub process: Option<ProcessId>,
    /// From the start of the collector to its beginning, seconds by the monotonic clock.
    pub start_seconds: f64,
    /// When it began.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// What the samples within it come to.
    #[serde(default)]
    pub statistics: Statistics,
    /// The thread that it belongs to.
    #[serde(default)]
    pub thread: Option<i32>,
    /// How long it took, or has taken so far, seconds by the monotonic clock.
    pub wall_seconds: f64,
}

/// All stages of a task.
#[derive(Clone, Debug, Default)]
pub struct Stages {}

impl Stages {
    /// Returns the names of the open stages as a reading names them.
    pub fn label(&self) -> String {
        NO_STAGE.to_owned()
    }

    /// Folds a reading into every stage that is open.
    pub fn fold(&mut self, _reading: &Reading) {}

    /// Returns the stages as they are `elapsed_seconds` after the start of the collector.
    pub fn records(&self, _elapsed_seconds: f64) -> Vec<Stage> {
        Vec::new()
    }
}
