//! How a rule says what it found.

use crate::scene::Scene;
use crate::verdict::{Cause, Culprit, Evidence, State, Verdict};

/// A verdict in the making.
pub(crate) struct Claim<'s, 'a> {
    scene: &'s Scene<'a>,
    verdict: Verdict,
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
            },
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
        self.verdict.culprit = Some(self.scene.case.culprit(actor, thread));
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
        self.verdict
    }
}
