//! The collector's end of the GPU helper: asks, waits a bounded time, and remembers since when there is no answer.
//!
//! A question without an answer is left standing for a while, because a driver may take seconds to start its GPUs. Then
//! the helper is killed and another one asks; one that cannot be killed is left behind, and nobody asks until it has gone.

use std::time::{Duration, Instant};

use helper::{OwnProcess, Register, State};
use model::{Gap, GapCode, Timestamp};
use tracing::warn;

use super::wire::{self, Part, Question};
use super::{GpuLook, GpuSettings};
use crate::helper::HelperProgram;
use crate::helper::frame;
use crate::helper::link::Link;
use crate::helper::pipe::PipeError;

/// For how many captures a library that crashed is left alone.
const CAPTURES_LEFT_ALONE: u32 = 5;

/// How long what may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// An answer, with the start of the helper.
    pub(super) answer: Duration,
    /// The answer to a question of an earlier capture.
    pub(super) late: Duration,
    /// A question, over several captures, before its helper is killed.
    pub(super) question: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(1),
            late: Duration::from_millis(100),
            question: Duration::from_secs(10),
        }
    }
}

/// Asks GPUs.
#[derive(Debug)]
pub(super) struct Asker {
    /// A helper that did not die of SIGKILL.
    pub(super) abandoned: Option<OwnProcess>,
    pub(super) patience: Patience,
    settings: GpuSettings,
    register: Register,
    link: Option<Link>,
    /// When the helper was asked what it has not answered yet, and what the driver was asked last.
    asked: Option<(Instant, String)>,
    /// The gap of a library that crashed, and for how many captures more it is left alone.
    crashed: Option<(Gap, u32)>,
    silent_since: Option<Timestamp>,
}

impl Asker {
    pub(super) fn new(settings: GpuSettings, register: Register) -> Self {
        Self {
            abandoned: None,
            patience: Patience::default(),
            settings,
            register,
            link: None,
            asked: None,
            crashed: None,
            silent_since: None,
        }
    }

    /// Whether the driver has answered all that it was asked.
    pub(super) fn is_well(&self) -> bool {
        let is_silent = self.asked.is_some() || self.silent_since.is_some();
        !is_silent && self.crashed.is_none() && self.abandoned.is_none()
    }

    /// Asks for all there is to know; `now` is when. Waits no longer than the patience says.
    pub(super) fn look(&mut self, now: Timestamp) -> GpuLook {
        if let Some(helper) = &self.abandoned {
            if helper.state(Duration::ZERO) == State::Alive {
                return self.silent(now, GpuLook::default(), "a helper hangs in it for good");
            }
            self.abandoned = None;
        }
        if let Some((gap, captures)) = self.crashed.take()
            && captures > 0
        {
            self.crashed = Some((gap.clone(), captures - 1));
            return only(gap);
        }
        self.take_late_answer(now)
            .unwrap_or_else(|| self.ask(now, Instant::now() + self.patience.answer))
    }

    /// Ends the helper.
    pub(super) fn close(&mut self) {
        // Its input closes with the link, which makes it end, or it is killed.
        self.link = None;
        self.asked = None;
        self.abandoned = None;
    }

    /// Waits for the answer to an earlier question, which is of no use any more. Returns the look where no other question
    /// can be asked yet.
    fn take_late_answer(&mut self, now: Timestamp) -> Option<GpuLook> {
        let (since, _) = self.asked.as_ref()?;
        let has_waited = since.elapsed();
        match self.receive(&mut GpuLook::default(), Instant::now() + self.patience.late) {
            Ok(()) => {
                self.silent_since = None;
                None
            }
            Err(PipeError::TimedOut) if has_waited < self.patience.question => {
                Some(self.silent(now, GpuLook::default(), "its helper waits on"))
            }
            Err(PipeError::TimedOut) => {
                warn!("The GPU driver does not answer; the helper that asked it is killed.");
                self.kill();
                let is_abandoned = self.abandoned.is_some();
                is_abandoned.then(|| {
                    let words = "a helper hangs in it for good";
                    self.silent(now, GpuLook::default(), words)
                })
            }
            Err(error) => Some(self.lost(&error)),
        }
    }

    fn ask(&mut self, now: Timestamp, until: Instant) -> GpuLook {
        self.link = self.link.take().filter(Link::is_alive);
        if self.link.is_none() {
            let program = HelperProgram {
                program: self.settings.helper.clone(),
                arguments: self.settings.arguments.clone(),
            };
            match Link::start(&program, &self.register, wire::PROTOCOL, until) {
                Ok(link) => self.link = Some(link),
                Err(error) => {
                    let code = if error.was_slow() {
                        GapCode::TimedOut
                    } else {
                        GapCode::NoReader
                    };
                    return GpuLook {
                        gaps: vec![Gap::new("gpus", code).with_detail(error.to_string())],
                        silent_since: self.silent_since,
                        ..GpuLook::default()
                    };
                }
            }
        }
        let question = Question {
            library: self.settings.library.clone(),
        };
        let sent = match (&mut self.link, frame::encode(&question)) {
            (Some(link), Ok(question)) => link.ask(&question, until),
            (_, Err(error)) => Err(error.into()),
            (None, _) => Err(PipeError::Closed),
        };
        self.asked = Some((Instant::now(), "the driver".to_owned()));
        let mut look = GpuLook::default();
        match sent.and_then(|()| self.receive(&mut look, until)) {
            Ok(()) => {
                self.silent_since = None;
                look
            }
            Err(PipeError::TimedOut) => self.silent(now, look, "its helper waits on"),
            Err(error) => self.lost(&error),
        }
    }

    /// Takes parts of an answer until its end.
    fn receive(&mut self, look: &mut GpuLook, until: Instant) -> Result<(), PipeError> {
        let (Some(link), Some((_, asked))) = (&mut self.link, &mut self.asked) else {
            return Err(PipeError::Closed);
        };
        loop {
            match frame::decode(&link.answer(until)?)? {
                Part::Asking(what) => *asked = what,
                Part::Driver(version) => look.driver = Some(version),
                Part::Gpu(gpu) => look.gpus.push(*gpu),
                Part::Gap(gap) => look.gaps.push(gap),
                Part::End => {
                    self.asked = None;
                    return Ok(());
                }
            }
        }
    }

    /// Returns `look` as one that got no answer, or none to the end.
    fn silent(&mut self, now: Timestamp, mut look: GpuLook, more: &str) -> GpuLook {
        let since = *self.silent_since.get_or_insert(now);
        let who = self.asked.as_ref().map_or("the driver", |(_, who)| who);
        let detail = format!("{who} has not answered since {since}; {more}");
        look.gaps
            .push(Gap::new("gpus", GapCode::BlockedRead).with_detail(detail));
        look.silent_since = Some(since);
        look
    }

    /// Returns the look of a helper that ended or said something else than an answer.
    fn lost(&mut self, error: &PipeError) -> GpuLook {
        let ended = self.kill();
        let (code, detail) = match (ended, error) {
            (_, PipeError::Io(error)) => (GapCode::Malformed, error.to_string()),
            (Some(State::Killed(signal)), _) => {
                let detail = format!("its helper was killed by signal {signal}");
                (GapCode::Failed, detail)
            }
            (Some(State::Exited(status)), _) => {
                let detail = format!("its helper ended with status {status}");
                (GapCode::Failed, detail)
            }
            _ => (GapCode::Failed, "its helper ended".to_owned()),
        };
        let detail = format!(
            "{detail} while the driver was asked; it is asked again after {CAPTURES_LEFT_ALONE} more captures"
        );
        let gap = Gap::new("gpus", code).with_detail(detail);
        self.crashed = Some((gap.clone(), CAPTURES_LEFT_ALONE));
        self.silent_since = None;
        only(gap)
    }

    /// Kills the helper; one that would not die is left behind. Returns how it ended.
    fn kill(&mut self) -> Option<State> {
        self.asked = None;
        let (state, left) = self.link.take()?.kill();
        self.abandoned = left;
        Some(state)
    }
}

fn only(gap: Gap) -> GpuLook {
    GpuLook {
        gaps: vec![gap],
        ..GpuLook::default()
    }
}
