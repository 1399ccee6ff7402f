//! One helper's part of a capture: asks it process by process, and replaces it when it hangs or dies.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use helper::{OwnProcess, State};
use model::{GapCode, ProcessId, Stacks, Step};

use super::wire::{self, Answer, Outcome, Request};
use super::{Numbers, Reading, gap};
use crate::StackSettings;
use crate::helper::link::{Link, StartError};
use crate::helper::passing;
use crate::helper::pipe::PipeError;

/// The shortest time that a helper gets for one process, even close to the deadline.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// A read that took less was cut by the deadline of the capture; the process itself is not to blame.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// So often a helper may ask for the memory of a process before it answers; it does at each new handle.
const MOST_HANDED: u32 = 8;

/// What one helper did in one capture.
#[derive(Debug)]
pub(super) struct Shift {
    deadline: Instant,
    timeout: Duration,
    pub(super) readings: Vec<(ProcessId, Reading)>,
    /// Processes in which a helper hung or died.
    pub(super) hung: Vec<Hung>,
    /// Why no helper could be started.
    pub(super) trouble: Option<String>,
}

/// A process in which a helper hung or died.
#[derive(Debug)]
pub(super) struct Hung {
    pub(super) process: ProcessId,
    /// The helper, if it would not die.
    pub(super) helper: Option<OwnProcess>,
}

impl Shift {
    /// Reads `share` with the helper in `link`, started when there is none. It keeps its handles of all of `home`.
    pub(super) fn work(
        link: &mut Option<Link>,
        share: &[ProcessId],
        home: &[ProcessId],
        (settings, numbers): (&StackSettings, &Numbers),
        deadline: Instant,
        start: impl Fn(Instant) -> Result<Link, StartError>,
    ) -> Self {
        let mut shift = Self {
            deadline,
            timeout: settings.timeout,
            readings: Vec::with_capacity(share.len()),
            hung: Vec::new(),
            trouble: None,
        };
        let mut rest = share;
        while !rest.is_empty() {
            if Instant::now() >= deadline {
                shift.refuse(rest, GapCode::TimedOut, "not reached before the deadline");
                break;
            }
            let helper = match link.take().filter(Link::is_alive) {
                Some(helper) => helper,
                None => match start(shift.half()) {
                    Ok(helper) => helper,
                    Err(error) => {
                        let code = if error.was_slow() {
                            GapCode::TimedOut
                        } else {
                            GapCode::NoReader
                        };
                        let detail = error.to_string();
                        shift.refuse(rest, code, &detail);
                        shift.trouble = Some(detail);
                        break;
                    }
                },
            };
            let request = Request {
                focus: numbers.focus.clone(),
                keep: home.to_vec(),
                locals: numbers.locals.clone(),
                nonblocking: settings.nonblocking,
                processes: rest.to_vec(),
            };
            let done = shift.converse(helper, &request);
            rest = &rest[done.count..];
            *link = done.helper;
        }
        shift
    }

    /// Asks for all of `request` and takes answers until one does not come.
    fn converse(&mut self, mut helper: Link, request: &Request) -> Done {
        let frame = wire::encode(request).map_err(PipeError::from);
        let mut asked = frame.and_then(|frame| helper.ask(&frame, self.limit()));
        for (index, &process) in request.processes.iter().enumerate() {
            let began = Instant::now();
            let answer = asked.and_then(|()| self.answer(&mut helper, process));
            asked = Ok(());
            match answer {
                Ok(answer) if answer.process == process => {
                    self.readings.push((process, reading(answer)));
                }
                Ok(_) => {
                    self.lost(
                        helper,
                        process,
                        began,
                        "its answer is about another process",
                    );
                    return Done::without_helper(index + 1);
                }
                Err(PipeError::TimedOut) => {
                    self.lost(helper, process, began, "");
                    return Done::without_helper(index + 1);
                }
                Err(error) => {
                    self.lost(helper, process, began, &error.to_string());
                    return Done::without_helper(index + 1);
                }
            }
        }
        Done {
            count: request.processes.len(),
            helper: Some(helper),
        }
    }

    /// Takes the answer about `process`, and hands the helper its memory if it asks for that.
    fn answer(&self, helper: &mut Link, process: ProcessId) -> Result<Answer, PipeError> {
        for _ in 0..=MOST_HANDED {
            let payload = helper.answer(self.limit())?;
            let answer = wire::decode::<Answer>(&payload)?;
            if answer.process != process || !matches!(answer.outcome, Outcome::NeedsMemory) {
                return Ok(answer);
            }
            // The helper looks whose it is: before it asks, and after it has read.
            let memory = passing::open_memory_of(Path::new("/proc"), process.pid).ok();
            helper.hand(memory.as_ref(), self.limit())?;
        }
        let error = io::Error::other("it asks for the same memory again and again");
        Err(error.into())
    }

    /// Gives up `helper`, which was in `process`; `words` is empty when it did not answer in time.
    fn lost(&mut self, helper: Link, process: ProcessId, began: Instant, words: &str) {
        let (state, helper) = helper.kill();
        let took = began.elapsed();
        let (code, detail) = if words.is_empty() {
            let seconds = took.as_secs_f64();
            let detail = format!("no answer in {seconds:.1} s; the helper that read it was ended");
            (GapCode::TimedOut, detail)
        } else {
            let end = match state {
                State::Killed(signal) => format!("killed by signal {signal}"),
                State::Exited(code) => format!("exit code {code}"),
                State::Ended | State::Alive => "unknown end".to_owned(),
            };
            let detail = format!("the helper that read it was lost: {words} ({end})");
            (GapCode::Failed, detail)
        };
        let gap = gap(process, code).with_detail(detail);
        self.readings.push((process, Reading::Gap(gap)));
        if code == GapCode::Failed || took >= self.timeout.min(HANGS_AFTER) || helper.is_some() {
            self.hung.push(Hung { process, helper });
        }
    }

    /// Until when the next answer may take: the timeout, and at most half of what is left.
    fn limit(&self) -> Instant {
        self.half().min(Instant::now() + self.timeout)
    }

    /// Half of what is left, so that what hangs leaves time for what comes after it.
    fn half(&self) -> Instant {
        let now = Instant::now();
        let left = self.deadline.saturating_duration_since(now);
        now + (left / 2).max(LEAST_TIME).min(left)
    }

    fn refuse(&mut self, processes: &[ProcessId], code: GapCode, detail: &str) {
        let refused = processes.iter().map(|&process| {
            (
                process,
                Reading::Gap(gap(process, code).with_detail(detail)),
            )
        });
        self.readings.extend(refused);
    }
}

/// How far a conversation came.
struct Done {
    count: usize,
    helper: Option<Link>,
}

impl Done {
    fn without_helper(count: usize) -> Self {
        Self {
            count,
            helper: None,
        }
    }
}

fn reading(answer: Answer) -> Reading {
    let process = answer.process;
    match answer.outcome {
        Outcome::NotPython => Reading::NotPython,
        Outcome::NeedsMemory => {
            let gap = gap(process, GapCode::Malformed);
            Reading::Gap(gap.with_detail("the helper gives no answer but a question"))
        }
        Outcome::Traces {
            numbers,
            source,
            stacks,
            version,
        } => {
            let read = stacks.unpack(process.pid).and_then(|traces| {
                let steps = numbers.into_iter().map(|number| number.unpack(&traces));
                let steps: Vec<Step> = steps.collect::<Option<_>>()?;
                let stacks = Stacks {
                    source,
                    traces,
                    unchanged_since: None,
                    version,
                };
                Some(Reading::Stacks(stacks, steps))
            });
            read.unwrap_or_else(|| {
                let gap = gap(process, GapCode::Malformed);
                Reading::Gap(gap.with_detail("the helper's answer makes no sense"))
            })
        }
        Outcome::Refused {
            code,
            detail,
            remedy,
        } => {
            let mut gap = gap(process, code).with_detail(detail);
            gap.remedy = remedy;
            Reading::Gap(gap)
        }
    }
}
