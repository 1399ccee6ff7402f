//! Takes samples in and gives a report out.

use std::collections::VecDeque;

use model::{Gap, ProcessId, Sample, Task, Timestamp};

use crate::gaps::GapTotals;
use crate::peaks::{self, Peaks};
use crate::report::{Ended, REPORT_VERSION, Report, Trouble};
use crate::{Reading, Stages, Statistics};

/// What is known of a run before its first sample.
#[derive(Clone, Debug)]
pub struct About {
    /// Clock ticks of a second, the unit of CPU times.
    pub clock_ticks_per_second: u64,
    /// The version of taskscope.
    pub collector_version: String,
    /// Whether USS and PSS are read.
    pub detailed_memory: bool,
    /// Between two live lines, seconds; none where there are none.
    pub log_interval: Option<f64>,
    /// How many of the newest readings the report has.
    pub max_samples: usize,
    /// System, kernel and kind of machine.
    pub platform: String,
    /// The main process.
    pub root: ProcessId,
    /// Between two samples, seconds.
    pub sample_interval: f64,
    /// When watching began.
    pub started_at: Timestamp,
    /// The task.
    pub task: Task,
}

/// Folds what is seen of one run. Its memory does not grow with the length of the run.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// What is known of the run; the task's attempt may be found out late.
    pub about: About,
    /// How processes have ended.
    pub ended: Ended,
    /// The stages of the task.
    pub stages: Stages,
    attempts: u64,
    before: Option<Sample>,
    end: Option<(Timestamp, Option<String>)>,
    gap_totals: GapTotals,
    gaps: Vec<Gap>,
    longest: f64,
    longest_gap: Option<f64>,
    missed: u64,
    output: Trouble,
    output_error: Option<String>,
    peaks: Peaks,
    recent: VecDeque<Reading>,
    latest: Option<Reading>,
    sampling: Trouble,
    sampling_cpu: f64,
    sampling_error: Option<String>,
    seconds: f64,
    statistics: Statistics,
}

impl Monitor {
    /// Begins without samples.
    pub fn new(about: About) -> Self {
        Self {
            about,
            ended: Ended::default(),
            stages: Stages::default(),
            attempts: 0,
            before: None,
            end: None,
            gap_totals: GapTotals::default(),
            gaps: Vec::new(),
            longest: 0.0,
            longest_gap: None,
            missed: 0,
            output: Trouble::default(),
            output_error: None,
            peaks: Peaks::new(),
            recent: VecDeque::new(),
            latest: None,
            sampling: Trouble::default(),
            sampling_cpu: 0.0,
            sampling_error: None,
            seconds: 0.0,
            statistics: Statistics::default(),
        }
    }

    /// Takes a sample in; `missed` of them were due before it and were not taken. Returns what it says.
    pub fn sample(&mut self, sample: Sample, missed: u64) -> &Reading {
        self.attempts += 1;
        self.missed = self.missed.saturating_add(missed);
        self.sampling_error = None;
        let seconds = sample.duration_ms / 1e3;
        self.seconds += seconds;
        self.longest = self.longest.max(seconds);
        self.sampling_cpu += sample.cpu_ms.unwrap_or(0.0) / 1e3;
        let before = self.before.as_ref();
        if let Some(before) = before {
            let gap = sample.elapsed_seconds - before.elapsed_seconds;
            self.longest_gap = Some(self.longest_gap.unwrap_or(0.0).max(gap));
        }
        let ticks = self.about.clock_ticks_per_second;
        let reading = Reading::of(&sample, before, ticks, self.stages.label());
        self.statistics.fold(&reading);
        self.stages.fold(&reading);
        peaks::raise(&mut self.peaks, &reading, &sample, before, ticks);
        self.gap_totals.count(&sample);
        self.gaps.clone_from(&sample.gaps);
        self.before = Some(sample);
        if self.about.max_samples > 0 {
            if self.recent.len() >= self.about.max_samples {
                self.recent.pop_front();
            }
            self.recent.push_back(reading.clone());
        }
        self.latest.insert(reading)
    }

    /// Notes that a sample failed.
    pub fn failed(&mut self, error: String, at: Timestamp) {
        self.attempts += 1;
        self.sampling_error = Some(error.clone());
        self.sampling.note(1, error, at);
    }

    /// Notes how many reports and segments are `lost` by now, of the whole run, and why the newest of them is. Where none is since
    /// this was last noted, all is well again.
    pub fn lost(&mut self, lost: u64, error: Option<String>, at: Timestamp) {
        let more = lost.saturating_sub(self.output.count);
        self.output_error = error.filter(|_| more > 0);
        if let Some(error) = self.output_error.clone() {
            self.output.note(more, error, at);
        }
    }

    /// Notes that the watching ended; `error` is how the task failed.
    pub fn end(&mut self, at: Timestamp, error: Option<String>) {
        self.end = Some((at, error));
    }

    /// Whether the end is known.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the newest sample, with its processes.
    pub fn newest(&self) -> Option<&Sample> {
        self.before.as_ref()
    }

    /// Returns what the newest sample says.
    pub fn latest(&self) -> Option<&Reading> {
        self.latest.as_ref()
    }

    /// Returns what all samples so far come to.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the report as it is `elapsed_seconds` after the start of the collector.
    pub fn report(&self, now: Timestamp, elapsed_seconds: f64) -> Report {
        let about = &self.about;
        let peak = self.peaks.get("tree_rss_bytes");
        Report {
            collector_version: about.collector_version.clone(),
            detailed_memory: about.detailed_memory,
            ended_well: self.ended.well,
            ended_at: self.end.as_ref().map(|(at, _)| *at),
            error: self.end.as_ref().and_then(|(_, error)| error.clone()),
            gap_totals: self.gap_totals.list(),
            gaps: self.gaps.clone(),
            latest_sample: self.latest.clone(),
            log_interval: about.log_interval,
            max_sample_gap_seconds: self.longest_gap,
            max_sampling_seconds: self.longest,
            missed_samples: self.missed,
            obituaries: self.ended.obituaries.clone(),
            obituaries_left_out: self.ended.left_out,
            output_error: self.output_error.clone(),
            output_errors: self.output.clone(),
            peak_rss_elapsed_seconds: peak.map(|peak| peak.elapsed_seconds),
            peak_rss_stage: peak.map(|peak| peak.stage.clone()),
            peaks: self.peaks.clone(),
            pid: about.root.pid,
            platform: about.platform.clone(),
            psutil_version: None,
            recent_samples: self.recent.iter().cloned().collect(),
            root: about.root,
            running: self.end.is_none(),
            sample_interval: about.sample_interval,
            sampling_attempts: self.attempts,
            sampling_cpu_seconds: self.sampling_cpu,
            sampling_error: self.sampling_error.clone(),
            sampling_errors: self.sampling.clone(),
            sampling_seconds: self.seconds,
            schema_version: REPORT_VERSION.to_owned(),
            stage_totals: self.stages.totals(),
            stage_trouble: self.stages.trouble,
            stages: self.stages.records(elapsed_seconds),
            started_at: about.started_at,
            statistics: self.statistics.clone(),
            task: about.task.clone(),
            unseen: self.ended.unseen.clone(),
            updated_at: now,
            wall_seconds: elapsed_seconds,
        }
    }
}
