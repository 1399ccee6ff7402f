//! How a rule says what it found.

use model::Timestamp;

use crate::case::{Fate, thread_index};
use crate::scene::Scene;
use crate::verdict::{Cause, Culprit, Evidence, State, Verdict};

/// A verdict in the making.
pub(crate) struct Claim<'s, 'a> {
    scene: &'s Scene<'a>,
    verdict: Verdict,
    /// The one to blame, and the thread of it.
    culprit: Option<(usize, i32)>,
    victims: Vec<usize>,
}

impl<'a> Scene<'a> {
    pub(crate) fn claim(&self, state: State, cause: Cause) -> Claim<'_, 'a> {
        Claim {
            scene: self,
            verdict: Verdict {
                verdict: state,
                cause,
                summary: String::new(),
                culprit: None,
                victims: Vec::new(),
                findings: Vec::new(),
                evidence: Vec::new(),
                since: None,
            },
            culprit: None,
            victims: Vec::new(),
        }
    }
}

impl Claim<'_, '_> {
    /// Blames the main thread of a process.
    pub(crate) fn by(self, actor: usize) -> Self {
        self.by_thread(actor, None)
    }

    /// Blames a thread of a process.
    pub(crate) fn by_thread(mut self, actor: usize, thread: Option<i32>) -> Self {
        let case = &self.scene.case;
        self.verdict.culprit = Some(case.culprit(actor, thread));
        self.culprit = Some((actor, thread.unwrap_or(case.actors[actor].process.pid)));
        self
    }

    /// Blames one that may not be in any snapshot.
    pub(crate) fn blames(mut self, culprit: Culprit) -> Self {
        self.verdict.culprit = Some(culprit);
        self
    }

    /// Names those who wait.
    pub(crate) fn holding_up(mut self, victims: &[usize]) -> Self {
        self.verdict.victims = self.scene.case.victims(victims);
        self.victims = victims.to_vec();
        self
    }

    /// Adds what shows it. A value that is not in its snapshot shows nothing and is left out.
    pub(crate) fn shown_by(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        for item in evidence {
            if !self.verdict.evidence.contains(&item) {
                self.verdict.evidence.push(item);
            }
        }
        self
    }

    /// Says it in one sentence.
    pub(crate) fn say(mut self, summary: impl Into<String>) -> Verdict {
        self.verdict.summary = summary.into();
        self.verdict.since = self.since();
        self.verdict
    }

    fn since(&self) -> Option<Timestamp> {
        let case = &self.scene.case;
        let (culprit, tid) = self.culprit?;
        let unchanged = |actor: usize, tid: i32| {
            let it = &case.actors[actor];
            let thread = thread_index(it.process, tid).filter(|_| it.fate == Fate::Alive)?;
            it.process.proc.threads[thread].unchanged_since
        };
        let node = case.actors[culprit].node;
        let beside = self
            .victims
            .iter()
            .filter(|it| case.actors[**it].node == node);
        let waiting = beside.filter_map(|it| unchanged(*it, case.actors[*it].process.pid));
        unchanged(culprit, tid).or_else(|| waiting.max())
    }
}
