//! All that is known of a run: the document `report.json`.

use std::collections::BTreeMap;

use model::{Gap, Obituary, ProcessId, Task, Timestamp, Unseen};
use serde::{Deserialize, Serialize};

use crate::{GapTotal, Peak, Reading, Stage, StageTotal, StageTrouble, Statistics};

/// The `schema_version` of reports that we write.
pub const REPORT_VERSION: &str = "1.0";

/// What a run came to. Times in seconds are by the monotonic clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of taskscope that made it.
    pub collector_version: String,
    /// Whether USS and PSS are read, within their budget.
    #[serde(default)]
    pub detailed_memory: bool,
    /// How many processes that are none of a rank exited with 0.
    #[serde(default)]
    pub ended_well: u64,
    /// When the task ended or the watching did; null while it goes on.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// How the task failed; null where it did not, or has not ended, or that is not known.
    #[serde(default)]
    pub error: Option<String>,
    /// What samples could not read, over the whole run.
    #[serde(default)]
    pub gap_totals: Vec<GapTotal>,
    /// What the latest sample could not read.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// The newest sample.
    #[serde(default)]
    pub latest_sample: Option<Reading>,
    /// Between two live lines, seconds; null where there are none.
    #[serde(default)]
    pub log_interval: Option<f64>,
    /// The longest time between two samples that succeeded, seconds; null until there were two.
    #[serde(default)]
    pub max_sample_gap_seconds: Option<f64>,
    /// The longest time that one sample took, seconds.
    #[serde(default)]
    pub max_sampling_seconds: f64,
    /// Samples that were due and not taken: an earlier one was still at work, or sampling was over its budget.
    #[serde(default)]
    pub missed_samples: u64,
    /// The first of the others that have ended, in the order of their ends; all of them are under `obituaries/`.
    #[serde(default)]
    pub obituaries: Vec<Obituary>,
    /// How many more of these there are.
    #[serde(default)]
    pub obituaries_left_out: u64,
    /// Why a report or a segment of samples was lost since the report before this one; null where none was.
    #[serde(default)]
    pub output_error: Option<String>,
    /// How many reports and segments were lost, known by the time of this report.
    #[serde(default)]
    pub output_errors: Trouble,
    /// When the RSS of the tree was highest, seconds from the start.
    #[serde(default)]
    pub peak_rss_elapsed_seconds: Option<f64>,
    /// The stages that were open then.
    #[serde(default)]
    pub peak_rss_stage: Option<String>,
    /// The peak of each measure, with who made it.
    #[serde(default)]
    pub peaks: BTreeMap<String, Peak>,
    /// The PID of the main process.
    pub pid: i32,
    /// System, kernel and kind of machine, such as `Linux-6.1.0-x86_64`.
    pub platform: String,
    /// Always null: no psutil is used.
    #[serde(default)]
    pub psutil_version: Option<String>,
    /// The newest samples, oldest first, as many as the setting `max-samples` says.
    #[serde(default)]
    pub recent_samples: Vec<Reading>,
    /// The main process.
    pub root: ProcessId,
    /// Whether the task was still watched when this was written.
    pub running: bool,
    /// Between two samples, as the setting says, seconds.
    pub sample_interval: f64,
    /// How many samples were tried, those that failed included.
    pub sampling_attempts: u64,
    /// CPU time of the sampling thread, seconds.
    #[serde(default)]
    pub sampling_cpu_seconds: f64,
    /// Why the latest sample failed; null where it did not.
    #[serde(default)]
    pub sampling_error: Option<String>,
    /// How often samples failed.
    #[serde(default)]
    pub sampling_errors: Trouble,
    /// How long all samples together took, seconds.
    pub sampling_seconds: f64,
    /// [`REPORT_VERSION`].
    pub schema_version: String,
    /// What all stages of each path that have ended come to, the longest first.
    #[serde(default)]
    pub stage_totals: Vec<StageTotal>,
    /// What could not be done with stages.
    #[serde(default)]
    pub stage_trouble: StageTrouble,
    /// The stages that are open and the newest that have ended, in the order in which they began.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// When watching began.
    pub started_at: Timestamp,
    /// What all samples come to.
    #[serde(default)]
    pub statistics: Statistics,
    /// The task, its attempt and its node.
    pub task: Task,
    /// Ends that left no obituary.
    #[serde(default)]
    pub unseen: Unseen,
    /// When this was written.
    pub updated_at: Timestamp,
    /// How long the task has been watched, seconds.
    pub wall_seconds: f64,
}

/// How processes of the task have ended up to now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Those of ranks and those that did not exit with 0, in the order of the ends; the first of them.
    pub obituaries: Vec<Obituary>,
    /// How many more of these there are.
    pub left_out: u64,
    /// What has no obituary.
    pub unseen: Unseen,
    /// How many others exited with 0.
    pub well: u64,
}

/// Errors that heal: how many there were, and the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// How many there were.
    pub count: u64,
    /// When the last one was.
    #[serde(default)]
    pub last_at: Option<Timestamp>,
    /// What the last one said.
    #[serde(default)]
    pub last_error: Option<String>,
}

impl Trouble {
    /// Notes so many more.
    pub fn note(&mut self, more: u64, error: String, at: Timestamp) {
        self.count += more;
        self.last_at = Some(at);
        self.last_error = Some(error);
    }
}
