//! What every rule looks at: the case, who waits for whom, the groups of ranks, and whether anything gets on.

use std::collections::HashSet;

use crate::case::{Actor, Case, Fate, PATIENCE};
use crate::graph::{EdgeKind, Graph};
use crate::group::{self, Group};
use crate::motion::{Motion, thread_ran};
use crate::python;
use crate::verdict::Evidence;
use crate::wait::{self, Wait};

pub(crate) struct Scene<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) graph: Graph,
    pub(crate) groups: Vec<Group>,
    pub(crate) stall: Stall,
}

/// Whether the task gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// This process does.
    Moves(usize),
    /// This one uses a processor and is where it was; none gets on.
    Spins(usize),
    /// None does.
    Stands,
    /// Too little was seen.
    Short,
    /// No process of it is left.
    Ended,
}

/// The time over which others must have got on to be a reason against a fault.
#[derive(Clone, Copy, Debug)]
enum Over {
    Window,
    NewestInterval,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(case: Case<'a>) -> Self {
        let graph = Graph::new(&case);
        let groups = group::groups(&case, &graph);
        let stall = stall(&case, &groups);
        Self {
            case,
            graph,
            groups,
            stall,
        }
    }

    /// Says why nothing is established where the task does not stand still.
    pub(crate) fn must_stand(&self) -> Result<(), String> {
        match self.stall {
            Stall::Stands => Ok(()),
            other => Err(self.why_not(other)),
        }
    }

    /// The same, where a process may turn in a loop.
    pub(crate) fn must_not_move(&self) -> Result<(), String> {
        match self.stall {
            Stall::Stands | Stall::Spins(_) => Ok(()),
            other => Err(self.why_not(other)),
        }
    }

    /// The same for a dead end of these processes: nothing that anybody does can end it, so that it also matters where one of
    /// them is a rank, or a rank waits for them, and the others get on.
    pub(crate) fn must_matter_for_good(&self, actors: &[usize]) -> Result<(), String> {
        let waiting = self.graph.waiting_for(&self.case, actors);
        let mut concerned = actors.iter().chain(&waiting);
        let of_rank = |actor: &&usize| {
            let is_member = |group: &Group| group.ranks.contains(actor);
            self.groups.iter().any(is_member)
        };
        // The others come to wait for a rank within a step: where they do not yet, it takes as long as that is to be seen.
        let is_seen = |actor: &usize| {
            let it = &self.case.actors[*actor];
            let is_old = it.main_is_still_for(PATIENCE);
            let polls = it.seen.is_some_and(|seen| seen.main_ran_always);
            is_old || polls || self.held_up_by(*actor).is_some()
        };
        match concerned.find(of_rank) {
            Some(_) if actors.iter().all(is_seen) => Ok(()),
            Some(_) => Err("what a rank does was not seen for three intervals".to_owned()),
            // What is proved by itself takes one interval: what others did before that is no matter.
            None => self.matters(actors, Over::NewestInterval),
        }
    }

    /// The group whose other ranks all wait in a meeting for one alone that `actor` is, or works for.
    pub(crate) fn held_up_by(&self, actor: usize) -> Option<&Group> {
        self.groups.iter().find(|group| {
            let [rank] = group.behind.as_slice() else {
                return false;
            };
            let is_waiting = |other: &usize| {
                other == rank || group.dead.contains(other) || group.waiting.contains(other)
            };
            self.belongs(&[actor], *rank) && group.ranks.iter().all(is_waiting)
        })
    }

    /// The process whose work may end a wait: one at work, as far as is known, or that writes now and then, or asleep for a time,
    /// that could end it, directly or through others that wait themselves; or one that the waiting process has started.
    pub(crate) fn hope(&self, actor: usize) -> Option<usize> {
        let waits_for_those = |other: usize, those: &[usize]| {
            let edge = self.graph.edge(other);
            edge.is_some_and(|edge| edge.wakers.iter().any(|waker| those.contains(waker)))
        };
        let mut seen = vec![actor];
        let mut next = 0;
        while next < seen.len() {
            let here = seen[next];
            let edge = self.graph.edge(here);
            let wakers: Vec<usize> = edge
                .into_iter()
                .flat_map(|edge| edge.wakers.clone())
                .collect();
            if wakers.iter().any(|waker| self.serves_clients(*waker)) {
                let active = |other: &usize| {
                    !seen.contains(other) && !wakers.contains(other) && self.may_act(*other)
                };
                if let Some(other) = self.case.those(|other| active(&other)).first() {
                    return Some(*other);
                }
            }
            let feeds = edge.is_some_and(|edge| edge.kind == EdgeKind::PipeRead);
            for other in wakers.iter().copied().chain(self.case.descendants(here)) {
                let it = &self.case.actors[other];
                // One that looks again and again is what holds up who waits for a lock or an answer of it. But output
                // may come as slowly as it likes, and for whom a mere child looks again is not known.
                let is_paced = it.motion() == Motion::Idle
                    && (feeds || (!wakers.contains(&other) && !waits_for_those(other, &seen)));
                let sleeps = it.wait.is_for_a_time() && it.motion() == Motion::Still;
                let writes = it.seen.is_some_and(|seen| seen.written_bytes > 0);
                let works = !matches!(it.motion(), Motion::Still | Motion::Idle) || writes;
                if it.fate == Fate::Alive && (works || sleeps || is_paced) && other != actor {
                    return Some(other);
                }
                if !seen.contains(&other) {
                    seen.push(other);
                }
            }
            next += 1;
        }
        None
    }

    /// Whether a process is a manager that keeps a client waiting until another client gives what that one wants.
    fn serves_clients(&self, actor: usize) -> bool {
        let process = self.case.actors[actor].process;
        let mut traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
        traces.any(|trace| python::is_for_a_client(&trace.frames))
    }

    /// Whether a process is at work, looks again now and then, or sleeps for a time.
    pub(crate) fn may_act(&self, actor: usize) -> bool {
        let it = &self.case.actors[actor];
        it.motion() != Motion::Still || it.wait.is_for_a_time()
    }

    /// Whether the thread whose wait counts for a process was given no processor during the window.
    pub(crate) fn waits_all_the_time(&self, index: usize) -> bool {
        let actor = &self.case.actors[index];
        if actor.main_ran() || actor.waiting_thread == actor.process.pid {
            return !actor.main_ran();
        }
        let node = self.case.node_of(index);
        let view = |position: usize| {
            let mut processes = node.snapshots[position].processes.iter();
            let process = processes.find(|it| it.identity == actor.process.identity)?;
            let thread = crate::case::thread_index(process, actor.waiting_thread)?;
            Some(&process.proc.threads[thread])
        };
        let ends = view(node.window[0]).zip(view(node.newest_index()));
        ends.is_some_and(|(first, last)| !thread_ran(first, last))
    }

    /// Whether no other thread of a process could do what is waited for: each waits for the others of the process alone.
    pub(crate) fn is_alone(&self, index: usize) -> bool {
        let actor = &self.case.actors[index];
        let mut threads = actor.process.proc.threads.iter();
        threads.all(|thread| {
            let waits_within = matches!(
                wait::of(thread),
                Wait::Futex {
                    is_private: true,
                    is_timed: false,
                    ..
                }
            );
            thread.tid == actor.waiting_thread || waits_within
        })
    }

    /// Whether a process is there for what comes from elsewhere: one of its threads accepts connections, or watches descriptors
    /// while the process has a socket that listens; or it watches what nobody of the task causes, such as changes of files.
    pub(crate) fn serves(&self, actor: usize) -> bool {
        let it = &self.case.actors[actor];
        let waits = || it.process.proc.threads.iter().map(wait::of);
        let is_accepting = waits().any(|wait| matches!(wait, Wait::Accept { .. }));
        let is_watching =
            waits().any(|wait| matches!(wait, Wait::Epoll { .. } | Wait::Poll { .. }));
        let edge = self.graph.edge(actor);
        let is_open = match &it.wait {
            Wait::Read { target, .. } => target.starts_with("anon_inode:"),
            Wait::Epoll { .. } => edge.is_none_or(|edge| edge.outside),
            Wait::Poll { fds, .. } if fds.len() > 1 => edge.is_none_or(|edge| edge.outside),
            _ => false,
        };
        it.fate == Fate::Alive
            && (is_accepting || is_open || (is_watching && self.case.listens(actor)))
    }

    /// Whether a process waits for work from one that has none for it: that one is there for others to come, and would see it
    /// at once if this one said something. Directly, or through those that it waits for.
    pub(crate) fn is_idle(&self, actor: usize) -> bool {
        let mut seen = vec![actor];
        let mut next = 0;
        while next < seen.len() {
            let here = seen[next];
            next += 1;
            let Some(edge) = self.graph.edge(here) else {
                continue;
            };
            let attends = |waker: &usize| match edge.kind {
                EdgeKind::PipeRead => true,
                EdgeKind::SocketRead => {
                    self.case.attends(*waker, here) || self.case.is_given_work(*waker, here)
                }
                _ => false,
            };
            let mut wakers = edge.wakers.iter().filter(|waker| **waker != here);
            if wakers.any(|waker| self.serves(*waker) && attends(waker)) {
                return true;
            }
            for waker in &edge.wakers {
                if !seen.contains(waker) {
                    seen.push(*waker);
                }
            }
        }
        false
    }

    /// The same for a fault of these processes that is proved by itself: where others get on, the main process of the task
    /// must wait for them.
    pub(crate) fn must_matter(&self, actors: &[usize]) -> Result<(), String> {
        self.matters(actors, Over::Window)
    }

    fn matters(&self, actors: &[usize], over: Over) -> Result<(), String> {
        let motion = |it: &Actor<'_>| match over {
            Over::Window => it.motion(),
            Over::NewestInterval => it.seen.map_or(Motion::Unknown, |seen| seen.lately),
        };
        let waiting = self.graph.waiting_for(&self.case, actors);
        let is_concerned = |actor: usize| actors.contains(&actor) || waiting.contains(&actor);
        let is_root = |actor: usize| {
            let node = self.case.node_of(actor);
            let root = node.newest().scope.as_ref().map(|scope| scope.root);
            root == Some(self.case.actors[actor].process.identity)
        };
        let mut alive = self.case.alive();
        let root_waits =
            alive.any(|(actor, it)| is_concerned(actor) && is_root(actor) && it.is_still_for(1));
        let mut others = self.case.alive().filter(|(actor, _)| !is_concerned(*actor));
        let moving =
            others.find(|(_, it)| matches!(motion(it), Motion::Advances(_) | Motion::Spins));
        match moving {
            Some((actor, _)) if !root_waits => Err(self.why_not(Stall::Moves(actor))),
            _ => Ok(()),
        }
    }

    fn why_not(&self, stall: Stall) -> String {
        let pid = |actor: usize| self.case.actors[actor].process.pid;
        match stall {
            Stall::Moves(actor) => format!("process {} gets on", pid(actor)),
            Stall::Spins(actor) => format!("process {} uses a processor", pid(actor)),
            Stall::Stands => "nothing gets on".to_owned(),
            Stall::Short => "too few snapshots to say that nothing moves".to_owned(),
            Stall::Ended => "no process is left".to_owned(),
        }
    }

    /// What shows that the main thread of a process does not move: where it is and since when.
    pub(crate) fn standing(&self, actor: usize) -> Vec<Evidence> {
        let process = self.case.actors[actor].process;
        let mut evidence: Vec<Evidence> = self.case.cite(actor, "state").into_iter().collect();
        if let Some(thread) = crate::case::thread_index(process, process.pid) {
            for key in ["unchanged_since", "wchan"] {
                let path = format!("proc/threads/{thread}/{key}");
                evidence.extend(self.case.cite(actor, &path));
            }
        }
        evidence
    }

    /// The same of the first few of `actors`.
    pub(crate) fn standing_of_some(&self, actors: &[usize]) -> Vec<Evidence> {
        let some = actors.iter().take(4);
        some.flat_map(|actor| self.standing(*actor)).collect()
    }

    /// All living processes that do nothing else than wait for one of `roots`, by edges and by groups of ranks.
    pub(crate) fn victims(&self, roots: &[usize]) -> Vec<usize> {
        let mut victims = self.graph.waiting_for(&self.case, roots);
        for group in &self.groups {
            if group.ranks.iter().any(|rank| self.belongs(roots, *rank)) {
                // Of a group that may not stand, those that have waited in a meeting all the time.
                let others = if group.is_stalled {
                    &group.ranks
                } else {
                    &group.waiting
                };
                let others = others.iter().copied();
                victims.extend(others.filter(|rank| {
                    self.case.actors[*rank].fate == Fate::Alive && !self.belongs(roots, *rank)
                }));
                // Of a task with ranks, the ranks are what matters.
                victims.retain(|victim| group.ranks.contains(victim));
            }
        }
        victims.sort_unstable();
        victims.dedup();
        victims.retain(|victim| !roots.contains(victim));
        victims
    }

    /// Whether one of `roots` is this rank or works for it.
    fn belongs(&self, roots: &[usize], rank: usize) -> bool {
        roots.contains(&rank)
            || self
                .case
                .descendants(rank)
                .iter()
                .any(|child| roots.contains(child))
    }
}

fn stall(case: &Case<'_>, groups: &[Group]) -> Stall {
    let mut spins = None;
    let alive: Vec<usize> = case.alive().map(|(index, _)| index).collect();
    if alive.is_empty() {
        return Stall::Ended;
    }
    let living = |group: &&Group| group.ranks.iter().any(|rank| alive.contains(rank));
    let groups: Vec<&Group> = groups.iter().filter(living).collect();
    if groups.iter().any(|group| group.is_stalled) {
        return Stall::Stands;
    }
    // Of a task with ranks, what the ranks and their workers do is what matters.
    let ranks = groups.iter().flat_map(|group| &group.ranks).copied();
    let mut concerned: HashSet<usize> = ranks.clone().collect();
    concerned.extend(ranks.flat_map(|rank| case.descendants(rank)));
    let of_ranks = |actor: &usize| concerned.is_empty() || concerned.contains(actor);
    for actor in alive.iter().copied().filter(of_ranks) {
        match case.actors[actor].motion() {
            Motion::Advances(_) => return Stall::Moves(actor),
            Motion::Spins => spins = spins.or(Some(actor)),
            Motion::Unknown
                if case.node_of(actor).is_patient() && case.actors[actor].process.state != 'D' =>
            {
                // One that has only begun.
                if case.node_of(actor).window.len() > 1 && is_new(case, actor) {
                    return Stall::Moves(actor);
                }
            }
            Motion::Unknown | Motion::Still | Motion::Idle => {}
        }
    }
    if let Some(actor) = spins {
        return Stall::Spins(actor);
    }
    if !alive.iter().all(|actor| case.node_of(*actor).is_patient()) {
        return Stall::Short;
    }
    Stall::Stands
}

/// Whether a process began within the window.
fn is_new(case: &Case<'_>, actor: usize) -> bool {
    let node = case.node_of(actor);
    let first = node.snapshots[node.window[0]];
    let identity = case.actors[actor].process.identity;
    first
        .processes
        .iter()
        .all(|process| process.identity != identity)
}
