//! The stack helpers of the embedded reader: which helper reads which process, and which process is left alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use helper::{OwnProcess, Register, State};
use model::{Gap, GapCode, ProcessId};
use tracing::warn;

use super::shift::{Hung, Shift};
use super::{Numbers, Reading, gap, image, wire};
use crate::StackSettings;
use crate::helper::HelperProgram;
use crate::helper::link::Link;

/// For how many captures a process in which a helper hung or died is left alone, unless its state changes.
const CAPTURES_LEFT_ALONE: u32 = 5;

/// A second helper is started where one would have more than this many processes to read. Each takes about 11 MiB.
const PROCESSES_OF_A_HELPER: usize = 64;

/// How long helpers may take to end by themselves.
const ENDING: Duration = Duration::from_millis(500);

/// The helpers; they are started at the first read and then kept.
#[derive(Debug)]
pub(super) struct Pool {
    helper: HelperProgram,
    settings: StackSettings,
    register: Register,
    /// A helper keeps its place when it is replaced.
    links: Vec<Option<Link>>,
    /// The place of the helper that reads a process, for as long as the process is asked for: its handle stays warm.
    homes: HashMap<ProcessId, usize>,
    left_alone: BTreeMap<ProcessId, LeftAlone>,
    /// Helpers that did not die of SIGKILL, and the process they hang in.
    abandoned: Vec<(ProcessId, OwnProcess)>,
    in_trouble: bool,
}

/// A process in which a helper hung or died.
#[derive(Debug)]
struct LeftAlone {
    /// Its state letter then.
    state: Option<char>,
    captures: u32,
}

impl Pool {
    /// Makes a pool without helpers.
    pub(super) fn new(helper: HelperProgram, settings: StackSettings, register: Register) -> Self {
        Self {
            helper,
            settings,
            register,
            links: Vec::new(),
            homes: HashMap::new(),
            left_alone: BTreeMap::new(),
            abandoned: Vec::new(),
            in_trouble: false,
        }
    }

    /// Reads `processes` until `deadline`. Helpers keep their handles of those and of `kept`.
    pub(super) fn read(
        &mut self,
        processes: &[ProcessId],
        kept: &[ProcessId],
        numbers: &Numbers,
        deadline: Instant,
    ) -> HashMap<ProcessId, Reading> {
        self.abandoned
            .retain(|(_, helper)| helper.state(Duration::ZERO) == State::Alive);
        let wanted: HashSet<ProcessId> = processes.iter().chain(kept).copied().collect();
        self.homes.retain(|process, _| wanted.contains(process));
        self.left_alone
            .retain(|process, _| wanted.contains(process));
        let mut readings = HashMap::new();
        let mut asked = Vec::new();
        for &process in processes {
            match self.excuse(process) {
                Some(gap) => {
                    readings.insert(process, Reading::Gap(gap));
                }
                None => asked.push(process),
            }
        }
        let shares = self.share_out(&asked);
        let shifts = self.run(&shares, numbers, deadline);
        let mut trouble = None;
        for shift in shifts {
            readings.extend(shift.readings);
            trouble = trouble.or(shift.trouble);
            for hung in shift.hung {
                self.leave_alone(hung);
            }
        }
        match &trouble {
            Some(trouble) if !self.in_trouble => {
                warn!(%trouble, "Python stacks cannot be read.");
            }
            _ => {}
        }
        self.in_trouble = trouble.is_some();
        readings
    }

    /// Ends all helpers.
    pub(super) fn close(&mut self) {
        let until = Instant::now() + ENDING;
        let links = self.links.drain(..).flatten();
        let ending: Vec<OwnProcess> = links.map(Link::close).collect();
        for process in ending {
            process.state(until.saturating_duration_since(Instant::now()));
        }
        let abandoned = self.abandoned.drain(..).map(|(_, helper)| helper);
        helper::end_all(abandoned.collect());
        self.homes.clear();
    }

    /// Returns why `process` is not to be read in this capture.
    fn excuse(&mut self, process: ProcessId) -> Option<Gap> {
        let in_it = |(hung_in, _): &(ProcessId, OwnProcess)| *hung_in == process;
        if self.abandoned.iter().any(in_it) {
            let detail = "a read of it hangs in the kernel and cannot be ended";
            return Some(gap(process, GapCode::TimedOut).with_detail(detail));
        }
        let known = self.left_alone.get_mut(&process)?;
        if known.captures == 0 || known.state != state_of(process) {
            self.left_alone.remove(&process);
            return None;
        }
        let detail = format!(
            "an earlier read of it hung; it is tried again when its state changes, or after {} more captures",
            known.captures
        );
        known.captures -= 1;
        Some(gap(process, GapCode::TimedOut).with_detail(detail))
    }

    fn leave_alone(&mut self, hung: Hung) {
        let Hung { process, helper } = hung;
        warn!(%process, "A stack helper was lost in this process; it is left alone for a while.");
        let known = LeftAlone {
            state: state_of(process),
            captures: CAPTURES_LEFT_ALONE,
        };
        self.left_alone.insert(process, known);
        self.abandoned
            .extend(helper.map(|helper| (process, helper)));
    }

    /// Gives each process to its helper, new ones to the helper that has the fewest.
    fn share_out(&mut self, processes: &[ProcessId]) -> Vec<Vec<ProcessId>> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let most = self.settings.max_parallel.max(1).min(processors);
        let needed = processes.len().div_ceil(PROCESSES_OF_A_HELPER);
        let places = most.min(needed).max(self.links.len());
        self.links.resize_with(places, || None);
        let mut loads = vec![0; places];
        for &place in self.homes.values() {
            loads[place] += 1;
        }
        let mut shares = vec![Vec::new(); places];
        for &process in processes {
            let place = *self.homes.entry(process).or_insert_with(|| {
                let place = (0..places)
                    .min_by_key(|&place| loads[place])
                    .expect("there is a place where there is a process");
                loads[place] += 1;
                place
            });
            shares[place].push(process);
        }
        shares
    }

    /// Lets every helper that has something to read work on a thread of its own.
    fn run(
        &mut self,
        shares: &[Vec<ProcessId>],
        numbers: &Numbers,
        deadline: Instant,
    ) -> Vec<Shift> {
        let (helper, settings, register) = (&self.helper, &self.settings, &self.register);
        let mut homes = vec![Vec::new(); self.links.len()];
        for (&process, &place) in &self.homes {
            homes[place].push(process);
        }
        std::thread::scope(|scope| {
            let running: Vec<_> = self
                .links
                .iter_mut()
                .zip(shares.iter().zip(&homes))
                .filter(|(_, (share, _))| !share.is_empty())
                .map(|(link, (share, home))| {
                    let start = move |until| Link::start(helper, register, wire::PROTOCOL, until);
                    let how = (settings, numbers);
                    let work = move || Shift::work(link, share, home, how, deadline, start);
                    scope.spawn(work)
                })
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("a shift does not panic"))
                .collect()
        })
    }
}

fn state_of(process: ProcessId) -> Option<char> {
    image::stat(process.pid).ok().map(|stat| stat.state)
}
