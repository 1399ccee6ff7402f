//! Judging while the task runs: each new snapshot with the last few before it. Says what is established, once an episode.
//!
//! Of older snapshots only what judging needs is kept (`live/kept.rs`), and only so many as show whether something moves; what
//! reaches further back is folded into tracks (`motion/track.rs`). So memory grows with processes, not with time.

mod episode;
mod kept;
mod limits;

use std::time::Duration;

use model::{
    Evidence, Finding, Obituary, ProcessId, Severity, Snapshot, Target, Timestamp, Trigger,
};

use crate::case::window::{CLOSEST, window};
use crate::case::{Case, Fate, History, LONGEST_PATIENCE, PATIENCE, Terms};
use crate::ending::End;
use crate::judge::judge_scene;
use crate::scene::Scene;
use crate::verdict::{Cause, State, Verdict};
use crate::words;
use episode::{Claim, Episode, Episodes, Sight};
use kept::Kept;

/// Between two bursts there is at least so much time.
const BETWEEN_BURSTS: Duration = Duration::from_mins(10);
/// Snapshots of a burst are at most so far apart.
const WIDEST: Duration = Duration::from_secs(2);
/// And at least so far.
const NARROWEST: Duration = Duration::from_millis(100);

/// How live judging is tuned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tuning {
    /// So long without progress is a hang; none: three intervals, or a minute where that is less.
    pub patience: Option<Duration>,
    /// Closer snapshots that are taken once something is established.
    pub burst: u8,
}

/// What one more snapshot has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// What is established with it, for the snapshot itself. Evidence leads into that snapshot.
    pub findings: Vec<Finding>,
    /// The same in words for a person, a line each.
    pub messages: Vec<String>,
    /// A closer look is worth while after this time.
    pub closer: Option<Duration>,
}

/// The last few snapshots of one node, and what goes on.
#[derive(Clone, Debug)]
pub struct Recent {
    tuning: Tuning,
    kept: Kept,
    hang: Episode,
    limits: Episodes,
    /// Snapshots of the present burst that are still to come.
    burst: u8,
    last_burst: Option<Timestamp>,
}

impl Recent {
    /// Begins to watch a task.
    pub fn new(tuning: Tuning) -> Self {
        Self {
            tuning,
            kept: Kept::default(),
            hang: Episode::default(),
            limits: Episodes::default(),
            burst: 0,
            last_burst: None,
        }
    }

    /// Returns how long a task may be without progress where snapshots are `interval` apart.
    pub fn patience(&self, interval: Duration) -> Duration {
        let intervals = u32::try_from(PATIENCE).unwrap_or(u32::MAX);
        let default = interval.saturating_mul(intervals).min(LONGEST_PATIENCE);
        self.tuning.patience.unwrap_or(default)
    }

    /// Judges with one more snapshot, whose id is its last one, and with how processes have ended up to now, in their order; those
    /// that ended well do not matter. Snapshots of an end are no news.
    pub fn judge(&mut self, snapshot: &Snapshot, ends: &[Obituary]) -> News {
        if matches!(
            snapshot.capture.trigger,
            Some(Trigger::Signal | Trigger::Exit)
        ) {
            return News::default();
        }
        let interval = snapshot.capture.interval_s.unwrap_or(0.0);
        let interval = Duration::try_from_secs_f64(interval).unwrap_or_default();
        let patience = self.patience(interval);
        let terms = Terms {
            patience,
            tracks: std::mem::take(&mut self.kept.tracks),
            whole_from: self.kept.whole_from(),
        };
        let sight = self.sight(snapshot, ends, &terms);
        let near = limits::near(snapshot, |kind, subject| self.limits.is_told(kind, subject));
        self.kept.tracks = terms.tracks;
        let now = snapshot.capture.started_at;
        let is_due = snapshot.capture.trigger != Some(Trigger::Burst);
        let mut news = News::default();
        let (slow, hang) = (sight.slow, sight.hang);
        let mut is_suspected = false;
        match self.hang.see(&hang, sight.since, (now, patience)) {
            episode::News::Told(since) => {
                if let Sight::Holds(claim) = hang {
                    let still = now.since(since).as_secs();
                    news.messages.push(format!(
                        "{} (no progress for at least {still} s; `taskscope why` shows the evidence)",
                        claim.message.trim_end_matches('.')
                    ));
                    news.findings
                        .push(finding(claim, snapshot, Severity::Error));
                }
            }
            episode::News::Suspected => is_suspected = true,
            episode::News::None => {}
        }
        for claim in self.limits.see(slow.into_iter().chain(near).collect()) {
            news.messages.push(claim.message.clone());
            news.findings
                .push(finding(claim, snapshot, Severity::Warning));
        }
        let apart = interval.min(patience / 3);
        news.closer = self.closer(&news, now, apart, is_suspected && is_due);
        self.kept.keep(snapshot, apart.mul_f64(CLOSEST));
        news
    }

    /// What is seen of the task with one more snapshot.
    fn sight(&self, snapshot: &Snapshot, ends: &[Obituary], terms: &Terms) -> Seen {
        let mut snapshots: Vec<&Snapshot> = self.kept.snapshots().collect();
        snapshots.push(snapshot);
        let first = window(&snapshots, terms)[0];
        let since = snapshots[first].capture.started_at;
        // The task is not over: what outlives its main process is no news.
        let root = snapshot.scope.as_ref().map(|scope| scope.root);
        let ends = ends.iter().enumerate().map(|(index, obituary)| End {
            obituary,
            record: "",
            index,
        });
        let ends = ends.filter(|end| Some(end.obituary.process) != root);
        let Some(case) = Case::new(
            &[History {
                snapshots,
                ends: ends.collect(),
            }],
            terms,
        ) else {
            return Seen {
                hang: Sight::Unclear,
                slow: Vec::new(),
                since,
            };
        };
        let scene = Scene::new(case);
        let verdict = judge_scene(&scene).verdict;
        let all = std::iter::once(&verdict).chain(&verdict.findings);
        let slow = all.filter(|it| it.verdict == State::Slow);
        let slow = slow.map(claim).collect();
        let hang = match verdict.verdict {
            State::Hung => Sight::Holds(claim(&verdict)),
            State::Unknown => elsewhere(&scene).map_or(Sight::Unclear, Sight::Holds),
            _ => Sight::Gone,
        };
        Seen { hang, slow, since }
    }

    /// When to look again: to make sure, and around what was established.
    fn closer(
        &mut self,
        news: &News,
        now: Timestamp,
        interval: Duration,
        is_suspected: bool,
    ) -> Option<Duration> {
        let is_new = !news.findings.is_empty();
        let is_rested = self
            .last_burst
            .is_none_or(|last| now.since(last) >= BETWEEN_BURSTS);
        if is_new && is_rested {
            self.burst = self.tuning.burst;
            self.last_burst = Some(now);
        } else {
            self.burst = self.burst.saturating_sub(1);
        }
        // Closer than what counts as one of the window.
        let apart = (interval / 4).clamp(NARROWEST, WIDEST);
        (self.burst > 0 || is_suspected).then_some(apart)
    }
}

/// What is seen of a task.
struct Seen {
    /// Whether it hangs.
    hang: Sight,
    /// What holds it back.
    slow: Vec<Claim>,
    /// Since when that is looked at.
    since: Timestamp,
}

fn claim(verdict: &Verdict) -> Claim {
    let culprit = verdict.culprit.as_ref();
    let process = culprit.and_then(|it| it.process.parse::<ProcessId>().ok());
    let tid = culprit.and_then(|it| it.thread.filter(|tid| *tid != it.pid));
    let target = match (process, tid) {
        (Some(process), Some(tid)) => Target::Thread { process, tid },
        (Some(process), None) => Target::Process(process),
        (None, _) => Target::Snapshot,
    };
    let evidence = verdict.evidence.iter();
    Claim {
        kind: verdict.cause.word(),
        // Who has used most of what all are held back by may be another each time.
        subject: match process {
            Some(process) if verdict.verdict != State::Slow => process.to_string(),
            _ => String::new(),
        },
        message: format!(
            "{} ({}): {}",
            verdict.verdict.word(),
            verdict.cause.word(),
            verdict.summary
        ),
        target,
        evidence: evidence
            .map(|it| (it.snapshot.clone(), it.path.clone(), it.value.to_string()))
            .collect(),
    }
}

fn finding(claim: Claim, snapshot: &Snapshot, severity: Severity) -> Finding {
    let id = snapshot.capture.id.to_string();
    // Older snapshots have pointers of their own: they are for `why`.
    let here = claim.evidence.into_iter().filter(|(of, _, _)| *of == id);
    let is_here = |process: &ProcessId| snapshot.processes.iter().any(|it| it.identity == *process);
    let target = match &claim.target {
        Target::Process(process) | Target::Thread { process, .. } if !is_here(process) => {
            Target::Snapshot
        }
        target => target.clone(),
    };
    Finding {
        evidence: here
            .map(|(_, pointer, value)| Evidence { pointer, value })
            .collect(),
        kind: claim.kind,
        message: claim.message,
        plugin: None,
        severity,
        target,
    }
}

/// Ranks of this node that stand still in a meeting while others of their group are on other nodes, where nothing here says
/// why: whom they wait for is to be looked for there.
fn elsewhere(scene: &Scene<'_>) -> Option<Claim> {
    let case = &scene.case;
    let has_others = |ranks: &[usize]| {
        let sizes = ranks.iter().filter_map(|rank| {
            let environment = &case.actors[*rank].process.distributed_environment;
            environment.get("WORLD_SIZE")?.parse::<usize>().ok()
        });
        sizes.max().is_some_and(|size| size > ranks.len())
    };
    let group = scene
        .groups
        .iter()
        .find(|group| group.is_stalled && group.behind.is_empty() && has_others(&group.ranks))?;
    let alive = group.ranks.iter().copied();
    let alive: Vec<usize> = alive
        .filter(|rank| case.actors[*rank].fate == Fate::Alive)
        .collect();
    let first = *alive.first()?;
    let verb = if alive.len() == 1 { "waits" } else { "wait" };
    let message = format!(
        "hung ({}): {} {verb}{} for ranks that are not on this node",
        Cause::WaitingForPeer.word(),
        words::many(case, &alive),
        words::meeting(case, first),
    );
    Some(Claim {
        kind: Cause::WaitingForPeer.word(),
        subject: String::new(),
        message,
        target: Target::Snapshot,
        evidence: scene
            .standing(first)
            .into_iter()
            .map(|it| (it.snapshot, it.path, it.value.to_string()))
            .collect(),
    })
}
