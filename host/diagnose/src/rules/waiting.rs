//! Waits that lead to somebody: a file lock, a peer, a child.

use std::time::Duration;

use super::{Rule, ranks};
use crate::case::Fate;
use crate::graph::EdgeKind;
use crate::motion::{Motion, Seen};
use crate::scene::Scene;
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::{self, Wait};
use crate::words;

pub(super) const FILE_LOCK: Rule = Rule {
    name: "file-lock",
    needs: "who waits for which file lock and who holds it, over three intervals",
    proves: "a process has waited for a lock on a file all the time, and its holder does not get on",
    refuted_by: "the holder gets on, or has only got the lock",
    holds: file_lock,
};

pub(super) const PEER: Rule = Rule {
    name: "waiting-for-peer",
    needs: "who waits for a connection, an answer over one, or the other end of a FIFO, over three intervals",
    proves: "a process has waited for a peer all the time, and the task stands still",
    refuted_by: "data came in between, the peer is a service with no work for it, or the task gets on",
    holds: peer,
};

pub(super) const CHILD: Rule = Rule {
    name: "waiting-for-child",
    needs: "who waits for a child, and what the child does, over three intervals",
    proves: "a process has waited for a child all the time, and the child neither runs nor waits for a time",
    refuted_by: "the child runs, or is a service that waits for others to come",
    holds: child,
};

/// Whether it has not run for the whole window. A rank waits for the others in each step: that alone is nothing.
fn stands(scene: &Scene<'_>, actor: usize) -> bool {
    let of_step = |actor: usize| {
        scene
            .groups
            .iter()
            .any(|group| !group.is_stalled && group.waiting.contains(&actor))
    };
    scene.waits_all_the_time(actor) && scene.case.node_of(actor).is_patient() && !of_step(actor)
}

/// Says who may end a wait, if somebody is at it.
fn must_be_hopeless(scene: &Scene<'_>, actor: usize) -> Result<(), String> {
    scene.hope(actor).map_or(Ok(()), |other| {
        let pid = scene.case.actors[other].process.pid;
        Err(format!(
            "process {pid}, which may end the wait, is at work or asleep"
        ))
    })
}

fn file_lock(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let is_waiting = |index: &usize| {
        let edge = scene.graph.edge(*index);
        let by_edge = edge.is_some_and(|edge| edge.kind == EdgeKind::FileLock);
        stands(scene, *index) && (by_edge || case.actors[*index].wait == Wait::FileLock)
    };
    let waiting: Vec<usize> = case
        .alive()
        .map(|(index, _)| index)
        .filter(is_waiting)
        .collect();
    let Some(&first) = waiting.first() else {
        return Err("nobody has waited for a file lock all the time".to_owned());
    };
    scene.must_matter(&waiting)?;
    let edge = scene.graph.edge(first);
    let holder = edge.and_then(|edge| {
        edge.wakers
            .iter()
            .copied()
            .find(|waker| !waiting.contains(waker))
    });
    if holder.is_some_and(|holder| waited_itself(scene, holder)) {
        return Err("the lock went from one to another".to_owned());
    }
    if holder.is_some_and(|holder| stands_by(scene, &waiting, holder)) {
        return Err("those who wait have done nothing else since they began, and the holder has long pauses: they may stand by".to_owned());
    }
    let culprit = holder.unwrap_or(first);
    must_be_hopeless(scene, first)?;
    let is_known = edge.is_some();
    if !is_known {
        must_be_nobodys(scene, &waiting)?;
    }
    let evidence: Vec<Evidence> = edge
        .into_iter()
        .flat_map(|edge| edge.evidence.clone())
        .collect();
    let mut victims = waiting.clone();
    victims.retain(|it| !is_known || *it != culprit);
    let claim = scene.claim(State::Hung, Cause::FileLock);
    let claim = if is_known { claim.by(culprit) } else { claim };
    let claim = claim.holding_up(&victims).shown_by(evidence);
    let claim = claim.shown_by(scene.standing(first));
    let summary = of_file_lock(scene, &waiting, holder, is_known);
    Ok(vec![claim.shown_by(scene.standing(culprit)).say(summary)])
}

/// Whether those who wait for a lock came for nothing else, as one does that takes over when the holder ends, and the holder has long
/// pauses: one that looks again every moment looks for what does not come.
fn stands_by(scene: &Scene<'_>, waiting: &[usize], holder: usize) -> bool {
    let case = &scene.case;
    let comes_for_it = |actor: &usize| {
        let is_young = case.actors[*actor].seen.is_some_and(|seen| seen.is_young);
        is_young && !case.descendants(*actor).contains(&holder)
    };
    let it = &case.actors[holder];
    let pauses = it.wait.is_for_a_time() && it.seen.is_some_and(|seen| seen.pauses);
    pauses && waiting.iter().all(comes_for_it)
}

/// Says who may have a lock that was not seen: anybody who is at work or asleep.
fn must_be_nobodys(scene: &Scene<'_>, waiting: &[usize]) -> Result<(), String> {
    let mut others = scene.case.alive().map(|(index, _)| index);
    let other = others.find(|it| !waiting.contains(it) && scene.may_act(*it));
    other.map_or(Ok(()), |other| {
        let pid = scene.case.actors[other].process.pid;
        Err(format!(
            "who holds the lock was not seen, and process {pid} is at work or asleep"
        ))
    })
}

/// Who waits for a file lock of whom. Where the lock itself was not seen, who holds it is not known.
fn of_file_lock(
    scene: &Scene<'_>,
    waiting: &[usize],
    holder: Option<usize>,
    is_known: bool,
) -> String {
    let case = &scene.case;
    let first = waiting[0];
    match holder {
        Some(holder) => format!(
            "{} holds a file lock{} that {} wait{} for.",
            words::who(case, holder),
            words::at_actor(case, holder),
            words::many(case, waiting),
            if waiting.len() == 1 { "s" } else { "" },
        ),
        None => format!(
            "{} waits{} for a file lock{}.",
            words::who(case, first),
            words::at_actor(case, first),
            if is_known {
                " that no process of the task holds"
            } else {
                ", and who holds it is not known"
            }
        ),
    }
}

/// Whether the main thread of a process waited for a file lock in a snapshot of the window.
fn waited_itself(scene: &Scene<'_>, holder: usize) -> bool {
    let node = scene.case.node_of(holder);
    let identity = scene.case.actors[holder].process.identity;
    node.window.iter().any(|position| {
        let mut processes = node.snapshots[*position].processes.iter();
        let process = processes.find(|it| it.identity == identity);
        process.is_some_and(|process| wait::of_main(process).0 == Wait::FileLock)
    })
}

fn peer(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut waiting = case.those(|actor| waits_for_peer(scene, actor));
    // Nobody of the task opens the other end of a FIFO, and until somebody does, nothing can end that.
    waiting.sort_by_key(|actor| !at_fifo(scene, *actor));
    let Some(&first) = waiting.first() else {
        return Err("nobody has waited for a peer all the time".to_owned());
    };
    if at_fifo(scene, first) {
        scene.must_matter_for_good(&[first])?;
        if let Some(behind) = ranks::held_up_by(scene, first) {
            return Ok(vec![behind]);
        }
    } else {
        scene.must_matter(&waiting)?;
    }
    let last = end_of_chain(scene, first);
    must_be_hopeless(scene, first)?;
    let (by, what) = match &case.actors[first].wait {
        Wait::OpenFifo { path } => {
            let path = words::safe(path);
            (
                first,
                format!("for somebody to open the other end of {path}"),
            )
        }
        Wait::Connect { .. } => (first, "for its connection to be accepted".to_owned()),
        Wait::Write { .. } => (last, "for room in a connection".to_owned()),
        _ => (last, "for an answer".to_owned()),
    };
    let whose = if by == first {
        String::new()
    } else {
        let does = words::call(case.actors[by].process);
        format!(
            " of {}, which {does}{}",
            words::who(case, by),
            words::at_actor(case, by)
        )
    };
    let summary = format!(
        "{} waits{} {what}{whose}.",
        words::who(case, first),
        words::at_actor(case, first)
    );
    let victims = scene.victims(&[by]);
    let claim = scene
        .claim(State::Hung, Cause::WaitingForPeer)
        .by_thread(by, Some(case.actors[by].waiting_thread))
        .holding_up(&victims);
    let claim = claim
        .shown_by(scene.standing(first))
        .shown_by(scene.graph.evidence(first));
    Ok(vec![claim.shown_by(scene.standing(by)).say(summary)])
}

fn waits_for_peer(scene: &Scene<'_>, actor: usize) -> bool {
    let by_edge = scene.graph.edge(actor).is_some_and(|edge| match edge.kind {
        EdgeKind::SocketRead if edge.outside => is_answered_late(scene, actor),
        // Another thread of its own may write to it.
        EdgeKind::SocketRead if edge.wakers.contains(&actor) => scene.is_alone(actor),
        EdgeKind::SocketRead | EdgeKind::Connect | EdgeKind::SocketWrite => true,
        // Those who read the same pipe and hold its other end are no peers.
        EdgeKind::PipeRead => edge.wakers.iter().any(|waker| {
            *waker != actor && scene.case.actors[*waker].wait != scene.case.actors[actor].wait
        }),
        _ => false,
    });
    stands(scene, actor) && (at_fifo(scene, actor) || (by_edge && !scene.is_idle(actor)))
}

/// Whether a process has waited for an answer from outside for so long that few take longer, and half as long again as ever before,
/// since how long one takes as a rule cannot be seen; and not one that heard something after all that it said: it may be told of news now and then.
fn is_answered_late(scene: &Scene<'_>, actor: usize) -> bool {
    let it = &scene.case.actors[actor];
    let node = scene.case.node_of(actor);
    let is_long = |seen: &Seen| seen.is_long_unanswered(seen.main_still);
    let Some(seen) = it.seen.filter(is_long) else {
        return false;
    };
    let Wait::Read { target, .. } = &it.wait else {
        return true;
    };
    let (_, tcp) = node.endpoint(target).unzip();
    let tcp = tcp.and_then(|endpoint| endpoint.tcp.as_ref());
    let said = tcp
        .and_then(|tcp| tcp.last_sent_ms)
        .map(|ago| Duration::from_millis(ago.into()));
    let heard = tcp.and_then(|tcp| {
        let ago = tcp
            .last_received_ms
            .filter(|_| tcp.bytes_received.is_some_and(|it| it > 0))?;
        Some(Duration::from_millis(ago.into()))
    });
    let window = node
        .newest()
        .capture
        .started_at
        .since(node.snapshots[node.window[0]].capture.started_at);
    let is_usual = |wait: Duration| {
        wait < window.saturating_mul(2) || wait < seen.main_still_before.mul_f64(1.5)
    };
    let has_heard_last = heard.zip(said).is_some_and(|(heard, said)| heard < said);
    !has_heard_last && !said.is_some_and(is_usual)
}

fn at_fifo(scene: &Scene<'_>, actor: usize) -> bool {
    matches!(scene.case.actors[actor].wait, Wait::OpenFifo { .. })
}

/// Along the chain of those who wait for one alone, the last.
fn end_of_chain(scene: &Scene<'_>, first: usize) -> usize {
    let mut chain = vec![first];
    let mut last = first;
    while let Some([next]) = scene.graph.edge(last).map(|edge| edge.wakers.as_slice()) {
        if chain.contains(next) {
            break;
        }
        chain.push(*next);
        last = *next;
    }
    last
}

fn child(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    for (parent, _) in case.alive() {
        let Some(edge) = scene
            .graph
            .edge(parent)
            .filter(|edge| edge.kind == EdgeKind::Child)
        else {
            continue;
        };
        let living: Vec<usize> = edge
            .wakers
            .iter()
            .copied()
            .filter(|child| case.actors[*child].fate == Fate::Alive)
            .collect();
        let (true, [child]) = (stands(scene, parent), living.as_slice()) else {
            continue;
        };
        let it = &case.actors[*child];
        if waits_by_design(scene, *child)
            || it.motion() != Motion::Still
            || scene.hope(*child).is_some()
        {
            continue;
        }
        scene.must_matter(&[*child])?;
        let summary = format!(
            "{} waits for the end of its child: {}, which {}{}.",
            words::who(case, parent),
            words::who(case, *child),
            words::call(it.process),
            words::at_actor(case, *child),
        );
        let victims = scene.victims(&[*child]);
        let claim = scene
            .claim(State::Hung, Cause::WaitingForChild)
            .by(*child)
            .holding_up(&victims);
        let standing = scene.standing(*child);
        return Ok(vec![
            claim
                .shown_by(edge.evidence.clone())
                .shown_by(scene.standing(parent))
                .shown_by(standing)
                .say(summary),
        ]);
    }
    Err("nobody waits for a child that stands still".to_owned())
}

/// Whether a child waits as it should, or it is not known who else could end its wait.
fn waits_by_design(scene: &Scene<'_>, child: usize) -> bool {
    let by_design = matches!(
        scene.case.actors[child].wait,
        Wait::Sleep
            | Wait::Running
            | Wait::Stopped
            | Wait::Child { .. }
            | Wait::Accept { .. }
            | Wait::Epoll { .. }
            | Wait::FileLock
            | Wait::Poll { is_timed: true, .. }
    );
    // Somebody whose maps could not be read may hold the lock.
    let is_shared = matches!(
        scene.case.actors[child].wait,
        Wait::Futex {
            is_private: false,
            ..
        }
    );
    let edge = scene.graph.edge(child);
    let is_unclear = is_shared && edge.is_none_or(|edge| edge.outside);
    by_design || is_unclear || scene.serves(child) || scene.is_idle(child)
}
