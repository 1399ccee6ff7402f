//! How a rule cites what it found: values of snapshots and of obituaries, who is to blame, and who waits.

use super::{Case, Fate, trace_of};
use crate::ending::End;
use crate::python;
use crate::verdict::{Culprit, Evidence, Victim};

impl Case<'_> {
    /// A value of the snapshot that the actor was last seen in, below its entry in `processes`.
    pub(crate) fn cite(&self, actor: usize, below: &str) -> Option<Evidence> {
        let actor = &self.actors[actor];
        let path = format!("/processes/{}/{below}", actor.index);
        self.cite_at(actor.node, actor.snapshot, &path)
    }

    /// A value of the newest snapshot of a node.
    pub(crate) fn cite_newest(&self, node: usize, path: &str) -> Option<Evidence> {
        self.cite_at(node, self.nodes[node].newest_index(), path)
    }

    /// A value of a snapshot; nothing where the pointer does not resolve.
    pub(crate) fn cite_at(&self, node: usize, snapshot: usize, path: &str) -> Option<Evidence> {
        let snapshot = self.nodes[node].snapshots.get(snapshot)?;
        Some(Evidence {
            node: snapshot.task.node.clone(),
            snapshot: snapshot.capture.id.to_string(),
            path: path.to_owned(),
            value: crate::pointer::resolve(snapshot, path)?,
        })
    }

    /// What the obituary of an actor says of its end.
    pub(crate) fn cite_end(&self, end: End<'_>, node: usize) -> Option<Evidence> {
        Some(Evidence {
            node: self.nodes[node].newest().task.node.clone(),
            snapshot: end.record.to_owned(),
            path: format!("/obituaries/{}/ending", end.index),
            value: serde_json::to_value(end.obituary.ending).ok()?,
        })
    }

    /// What shows that and how an actor has ended.
    pub(crate) fn ended(&self, actor: usize) -> Vec<Evidence> {
        let it = &self.actors[actor];
        let keys = ["identity", "state", "proc/exit_signal", "proc/exit_code"];
        let mut evidence: Vec<Evidence> = keys
            .iter()
            .filter_map(|key| self.cite(actor, key))
            .collect();
        evidence.extend(it.end.and_then(|end| self.cite_end(end, it.node)));
        evidence
    }

    /// Names an actor, with its main thread where no other is meant.
    pub(crate) fn culprit(&self, actor: usize, thread: Option<i32>) -> Culprit {
        let it = &self.actors[actor];
        let process = it.process;
        let is_alive = it.fate == Fate::Alive;
        let thread = thread.or(is_alive.then_some(process.pid));
        // Of one that has ended, where it was seen last.
        let trace = trace_of(process, thread.unwrap_or(process.pid));
        Culprit {
            node: self.nodes[it.node].newest().task.node.clone(),
            rank: it.rank,
            pid: process.pid,
            process: process.identity.to_string(),
            thread,
            frame: trace
                .and_then(|trace| python::telling_frame(&trace.frames))
                .map(|frame| python::place(frame)),
        }
    }

    pub(crate) fn victim(&self, actor: usize) -> Victim {
        let it = &self.actors[actor];
        Victim {
            node: self.nodes[it.node].newest().task.node.clone(),
            rank: it.rank,
            pid: it.process.pid,
        }
    }

    pub(crate) fn victims(&self, actors: &[usize]) -> Vec<Victim> {
        let mut victims: Vec<Victim> = actors.iter().map(|actor| self.victim(*actor)).collect();
        victims.sort_by_key(|victim| {
            (
                victim.rank.is_none(),
                victim.rank,
                victim.node.clone(),
                victim.pid,
            )
        });
        victims.dedup();
        victims
    }
}
