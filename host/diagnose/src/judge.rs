//! From a scene to one answer: the first rule that holds is the answer, the others are findings.

use serde::Serialize;

use crate::case::{Case, Fate, History, Terms};
use crate::motion::{self, Motion, Sign};
use crate::python::{self, Wants};
use crate::rules;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::{self, Wait};
use crate::words;

/// More findings than this are not told.
const FINDINGS: usize = 8;

/// The answer, and how it came about.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// Each rule in the order in which they were tried.
    pub tried: Vec<Tried>,
}

/// One rule that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The rule's name.
    pub rule: &'static str,
    /// Whether it held.
    pub held: bool,
    /// Why not, or what it found.
    pub reason: String,
}

/// Says what is wrong with the task whose nodes have these snapshots. The same snapshots give the same answer.
pub fn judge(histories: &[History<'_>]) -> Judgement {
    let Some(case) = Case::new(histories, &Terms::default()) else {
        let summary = "there is no snapshot to judge".to_owned();
        return Judgement {
            verdict: plain(State::Unknown, Cause::Unknown, summary, Vec::new()),
            tried: Vec::new(),
        };
    };
    judge_scene(&Scene::new(case))
}

/// Tries all rules on a scene.
pub(crate) fn judge_scene(scene: &Scene<'_>) -> Judgement {
    let mut tried = Vec::new();
    let mut held: Vec<Verdict> = Vec::new();
    for rule in rules::all() {
        match (rule.holds)(scene) {
            Ok(found) => {
                let reason = found
                    .first()
                    .map_or_else(String::new, |it| it.summary.clone());
                tried.push(Tried {
                    rule: rule.name,
                    held: true,
                    reason,
                });
                held.extend(found);
            }
            Err(reason) => tried.push(Tried {
                rule: rule.name,
                held: false,
                reason,
            }),
        }
    }
    let verdict = if held.is_empty() {
        otherwise(scene)
    } else {
        let mut first = held.remove(0);
        held.truncate(FINDINGS);
        first.findings = held;
        first
    };
    Judgement { verdict, tried }
}

fn plain(verdict: State, cause: Cause, summary: String, evidence: Vec<Evidence>) -> Verdict {
    Verdict {
        verdict,
        cause,
        summary,
        culprit: None,
        victims: Vec::new(),
        findings: Vec::new(),
        evidence,
    }
}

/// The answer where no rule holds.
fn otherwise(scene: &Scene<'_>) -> Verdict {
    match scene.stall {
        Stall::Moves(actor) => {
            let (why, evidence) = sign(scene, actor);
            let who = words::who(&scene.case, actor);
            plain(
                State::Healthy,
                Cause::Progressing,
                format!("{}{who} {why}.", begin(scene, "It gets on", "It got on")),
                evidence,
            )
        }
        Stall::Spins(actor) => {
            let who = words::who(&scene.case, actor);
            let at = words::at_actor(&scene.case, actor);
            let evidence = scene
                .case
                .cite(actor, "proc/utime_ticks")
                .into_iter()
                .collect();
            let begin = begin(scene, "It works", "It worked");
            let summary = format!("{begin}{who} uses a processor{at}.");
            plain(State::Healthy, Cause::Progressing, summary, evidence)
        }
        Stall::Ended => {
            let (summary, evidence) = end(scene);
            plain(State::Finished, Cause::Finished, summary, evidence)
        }
        Stall::Stands | Stall::Short if rests(scene).is_some() => {
            let (who, evidence) = rests(scene).unwrap_or_default();
            let summary = format!("Nothing is wrong as far as can be seen: {who}.");
            plain(State::Healthy, Cause::Progressing, summary, evidence)
        }
        Stall::Stands => {
            let summary = "Nothing moves, and what it waits for cannot be told.".to_owned();
            plain(State::Unknown, Cause::Unknown, summary, Vec::new())
        }
        Stall::Short => {
            let summary = "There are too few snapshots to tell; ask again in a few intervals.";
            plain(
                State::Unknown,
                Cause::Unknown,
                summary.to_owned(),
                Vec::new(),
            )
        }
    }
}

/// How the sentence about a task that is well begins: of one that was told to end, how it was until then.
fn begin(scene: &Scene<'_>, now: &str, then: &str) -> String {
    let told = scene.case.nodes.iter().find_map(|node| node.told_to_end);
    told.map_or_else(
        || format!("{now}: "),
        |told| {
            let how = words::how(told);
            format!("The task was told to end, and its main process {how}. {then} until then: ")
        },
    )
}

/// How a task is over that did not end badly.
fn end(scene: &Scene<'_>) -> (String, Vec<Evidence>) {
    let case = &scene.case;
    let main = |node: usize| {
        let root = case.nodes[node].newest().scope.as_ref()?.root;
        let mut ends = case.nodes[node].ends.iter();
        let own = ends.find(|end| end.obituary.process == root)?;
        let how = words::how(own.obituary.ending);
        let summary = format!("The main process, {}, {how}.", root.pid);
        Some((summary, case.cite_end(*own, node).into_iter().collect()))
    };
    (0..case.nodes.len()).find_map(main).unwrap_or_else(|| {
        let evidence = case.cite_newest(0, "/capture/started_at");
        let summary = "No process of the task is left; how they ended was not seen.";
        (summary.to_owned(), evidence.into_iter().collect())
    })
}

/// What shows that an actor gets on.
fn sign(scene: &Scene<'_>, actor: usize) -> (String, Vec<Evidence>) {
    let process = scene.case.actors[actor].process;
    let cite = |below: &str| scene.case.cite(actor, below).into_iter().collect();
    let Motion::Advances(sign) = scene.case.actors[actor].motion() else {
        return ("has only begun".to_owned(), cite("start_time_ticks"));
    };
    match sign {
        Sign::Step(index) => {
            let step = &process.steps[index];
            let words = format!("is at {} {}", words::safe(&step.name), step.value);
            (words, cite(&format!("steps/{index}/value")))
        }
        Sign::Bytes => ("reads or writes".to_owned(), cite("proc/io/rchar")),
        Sign::Memory => ("touches new memory".to_owned(), cite("proc/minor_faults")),
        Sign::Stack => {
            let at = words::at_actor(&scene.case, actor);
            (
                format!("moves through its program, now{at}"),
                cite("proc/utime_ticks"),
            )
        }
        Sign::Processor => ("uses a processor".to_owned(), cite("proc/utime_ticks")),
    }
}

/// Whether everybody rests by design: waits for a time, for work, for a child or a process that does so.
fn rests(scene: &Scene<'_>) -> Option<(String, Vec<Evidence>)> {
    if scene.case.nodes.iter().any(|node| node.window.len() < 3) {
        return None;
    }
    let mut resting: Vec<usize> = Vec::new();
    for (index, actor) in scene.case.alive() {
        let rests = match actor.wait {
            Wait::Sleep | Wait::Accept { .. } | Wait::Signal | Wait::Epoll { .. } => true,
            Wait::Poll { is_timed, .. } => is_timed,
            Wait::Futex {
                is_private: true,
                is_timed,
                ..
            } => has_working_thread(scene, index) || (is_timed && waits_for_notice(scene, index)),
            _ => false,
        };
        if rests {
            resting.push(index);
        }
    }
    if resting.is_empty() || scene.groups.iter().any(|group| group.is_stalled) {
        return None;
    }
    let mut known = resting.clone();
    for group in &scene.groups {
        if group.ranks.iter().any(|rank| resting.contains(rank)) {
            known.extend(&group.meeting);
        }
    }
    known.extend(scene.graph.waiting_for(&scene.case, &resting));
    let all_known = scene.case.alive().all(|(index, _)| known.contains(&index));
    if !all_known
        || scene
            .case
            .actors
            .iter()
            .any(|actor| actor.fate == Fate::Zombie)
    {
        return None;
    }
    let first = resting[0];
    let who = words::who(&scene.case, first);
    let evidence = scene.standing(first);
    let how = match scene.case.actors[first].wait {
        Wait::Sleep | Wait::Poll { .. } => "waits for a time to pass",
        Wait::Futex { is_timed: true, .. } => "waits for a time, or for a notice, to come",
        Wait::Futex { .. } => "waits for threads of its own, which wake now and then",
        Wait::Signal => "waits for a signal",
        _ => "waits for somebody to ask it for work",
    };
    Some((format!("{who} {how}"), evidence))
}

/// Whether the main thread of a process waits for a notice for a while, and looked meanwhile whether it has come.
fn waits_for_notice(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    let frames = python::main_trace(actor.process).map(|trace| trace.frames.as_slice());
    actor.main_ran() && frames.and_then(python::wants) == Some(Wants::Notice)
}

/// Whether the main thread of a process waits for its own threads, one of which sleeps now and has run meanwhile.
fn has_working_thread(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    let process = actor.process;
    let frames = python::main_trace(process).map(|trace| trace.frames.as_slice());
    let wants = frames.and_then(python::wants);
    let node = scene.case.node_of(index);
    let first = node.snapshots[node.window[0]].processes.iter();
    let before = first.clone().find(|it| it.identity == process.identity);
    let ran = |thread: &model::Thread| {
        let threads = before.map(|before| before.proc.threads.iter());
        let earlier = threads.and_then(|mut threads| threads.find(|it| it.tid == thread.tid));
        earlier.is_some_and(|earlier| motion::thread_ran(earlier, thread))
    };
    let mut threads = process.proc.threads.iter();
    matches!(wants, Some(Wants::Notice | Wants::Thread))
        && threads.any(|thread| {
            thread.tid != process.pid && wait::of(thread) == Wait::Sleep && ran(thread)
        })
}
