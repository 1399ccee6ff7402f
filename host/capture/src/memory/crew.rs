//! The memory helper of a collector: the one that works, those that were abandoned, and which processes are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use helper::{OwnProcess, Register, State};
use model::{GapCode, ProcessId};
use tracing::warn;

use super::Failure;
use super::wire::{self, Job, Piece, Request};
use crate::helper::HelperProgram;
use crate::helper::link::Link;
use crate::helper::passing;
use crate::helper::pipe::PipeError;
use crate::proc::reader::open_process;
use crate::proc::{Reader, stat};

/// How long a read may take; and every further one in the same capture, and one of a process that blocked a read before.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_PATIENCE: Duration = Duration::from_millis(100);

/// How long a helper may take to start: the machine may be busy.
const STARTING: Duration = Duration::from_secs(10);

/// With so many helpers abandoned, nothing is read: each holds memory and a PID.
const MOST_ABANDONED: usize = 8;

/// For how many captures a process that blocked a helper is left alone, unless its state changes.
const CAPTURES_LEFT_ALONE: u32 = 5;

/// So often a helper may ask for a memory within one job; it does once.
const MOST_HANDED: usize = 8;

/// How long a helper may take to end by itself.
const ENDING: Duration = Duration::from_millis(500);

/// With more jobs than this to come, answers are let gather for `GATHERING` for each of them, about half of what a job takes: being
/// woken for each answer costs more than the answer does.
const FEW_JOBS: usize = 4;
const GATHERING: Duration = Duration::from_micros(15);
const LONGEST_GATHERING: Duration = Duration::from_millis(5);

/// The helper and what is remembered of processes that blocked one.
pub(super) struct Crew {
    program: HelperProgram,
    register: Register,
    link: Option<Link>,
    /// Helpers that did not die of SIGKILL, and the process they hang in.
    abandoned: Vec<(ProcessId, OwnProcess)>,
    left_alone: BTreeMap<ProcessId, LeftAlone>,
    in_trouble: bool,
}

/// A process in which a helper was blocked or lost. It is remembered until it has been read to its end.
struct LeftAlone {
    /// Its state letter then.
    state: Option<char>,
    captures: u32,
}

/// How a conversation ended before all was answered.
enum Broken {
    /// A read did not return.
    Blocked,
    /// The helper died or made no sense.
    Lost(PipeError),
}

impl Crew {
    /// Starts nothing yet.
    pub(super) fn new(program: HelperProgram, register: Register) -> Self {
        Self {
            program,
            register,
            link: None,
            abandoned: Vec::new(),
            left_alone: BTreeMap::new(),
            in_trouble: false,
        }
    }

    /// Begins a capture of `ids`. Returns which of them are left alone in it, and why.
    pub(super) fn begin(&mut self, proc: &Path, ids: &[ProcessId]) -> Vec<(ProcessId, String)> {
        let is_there = |(_, helper): &(_, OwnProcess)| helper.state(Duration::ZERO) == State::Alive;
        self.abandoned.retain(is_there);
        let ids: BTreeSet<ProcessId> = ids.iter().copied().collect();
        self.left_alone.retain(|id, _| ids.contains(id));
        let mut excused = Vec::new();
        for id in ids {
            if self.abandoned.iter().any(|(hung_in, _)| *hung_in == id) {
                let detail = "an earlier read hangs in the kernel and has not returned yet";
                excused.push((id, detail.to_owned()));
            } else if let Some(known) = self.left_alone.get_mut(&id)
                && known.captures > 0
                && known.state == state_of(proc, id.pid)
            {
                let detail = format!(
                    "an earlier read did not return; it is tried again when its state changes, or after {} more captures",
                    known.captures
                );
                known.captures -= 1;
                excused.push((id, detail));
            }
        }
        excused
    }

    /// Does `jobs` as `MemoryReader::read` says.
    pub(super) fn read(
        &mut self,
        proc: &Path,
        names: &[String],
        jobs: &[Job],
        take: &mut dyn FnMut(usize, Piece),
    ) -> Vec<(usize, Failure)> {
        let mut failures = Vec::new();
        let mut patience = PATIENCE;
        let mut done = 0;
        while done < jobs.len() {
            let link = match self.helper() {
                Ok(link) => link,
                Err(failure) => {
                    failures.extend((done..jobs.len()).map(|at| (at, failure.clone())));
                    break;
                }
            };
            let request = Request {
                jobs: &jobs[done..],
                names: names.to_vec(),
                proc: proc.as_os_str().to_owned(),
            };
            let mut conversation = Conversation {
                done,
                handed: None,
                jobs,
                link,
                patience,
            };
            let broken = conversation.hold(&request, &self.left_alone, take);
            let Conversation {
                done: came_to,
                link,
                ..
            } = conversation;
            for job in &jobs[done..came_to] {
                self.left_alone.remove(&job.id);
            }
            done = came_to;
            match broken {
                Ok(()) => self.link = Some(link),
                Err(broken) => {
                    failures.push((done, self.give_up(proc, jobs[done].id, link, &broken)));
                    done += 1;
                    patience = SHORT_PATIENCE;
                }
            }
        }
        failures
    }

    /// Ends all helpers.
    pub(super) fn close(&mut self) {
        if let Some(link) = self.link.take() {
            link.close().state(ENDING);
        }
        let abandoned = self.abandoned.drain(..).map(|(_, helper)| helper);
        helper::end_all(abandoned.collect());
    }

    /// Takes the helper, which is started where there is none.
    fn helper(&mut self) -> Result<Link, Failure> {
        if let Some(link) = self.link.take().filter(Link::is_alive) {
            return Ok(link);
        }
        if self.abandoned.len() >= MOST_ABANDONED {
            return Err(Failure {
                code: GapCode::Skipped,
                detail: format!(
                    "{MOST_ABANDONED} helpers hang in reads of other processes; no other is started"
                ),
            });
        }
        let until = Instant::now() + STARTING;
        let started = Link::start(&self.program, &self.register, wire::PROTOCOL, until);
        if let Err(trouble) = &started
            && !self.in_trouble
        {
            warn!(%trouble, "Arguments and environments cannot be read.");
        }
        self.in_trouble = started.is_err();
        started.map_err(|error| Failure {
            code: GapCode::Failed,
            detail: error.to_string(),
        })
    }

    /// Ends the helper, which was in the process `id`, and leaves that alone from now on.
    fn give_up(&mut self, proc: &Path, id: ProcessId, link: Link, broken: &Broken) -> Failure {
        let (_, undead) = link.kill();
        warn!(process = %id, "A memory helper was lost in this process; it is left alone for a while.");
        let known = LeftAlone {
            state: state_of(proc, id.pid),
            captures: CAPTURES_LEFT_ALONE,
        };
        self.left_alone.insert(id, known);
        let is_undead = undead.is_some();
        self.abandoned.extend(undead.map(|helper| (id, helper)));
        match broken {
            Broken::Blocked => Failure {
                code: GapCode::BlockedRead,
                detail: if is_undead {
                    "the read did not return; the helper that was in it cannot be ended and was abandoned".to_owned()
                } else {
                    "the read did not return; the helper that was in it was ended".to_owned()
                },
            },
            Broken::Lost(error) => Failure {
                code: GapCode::Failed,
                detail: format!("the helper that read it was lost: {error}"),
            },
        }
    }
}

/// One request to one helper and its answers.
struct Conversation<'a> {
    /// How many of the jobs are done.
    done: usize,
    /// For which job the helper was handed a memory last, and how often.
    handed: Option<(usize, usize)>,
    jobs: &'a [Job],
    link: Link,
    patience: Duration,
}

impl Conversation<'_> {
    /// Asks for `request`, which are the jobs that are not done, and takes answers until all are.
    fn hold(
        &mut self,
        request: &Request<&[Job]>,
        left_alone: &BTreeMap<ProcessId, LeftAlone>,
        take: &mut dyn FnMut(usize, Piece),
    ) -> Result<(), Broken> {
        let proc = Path::new(&request.proc);
        let first = self.done;
        let frame = wire::encode(request).map_err(|error| Broken::Lost(error.into()))?;
        let asked = self.link.ask(&frame, Instant::now() + PATIENCE);
        asked.map_err(Broken::Lost)?;
        while self.done < self.jobs.len() {
            let payload = self.wait(left_alone)?;
            let pieces = wire::pieces(&payload).map_err(|error| Broken::Lost(error.into()))?;
            for (position, piece) in pieces {
                let position = usize::try_from(position).ok().map(|at| at + first);
                if position != Some(self.done) || self.done == self.jobs.len() {
                    return Err(broken("its answer is about another process"));
                }
                match piece {
                    Piece::Done => self.done += 1,
                    Piece::NeedsMemory => self.hand(proc)?,
                    piece => take(self.done, piece),
                }
            }
        }
        Ok(())
    }

    /// Hands the helper the memory of the process that it reads, if we may open it.
    fn hand(&mut self, proc: &Path) -> Result<(), Broken> {
        let id = self.jobs[self.done].id;
        self.handed = match self.handed {
            Some((job, count)) if job == self.done => Some((job, count + 1)),
            _ => Some((self.done, 1)),
        };
        if self.handed.is_some_and(|(_, count)| count > MOST_HANDED) {
            return Err(broken("it asks for the same memory again and again"));
        }
        let memory = passing::open_memory_of(proc, id.pid).ok();
        let handed = self.link.hand(memory.as_ref(), Instant::now() + PATIENCE);
        handed.map_err(Broken::Lost)
    }

    /// Waits for the next answer. A helper that has something to do, and no processor to do it on, is waited for longer.
    fn wait(&mut self, left_alone: &BTreeMap<ProcessId, LeftAlone>) -> Result<Vec<u8>, Broken> {
        let began = Instant::now();
        let to_come = self.jobs.len() - self.done;
        if to_come > FEW_JOBS {
            let jobs = u32::try_from(to_come).unwrap_or(u32::MAX);
            let gathering = GATHERING.saturating_mul(jobs).min(LONGEST_GATHERING);
            match self.link.answer(began) {
                Err(PipeError::TimedOut) => std::thread::sleep(gathering),
                other => return other.map_err(Broken::Lost),
            }
        }
        let patience = if left_alone.contains_key(&self.jobs[self.done].id) {
            SHORT_PATIENCE
        } else {
            self.patience
        };
        let mut until = began + patience;
        loop {
            match self.link.answer(until) {
                Err(PipeError::TimedOut) => {
                    let is_over = began.elapsed() >= 2 * PATIENCE;
                    if is_over || state_of(Path::new("/proc"), self.link.pid()) != Some('R') {
                        return Err(Broken::Blocked);
                    }
                    until = Instant::now() + SHORT_PATIENCE;
                }
                other => return other.map_err(Broken::Lost),
            }
        }
    }
}

fn broken(words: &'static str) -> Broken {
    Broken::Lost(io::Error::other(words).into())
}

/// The letter of the state of a process's main thread, which is to be had without any lock.
fn state_of(proc: &Path, pid: i32) -> Option<char> {
    let directory = open_process(proc, pid).ok()?;
    let mut reader = Reader::new();
    let stat = stat::parse(reader.read(directory.as_fd(), "stat").ok()?)?;
    Some(stat.state)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::memory::Task;

    fn job(pid: i32) -> Job {
        let task = Task::Connections {
            arguments: Vec::new(),
            maps: true,
            words: Vec::new(),
        };
        let id = ProcessId {
            pid,
            start_time_ticks: 1,
        };
        Job { id, task }
    }

    /// A crew with as many helpers that will not die as there may be; they hang in the processes 1, 2, 3 …
    fn beset() -> Crew {
        let register = Register::default();
        let program = HelperProgram {
            program: "/nowhere/at/all".into(),
            arguments: Vec::new(),
        };
        let mut crew = Crew::new(program, register.clone());
        for pid in 1..=i32::try_from(MOST_ABANDONED).unwrap() {
            let mut command = Command::new("/bin/sleep");
            let (process, _) = OwnProcess::start(command.arg("600"), &register).unwrap();
            crew.abandoned.push((job(pid).id, process));
        }
        crew
    }

    #[test]
    fn the_number_of_abandoned_helpers_is_bounded_and_said() {
        let mut crew = beset();
        let jobs = [job(100), job(101)];
        let failures = crew.read(Path::new("/nowhere"), &[], &jobs, &mut |_, _| {});
        let seen: Vec<_> = failures
            .iter()
            .map(|(at, failure)| (*at, failure.code))
            .collect();
        assert_eq!(seen, [(0, GapCode::Skipped), (1, GapCode::Skipped)]);
        let detail = &failures[0].1.detail;
        assert!(detail.starts_with("8 helpers hang in reads"), "{detail}");
        assert_eq!(
            crew.register.pids().len(),
            MOST_ABANDONED,
            "they count as helpers"
        );
    }

    #[test]
    fn a_process_in_which_a_helper_hangs_is_left_alone_until_that_has_ended() {
        let mut crew = beset();
        let ids = [job(1).id, job(100).id];
        let excused = crew.begin(Path::new("/nowhere"), &ids);
        assert_eq!(excused.len(), 1);
        assert_eq!(excused[0].0, ids[0]);
        crew.abandoned[0].1.kill();
        testkit::wait_until(testkit::DEADLINE, || {
            crew.begin(Path::new("/nowhere"), &ids).is_empty()
        });
    }

    #[test]
    fn the_end_waits_for_none_of_them() {
        let mut crew = beset();
        let began = Instant::now();
        crew.close();
        assert!(began.elapsed() < testkit::DEADLINE);
        assert_eq!(crew.register.pids(), [0; 0]);
    }
}
