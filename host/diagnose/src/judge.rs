//! From a scene to one answer: the first rule that holds is the answer, the others are findings.

use model::Ending;
use serde::Serialize;

use crate::case::{Case, History, Terms};
use crate::motion::{Motion, Sign};
use crate::rests::rests;
use crate::rules;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::{waits, words};

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
        held.truncate(rules::MOST - 1);
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
        since: None,
    }
}

/// The answer where no rule holds.
fn otherwise(scene: &Scene<'_>) -> Verdict {
    if let (Stall::Stands | Stall::Short, Some((who, evidence))) = (scene.stall, rests(scene)) {
        let summary = format!("Nothing is wrong as far as can be seen: {who}.");
        return plain(State::Healthy, Cause::Progressing, summary, evidence);
    }
    match scene.stall {
        Stall::Moves(actor) => {
            let (why, shown) = sign(scene, actor);
            let who = words::who(&scene.case, actor);
            let (begin, mut evidence) = begin(scene, "It gets on", "It got on");
            evidence.extend(shown);
            let summary = format!("{begin}{who} {why}.");
            plain(State::Healthy, Cause::Progressing, summary, evidence)
        }
        Stall::Spins(actor) => {
            let who = words::who(&scene.case, actor);
            let at = words::at_actor(&scene.case, actor);
            let (begin, mut evidence) = begin(scene, "It works", "It worked");
            evidence.extend(scene.case.cite(actor, "proc/utime_ticks"));
            let summary = format!("{begin}{who} uses a processor{at}.");
            plain(State::Healthy, Cause::Progressing, summary, evidence)
        }
        Stall::Ended => {
            let (summary, evidence) = end(scene);
            plain(State::Finished, Cause::Finished, summary, evidence)
        }
        Stall::Stands => {
            let (summary, evidence) = unclear(scene);
            plain(State::Unknown, Cause::Unknown, summary, evidence)
        }
        Stall::Short => {
            let summary = "Up to this instant there are too few snapshots to tell; later ones may.";
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
fn begin(scene: &Scene<'_>, now: &str, then: &str) -> (String, Vec<Evidence>) {
    told_to_end(scene).map_or_else(
        || (format!("{now}: "), Vec::new()),
        |(told, evidence)| (format!("{told} {then} until then: "), evidence),
    )
}

/// That somebody told the task to end, and how its main process did.
fn told_to_end(scene: &Scene<'_>) -> Option<(String, Vec<Evidence>)> {
    let case = &scene.case;
    let mut nodes = case.nodes.iter().enumerate();
    let (node, told) = nodes.find_map(|(index, node)| Some((index, node.told_to_end?)))?;
    let how = words::how(told.obituary.ending);
    let summary = format!("The task was told to end, and its main process {how}.");
    Some((summary, case.cite_end(told, node).into_iter().collect()))
}

/// How a task is over that did not end badly, as far as was known at that instant.
fn end(scene: &Scene<'_>) -> (String, Vec<Evidence>) {
    let case = &scene.case;
    let main = |node: usize| {
        let root = case.nodes[node].newest().scope.as_ref()?.root;
        let mut ends = case.nodes[node].ends.iter();
        let own = ends.find(|end| end.obituary.process == root);
        let (ending, evidence) = match (own, case.find(node, root)) {
            (Some(own), _) => {
                let shown = case.cite_end(*own, node);
                (own.obituary.ending, shown.into_iter().collect())
            }
            // The kernel keeps it until the parent asks.
            (None, Some(actor)) => (case.actors[actor].ending(), case.ended(actor)),
            (None, None) => return None,
        };
        let is_told = own.is_some() || ending != Ending::Unknown;
        let how = words::how(ending);
        is_told.then(|| (format!("The main process, {}, {how}.", root.pid), evidence))
    };
    let told = told_to_end(scene).or_else(|| (0..case.nodes.len()).find_map(main));
    told.unwrap_or_else(|| {
        let evidence = case.cite_newest(0, "/capture/started_at");
        let summary =
            "No process of the task is left; up to this instant no record tells how they ended.";
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
        Sign::Heard => {
            let shown = scene.graph.evidence(actor);
            ("hears from a connection now and then".to_owned(), shown)
        }
    }
}

/// So many processes are told of where nothing moves and nobody knows why.
const TOLD: usize = 3;

/// What those wait for whom nothing explains: ranks and the main process first.
fn unclear(scene: &Scene<'_>) -> (String, Vec<Evidence>) {
    let case = &scene.case;
    let mut waiting: Vec<usize> = case.alive().map(|(index, _)| index).collect();
    waiting.sort_by_key(|actor| {
        let it = &case.actors[*actor];
        (!it.is_rank, it.rank, it.process.start_time_ticks, *actor)
    });
    waiting.truncate(TOLD);
    let does = |actor: &usize| {
        let words = match waits::words(&case.actors[*actor].wait) {
            none if none.is_empty() => words::call(case.actors[*actor].process),
            words => words,
        };
        let place = words::at_actor(case, *actor);
        format!("{} {words}{place}", words::who(case, *actor))
    };
    let told: Vec<String> = waiting.iter().map(does).collect();
    let evidence = waiting.iter().flat_map(|actor| scene.standing(*actor));
    let summary = format!(
        "Nothing moves, and whether that is by design cannot be told: {}.",
        told.join("; ")
    );
    (summary, evidence.collect())
}
