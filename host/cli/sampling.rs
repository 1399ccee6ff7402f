//! Samples beside the snapshots: a thread of their own takes one each interval, by deadline, whatever a capture does.
//!
//! Nothing here waits for the store, a plugin or a terminal. What a sample says is folded into the monitor; samples are kept as
//! segments, the report is replaced, now and then a line goes to stderr.

mod keeping;
mod line;
mod suspicion;
mod telemetry;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capture::{CaptureError, SampleMoment, Sampler};
use model::{Snapshot, Task};
use monitor::{About, Monitor};
use store::Records;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::clock::Clock;
use crate::ends::Ends;
use crate::fault;
use crate::schedule::Schedule;
use crate::ui;
use keeping::Keeping;
pub(crate) use suspicion::Suspicion;
pub(crate) use telemetry::Telemetry;

/// The end of a shorter stage is no news, seconds.
const SHORTEST_STAGE: f64 = 1.0;
/// Between two reports where there are no live lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// How long the last sample and what is kept of it may take.
const LAST_GRACE: Duration = Duration::from_secs(1);

/// How samples are taken and what is said of them.
#[derive(Clone, Debug)]
pub(crate) struct SamplingSettings {
    /// Between two samples.
    pub(crate) interval: Duration,
    /// The share of one core that sampling may take, where the interval is not set.
    pub(crate) budget: Option<f64>,
    /// Between two live lines; none: no lines.
    pub(crate) log_interval: Option<Duration>,
    /// Whether USS and PSS are read.
    pub(crate) detailed_memory: bool,
    /// Newest readings in the report.
    pub(crate) max_samples: usize,
    /// The run directory, where one is set.
    pub(crate) run_directory: Option<std::path::PathBuf>,
}

impl SamplingSettings {
    /// Returns the time between two reports.
    fn report_interval(&self) -> Duration {
        self.log_interval.unwrap_or(REPORT_INTERVAL)
    }
}

/// What is told to the sampling thread.
enum Message {
    /// The store is open: this is where records go, and which task it is.
    Opened(Box<(Records, Task)>),
    /// Take the last sample, and say on this when all is kept.
    Finish(Sender<()>),
}

/// A handle to the samples of one collector, for all its threads.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    began: Instant,
    messages: Sender<Message>,
    monitor: Arc<Mutex<Monitor>>,
    telemetry: Option<Arc<Telemetry>>,
}

/// What the sampling thread has.
struct Thread {
    clock: Clock,
    ends: Ends,
    keeping: Keeping,
    /// When the next live line is due, and the next report.
    report_due: Instant,
    /// Whether the report is to be written after the next sample, whatever else.
    is_stale: bool,
    messages: Receiver<Message>,
    sampler: Sampler,
    schedule: Schedule,
    settings: SamplingSettings,
    /// How many stages had ended when that was last told.
    ended_stages: u64,
    /// CPU time of a sample, on average.
    cost: Duration,
    /// What asks for a closer look where the task has come to a stand.
    suspicion: Option<Suspicion>,
    watch: Watch,
}

impl Watch {
    /// Starts sampling. Trouble is a warning, and there is a report without samples.
    pub(crate) fn start(
        sampler: Sampler,
        about: About,
        settings: SamplingSettings,
        clock: Clock,
        ends: Ends,
        suspicion: Option<Suspicion>,
    ) -> Self {
        let (messages, receiver) = channel();
        let began = Instant::now();
        let directory = settings.run_directory.clone();
        let telemetry = directory.map(|it| Telemetry::new(&it, &about));
        let watch = Self {
            began,
            messages,
            monitor: Arc::new(Mutex::new(Monitor::new(about))),
            telemetry: telemetry.map(Arc::new),
        };
        let thread = Thread {
            clock,
            ends,
            keeping: Keeping::default(),
            report_due: began + settings.report_interval(),
            is_stale: true,
            messages: receiver,
            sampler,
            // The first sample is due at once.
            schedule: Schedule::new(began, Duration::ZERO),
            settings,
            ended_stages: 0,
            cost: Duration::ZERO,
            suspicion,
            watch: watch.clone(),
        };
        let named = std::thread::Builder::new().name("sampler".to_owned());
        if let Err(error) = named.spawn(move || thread.run()) {
            warn!("Nothing is sampled: the sampling thread cannot start: {error}.");
        }
        watch
    }

    /// Returns the monitor, to begin and end stages in it.
    pub(crate) fn monitor(&self) -> MutexGuard<'_, Monitor> {
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the start of the collector.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Says where records go from now on.
    pub(crate) fn opened(&self, records: Records, task: Task) {
        _ = self
            .messages
            .send(Message::Opened(Box::new((records, task))));
    }

    /// Notes the commands of the processes of `snapshot`, which no sample reads.
    pub(crate) fn note(&self, snapshot: &Snapshot) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.note(snapshot);
        }
    }

    /// Notes how the task ended.
    pub(crate) fn ended(&self, at: model::Timestamp, error: Option<String>) {
        self.monitor().end(at, error);
    }

    /// Takes the last sample and has everything kept, within a bounded time.
    pub(crate) async fn finish(&self) {
        let (done, receiver) = channel();
        if self.messages.send(Message::Finish(done)).is_err() {
            return;
        }
        let wait = move || receiver.recv_timeout(LAST_GRACE).is_ok();
        if !tokio::task::spawn_blocking(wait).await.unwrap_or(false) {
            debug!("The last sample did not come in time.");
        }
    }
}

impl Thread {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            let wait = self.schedule.due().saturating_duration_since(now);
            match self.messages.recv_timeout(wait) {
                Ok(Message::Opened(opened)) => {
                    let (records, task) = *opened;
                    self.watch.monitor().about.task = task;
                    self.keeping.open(records);
                    self.keep_report();
                }
                Ok(Message::Finish(done)) => {
                    self.finish();
                    _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => self.turn(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes a sample, and does what is due after it. A fault of ours in it costs that sample and no other.
    fn turn(&mut self) {
        let now = self.clock.now();
        let turn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.take_turn()));
        if turn.is_err() {
            let words = "the sampling thread panicked".to_owned();
            self.watch.monitor().failed(words, now);
        }
        self.schedule.advance(Instant::now(), self.interval());
    }

    fn take_turn(&mut self) {
        fault::provoke("sampler");
        let missed = self.schedule.take_missed();
        self.sample(missed);
        let now = Instant::now();
        self.keeping.seal_if_due(&self.watch, now);
        let is_due = now >= self.report_due;
        let stage = self.ended_stages();
        let has_stage = stage.is_some();
        if self.settings.log_interval.is_some() && (is_due || has_stage) {
            self.say(&stage.unwrap_or_default());
        }
        if is_due {
            self.report_due = now + self.settings.report_interval();
        }
        if is_due || has_stage || self.is_stale {
            self.keep_report();
        }
    }

    fn sample(&mut self, missed: u64) {
        let moment = SampleMoment {
            now: self.clock.now(),
            elapsed: self.watch.elapsed(),
        };
        match capture::sample(&mut self.sampler, moment) {
            Ok(sample) => {
                let cost = Duration::from_secs_f64(sample.cpu_ms.unwrap_or(0.0) / 1e3);
                self.cost = (self.cost * 3 + cost) / 4;
                self.ends.sampled(&sample);
                if let Some(suspicion) = &mut self.suspicion {
                    suspicion.note(&sample);
                }
                let reading = self.watch.monitor().sample(sample.clone(), missed).clone();
                if let Some(telemetry) = &self.watch.telemetry {
                    telemetry.write(&sample, &reading, moment.elapsed);
                }
                self.keeping.add(sample);
            }
            // The end of every task, and no news.
            Err(CaptureError::NothingLeft { .. }) => {}
            Err(error) => {
                let words = format!("{:#}", anyhow::Error::new(error));
                self.watch.monitor().failed(words, moment.now);
            }
        }
    }

    /// Returns the interval until the next sample: whole intervals, so many that sampling stays within its budget.
    fn interval(&self) -> Duration {
        let interval = self.settings.interval;
        let Some(budget) = self.settings.budget else {
            return interval;
        };
        let needed = self.cost.as_secs_f64() / budget / interval.as_secs_f64();
        // Up to a minute or so; no sample costs more than that.
        let times = (1..60_u32).find(|&times| f64::from(times) >= needed);
        interval * times.unwrap_or(60)
    }

    /// Returns what stages of some length have ended since this was last asked, in words.
    fn ended_stages(&mut self) -> Option<String> {
        let monitor = self.watch.monitor();
        let (_, ended) = monitor.stages.counts();
        let before = std::mem::replace(&mut self.ended_stages, ended);
        let new = usize::try_from(ended - before).unwrap_or(usize::MAX);
        let mut long = monitor
            .stages
            .newest_ended()
            .take(new)
            .filter(|stage| stage.wall_seconds >= SHORTEST_STAGE);
        let newest = long.next()?;
        Some(line::stage(newest, long.count()))
    }

    fn say(&self, stage: &str) {
        let monitor = self.watch.monitor();
        let line = line::live(&monitor, self.watch.elapsed(), stage);
        drop(monitor);
        ui::mention(&line);
    }

    fn keep_report(&mut self) {
        self.watch.monitor().ended = self.ends.so_far();
        self.is_stale = !self.keeping.report(&self.watch, self.clock.now());
    }

    fn finish(&mut self) {
        // Of a task that has ended there is nothing to see but a zombie.
        if !self.watch.monitor().has_ended() {
            let missed = self.schedule.take_missed();
            self.sample(missed);
        }
        self.sampler.close();
        self.keeping.seal(&self.watch);
        let now = self.clock.now();
        let elapsed = self.watch.elapsed();
        let words = {
            let mut monitor = self.watch.monitor();
            if !monitor.has_ended() {
                monitor.end(now, None);
            }
            line::finished(&monitor, elapsed)
        };
        // A short run says no more than where its snapshots are.
        if self.settings.log_interval.is_some_and(|it| elapsed > it) {
            ui::mention(&words);
        }
        self.keep_report();
    }
}
