//! Groups of ranks: which stand still, which wait for the others, and which are behind. Ranks are ordered by progress, never
//! by how many they are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{SharedFrame, Step};

use crate::case::{Case, Fate};
use crate::ending::is_bad;
use crate::graph::{Edge, EdgeKind, Graph};
use crate::motion::{Motion, Sign};
use crate::python;
use crate::wait::Wait;

/// A wait of so many steps' time is none that belongs to a step.
const STEP_TIMES: u32 = 3;

/// The ranks that belong together.
#[derive(Debug)]
pub(crate) struct Group {
    /// The process of each rank, by rank; the newest where a rank was started again.
    pub(crate) ranks: Vec<usize>,
    /// Those that have ended while others live.
    pub(crate) dead: Vec<usize>,
    /// Whether no living rank gets on.
    pub(crate) is_stalled: bool,
    /// Those that are in a meeting with the others.
    pub(crate) meeting: BTreeSet<usize>,
    /// Those of them that have been there for the whole window.
    pub(crate) waiting: Vec<usize>,
    /// Those that the others wait for.
    pub(crate) behind: Vec<usize>,
    /// What tells that they are behind.
    pub(crate) order: Option<Order>,
}

/// What tells which ranks are behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The number that a frame counts is lower.
    Step,
    /// They are not in the meeting that the others are in.
    Meeting,
    /// They are at an earlier line of the same function.
    Line,
}

/// How long the ranks of a group have waited, and whether they count steps.
#[derive(Clone, Copy, Debug)]
struct Pace {
    waited: Duration,
    counts: bool,
}

/// Returns the groups of ranks of the task.
pub(crate) fn groups(case: &Case<'_>, graph: &Graph) -> Vec<Group> {
    let mut names: BTreeMap<Option<&str>, BTreeMap<u64, usize>> = BTreeMap::new();
    for (index, actor) in case.actors.iter().enumerate() {
        let (true, Some(rank)) = (actor.is_rank, actor.rank) else {
            continue;
        };
        let ranks = names.entry(actor.group.as_deref()).or_default();
        let known = ranks.entry(rank).or_insert(index);
        let older = |one: usize, other: usize| {
            let age = |it: usize| {
                (
                    case.actors[it].fate != Fate::Gone,
                    case.actors[it].process.start_time_ticks,
                )
            };
            age(one) < age(other)
        };
        if older(*known, index) {
            *known = index;
        }
    }
    // What no plugin has placed (a rank that was gone soon) belongs to the only group there is.
    if names.len() == 2
        && let Some(strays) = names.remove(&None)
        && let Some(ranks) = names.values_mut().next()
    {
        for (rank, actor) in strays {
            ranks.entry(rank).or_insert(actor);
        }
    }
    let groups = names.into_values().filter(|ranks| ranks.len() > 1);
    groups
        .map(|ranks| group(case, graph, ranks.into_values().collect()))
        .collect()
}

fn group(case: &Case<'_>, graph: &Graph, ranks: Vec<usize>) -> Group {
    let is_alive = |rank: &usize| case.actors[*rank].fate == Fate::Alive;
    let (alive, dead): (Vec<usize>, Vec<usize>) = ranks.iter().copied().partition(is_alive);
    let meeting: BTreeSet<usize> = meeting(case, graph, &alive);
    let waiting: Vec<usize> = alive
        .iter()
        .copied()
        .filter(|rank| meeting.contains(rank) && case.actors[*rank].stands())
        .collect();
    let is_patient = alive.iter().all(|rank| case.node_of(*rank).is_patient());
    let counts = |rank: &usize| case.actors[*rank].seen.is_some_and(|seen| seen.counts);
    let seen = |rank: &usize| case.actors[*rank].seen;
    let waited = waiting.iter().filter_map(seen).map(|seen| seen.main_still);
    let pace = Pace {
        waited: waited.max().unwrap_or_default(),
        counts: alive.iter().any(counts),
    };
    let still = |rank: &usize| stands_still(case, graph, *rank, waiting.contains(rank), pace);
    let is_stalled = is_patient
        && !alive.is_empty()
        && alive.iter().all(still)
        && waiting.iter().any(|rank| waits_long(case, *rank, &alive))
        && !all_exchange(case, &alive, &waiting);
    // That one has ended says why, so that less patience is needed.
    let has_lost = !dead.is_empty()
        && alive
            .iter()
            .all(|rank| case.actors[*rank].main_is_still_for(2));
    let is_stalled = is_stalled
        || (has_lost && !meeting.is_empty())
        || (is_patient && poll_for_the_dead(case, &alive, &dead));
    let (behind, order) = if alive.len() > 1 {
        behind(case, &alive, &meeting)
    } else {
        (Vec::new(), None)
    };
    let are_for_others = !behind.is_empty() && behind.iter().all(|rank| is_for_others(case, *rank));
    Group {
        ranks,
        dead,
        is_stalled: is_stalled && (has_lost || !are_for_others),
        meeting,
        waiting,
        behind,
        order,
    }
}

/// Whether one has ended badly, and all that are left look again and again in a function that is called like a meeting, called from
/// the same line all the time.
fn poll_for_the_dead(case: &Case<'_>, alive: &[usize], dead: &[usize]) -> bool {
    let has_failed = |rank: &usize| is_bad(case.actors[*rank].ending());
    let polls = |rank: &usize| {
        // At which line of its own loop it is seen is no matter.
        let is_no_work = matches!(
            case.actors[*rank].motion(),
            Motion::Still | Motion::Idle | Motion::Advances(Sign::Stack)
        );
        is_no_work && stays_in_meeting(case, *rank)
    };
    dead.iter().any(has_failed) && !alive.is_empty() && alive.iter().all(polls)
}

/// Whether the main thread of a rank was in the same meeting, called from the same lines, in all of the window.
fn stays_in_meeting(case: &Case<'_>, rank: usize) -> bool {
    let node = case.node_of(rank);
    let identity = case.actors[rank].process.identity;
    let now = frames(case, rank);
    let Some(now) = python::meeting(now).map(|index| &now[index..]) else {
        return false;
    };
    node.window.iter().all(|position| {
        let mut processes = node.snapshots[*position].processes.iter();
        let process = processes.find(|process| process.identity == identity);
        let then = process.and_then(python::main_trace);
        then.is_some_and(|then| {
            let index = python::meeting(&then.frames);
            index.is_some_and(|index| python::same_call(&then.frames[index..], now))
        })
    })
}

/// Whether the main thread of a rank waits for others to connect: what comes of it, the ranks will be told.
pub(crate) fn is_for_others(case: &Case<'_>, rank: usize) -> bool {
    match case.actors[rank].wait {
        Wait::Accept { .. } => true,
        Wait::Epoll { .. } | Wait::Poll { .. } => case.listens(rank),
        _ => false,
    }
}

/// Whether a rank has waited half as long again as it ever did before, and as a step takes: in each step, ranks wait for the slowest.
fn waits_long(case: &Case<'_>, rank: usize, alive: &[usize]) -> bool {
    let Some(seen) = case.actors[rank].seen else {
        return false;
    };
    let step_time = alive
        .iter()
        .filter_map(|rank| case.actors[*rank].seen)
        .map(|seen| seen.step_time)
        .max();
    // How long it waits as a rule is not known. But where steps are counted, how long one takes is.
    let is_known = step_time
        .is_some_and(|time| !time.is_zero() && seen.main_still >= time.saturating_mul(STEP_TIMES));
    if !seen.is_patient(seen.main_still, is_known) && !seen.main_ran {
        return false;
    }
    // That it did not run is known from one snapshot to another: it may have been half an interval longer at both ends.
    let before = match seen.main_still_before {
        Duration::ZERO => Duration::ZERO,
        before => {
            before + seen.main_still / u32::try_from(seen.main_still_for.max(1)).unwrap_or(1) / 2
        }
    };
    let usual = before.max(step_time.unwrap_or_default());
    if seen.main_ran {
        // One that polls while it waits has no such time; another was woken, by whom it waited for.
        return seen.main_ran_always && wakes_by_itself(&case.actors[rank].wait);
    }
    // No step takes exactly as long as another.
    seen.main_still > usual + usual / 2
}

/// Whether a wait ends without anybody else, as far as is known: a time, a call that is repeated, a loop.
fn wakes_by_itself(wait: &Wait) -> bool {
    match wait {
        Wait::Futex { is_timed, .. }
        | Wait::Poll { is_timed, .. }
        | Wait::Epoll { is_timed, .. } => *is_timed,
        Wait::Read { .. } | Wait::Write { .. } | Wait::Connect { .. } | Wait::Accept { .. } => {
            false
        }
        _ => true,
    }
}

/// Whether a rank does not get on, nor anything that descends from it.
fn stands_still(case: &Case<'_>, graph: &Graph, rank: usize, waits: bool, pace: Pace) -> bool {
    let actor = &case.actors[rank];
    if waits && !actor.main_ran() {
        return true;
    }
    let motion = |actor: usize| case.actors[actor].motion();
    let rests = |actor: usize| {
        let moves_not = match motion(actor) {
            Motion::Still => true,
            // One that is elsewhere since the last look has come back from where it was.
            Motion::Idle => waits || case.actors[actor].seen.is_none_or(|seen| seen.same_for > 0),
            Motion::Advances(Sign::Heard) => waits && actor == rank,
            _ => false,
        };
        moves_not
            && !case.actors[actor].comes_back(pace.waited, pace.counts)
            && !asks_a_stranger(case, graph, actor)
    };
    let turns = actor.seen.is_some_and(|seen| seen.turns());
    // A child that uses a processor is at work for its rank: a compiler, a decoder.
    let children = case.descendants(rank).into_iter();
    let mut children = children.filter(|child| case.actors[*child].fate == Fate::Alive);
    (rests(rank) || turns) && children.all(|child| rests(child) || motion(child) == Motion::Unknown)
}

/// Whether a process waits for an answer of somebody who is not watched, and has not waited for long.
fn asks_a_stranger(case: &Case<'_>, graph: &Graph, actor: usize) -> bool {
    let is_outside =
        |edge: &Edge| edge.kind == EdgeKind::SocketRead && edge.outside && edge.wakers.is_empty();
    graph.edge(actor).is_some_and(is_outside) && !case.is_long_unanswered(actor)
}

/// Whether all ranks are in the same kind of wait and each wakes now and then: they may well exchange data.
fn all_exchange(case: &Case<'_>, alive: &[usize], waiting: &[usize]) -> bool {
    alive.len() == waiting.len() && alive.iter().all(|rank| case.actors[*rank].main_ran())
}

fn frames<'a>(case: &Case<'a>, actor: usize) -> &'a [SharedFrame] {
    let trace = python::main_trace(case.actors[actor].process);
    trace.map_or(&[], |trace| trace.frames.as_slice())
}

/// The ranks that wait for others of the group. Where some are in a function that is called like a meeting, only those;
/// else those that read from a connection within the task, or wait for a futex that they share with others.
fn meeting(case: &Case<'_>, graph: &Graph, alive: &[usize]) -> BTreeSet<usize> {
    let by_name = |rank: &usize| {
        case.actors[*rank].wait != Wait::Stopped && python::meeting(frames(case, *rank)).is_some()
    };
    let named: BTreeSet<usize> = alive.iter().copied().filter(by_name).collect();
    if !named.is_empty() {
        return named;
    }
    let by_wait = |rank: &usize| {
        let edge = graph.edge(*rank);
        edge.is_some_and(|edge| {
            let own = case.descendants(*rank);
            let to_others = edge
                .wakers
                .iter()
                .any(|waker| waker != rank && !own.contains(waker));
            match edge.kind {
                EdgeKind::SocketRead => to_others || edge.outside,
                EdgeKind::Shared => to_others || edge.wakers.is_empty(),
                _ => false,
            }
        })
    };
    alive.iter().copied().filter(by_wait).collect()
}

fn behind(
    case: &Case<'_>,
    alive: &[usize],
    meeting: &BTreeSet<usize>,
) -> (Vec<usize>, Option<Order>) {
    if let Some(least) = least(alive, |rank| clock(case, rank, alive)) {
        return (least, Some(Order::Step));
    }
    if !meeting.is_empty() && meeting.len() < alive.len() {
        let own = alive.iter().copied().filter(|rank| !meeting.contains(rank));
        let own: Vec<usize> = own.filter(|rank| !may_meet(case, *rank, meeting)).collect();
        if !own.is_empty() {
            return (own, Some(Order::Meeting));
        }
    }
    if let Some(least) = lines(case, alive) {
        return (least, Some(Order::Line));
    }
    (Vec::new(), None)
}

/// Whether a rank, the stack of which was not read, waits as one of those does that are in a meeting: it may be in it too.
fn may_meet(case: &Case<'_>, rank: usize, meeting: &BTreeSet<usize>) -> bool {
    let kind = |rank: usize| std::mem::discriminant(&case.actors[rank].wait);
    frames(case, rank).is_empty() && meeting.iter().any(|other| kind(*other) == kind(rank))
}

/// Those with the least value, where all have one and they differ.
fn least<T: PartialOrd>(alive: &[usize], value: impl Fn(usize) -> Option<T>) -> Option<Vec<usize>> {
    let values: Option<Vec<(usize, T)>> = alive
        .iter()
        .map(|rank| Some((*rank, value(*rank)?)))
        .collect();
    let values = values?;
    let mut least = &values.first()?.1;
    for (_, value) in &values {
        if value < least {
            least = value;
        }
    }
    let behind: Vec<usize> = values
        .iter()
        .filter(|(_, value)| value <= least)
        .map(|(rank, _)| *rank)
        .collect();
    (behind.len() < alive.len()).then_some(behind)
}

/// The numbers that count how far the main thread of a rank is, the outermost function first, of those that all ranks have.
fn clock(case: &Case<'_>, rank: usize, alive: &[usize]) -> Option<Vec<f64>> {
    let main = |actor: usize| {
        let process = case.actors[actor].process;
        let pid = u64::try_from(process.pid).ok();
        let of_main = move |step: &&Step| step.thread_id.is_none() || step.thread_id == pid;
        process.steps.iter().filter(of_main)
    };
    let key = |step: &Step| (step.file.clone(), step.function.clone(), step.name.clone());
    let in_all = |step: &Step| {
        alive
            .iter()
            .all(|other| main(*other).any(|theirs| key(theirs) == key(step)))
    };
    let mut steps: Vec<&Step> = main(rank).filter(|step| in_all(step)).collect();
    // Steps come as frames do, the innermost first. An epoch counts more than what is counted within it.
    steps.reverse();
    let outermost = steps
        .first()
        .map(|step| (step.file.clone(), step.function.clone()))?;
    steps.retain(|step| (step.file.clone(), step.function.clone()) == outermost);
    steps.sort_by_key(|step| (step.name != "epoch", step.name.clone()));
    steps.iter().map(|step| step.value.as_f64()).collect()
}

/// Those at the earliest line of the innermost function that all are in at the same depth.
fn lines(case: &Case<'_>, alive: &[usize]) -> Option<Vec<usize>> {
    let stacks: Vec<&[SharedFrame]> = alive.iter().map(|rank| frames(case, *rank)).collect();
    let depth = stacks.iter().map(|stack| stack.len()).min()?;
    for level in 1..=depth {
        let at = |stack: &[SharedFrame]| stack[stack.len() - level].clone();
        let first = at(stacks[0]);
        let same_function = stacks.iter().all(|stack| {
            let frame = at(stack);
            frame.name == first.name && frame.filename == first.filename
        });
        if !same_function {
            return None;
        }
        if stacks.iter().any(|stack| at(stack).line != first.line) {
            let line = |rank: usize| {
                let stack = frames(case, rank);
                Some(stack[stack.len() - level].line)
            };
            return least(alive, line);
        }
    }
    None
}
