//! Where lines are taken: what each asks is passed on, and answered where it is to be.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::board::{Board, Status, Tally};
use super::line::{Ask, Line, is_of_a_stage, parse};
use super::owners::Owners;
use crate::collect::Request;

/// One answer: one line of JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Whether it was understood and passed on.
    pub(crate) ok: bool,
    /// The number of a request for a snapshot; `status` tells when it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
}

/// Takes lines for a collector.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) board: Board,
    pub(super) owners: Owners,
    pub(super) requests: UnboundedSender<Request>,
    pub(super) tally: Tally,
}

impl Desk {
    /// Takes one line, without its end, that `writer` wrote; returns the answer, one line, where it is to have one.
    pub(super) fn take(&mut self, writer: i32, line: &[u8]) -> Option<String> {
        let parsed = parse(line);
        self.tally.lines += u64::from(parsed.is_ok());
        let answer = match parsed {
            Ok(Line::Ask(ask)) => self.answer(ask),
            Ok(Line::Stage(said)) => {
                self.owners.take(said, writer);
                return None;
            }
            Err(reason) => self.refuse(reason),
        };
        if is_of_a_stage(line) {
            return None;
        }
        let text = serde_json::to_string(&answer).ok()?;
        Some(text + "\n")
    }

    /// Counts a line that is refused.
    fn refuse(&mut self, reason: String) -> Answer {
        self.tally.refused_lines += 1;
        self.tally.last_refusal = Some(reason.clone());
        Answer {
            error: Some(reason),
            ..Answer::default()
        }
    }

    fn answer(&self, ask: Ask) -> Answer {
        let mut answer = Answer {
            ok: true,
            ..Answer::default()
        };
        let request = match ask {
            Ask::Status => {
                answer.status = Some(self.board.status(&self.tally, self.owners.stages.status()));
                return answer;
            }
            Ask::Ping => return answer,
            Ask::Snapshot => {
                answer.request = Some(self.board.ask());
                Request::Snapshot(model::Trigger::Requested)
            }
            Ask::Interval(span) => Request::Interval(span.map(crate::config::Span::duration)),
            Ask::Pause => Request::Pause,
            Ask::Resume => Request::Resume,
        };
        if self.requests.send(request).is_err() {
            let error = Some("the collector has ended".to_owned());
            return Answer {
                error,
                ..Answer::default()
            };
        }
        answer
    }
}
