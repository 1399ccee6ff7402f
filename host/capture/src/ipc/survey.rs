//! What is asked of each process beyond its files in `/proc`, and what came back, with a gap for what did not.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use model::{Endpoint, Gap, GapCode, PipeEnd, PipeFacts, Process, ProcessId};
use rustix::io::Errno;

use super::arguments::{self, Argument};
use super::descriptor::{self, inode_of};
use super::futex::{self, Wait, Words};
use super::futexes::Waits;
use super::mappings::Mapping;
use super::mounts::Mounts;
use super::probe::process::FileFacts;
use super::probe::{Answer, Outcome, PipeRequest, Request, lock};
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::memory::{Failure, Job, Piece, Task};
use crate::proc::Reader;

/// Who waits for one of these waits for the memory of the process.
const BLOCKING: [&str; 4] = ["cmdline", "environ", "maps", "smaps_rollup"];

/// What is not read of a process whose memory blocks a reader.
const BLOCKED: &str = "ipc/futex,ipc/maps,ipc/path,ipc/poll";

/// The futexes that a thread waits for at once, with their words as far as these could be read.
type Vector = Vec<(Wait, Option<Words>)>;

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// By process and thread, what its call is about.
    pub(super) arguments: BTreeMap<(ProcessId, i32), Argument>,
    /// FIFOs by inode.
    pub(super) fifos: BTreeMap<u64, PipeFacts>,
    pub(super) mappings: BTreeMap<ProcessId, Vec<Mapping>>,
    /// Pipes by inode.
    pub(super) pipes: BTreeMap<u64, PipeFacts>,
    /// By process and thread, of those that wait for several futexes at once.
    pub(super) vectors: BTreeMap<(ProcessId, i32), Vector>,
    /// By process and address.
    pub(super) words: BTreeMap<(ProcessId, u64), Words>,
    files: BTreeMap<(ProcessId, i32), FileFacts>,
}

impl Survey {
    /// What the descriptor `fd` of a process is of, if that was asked.
    pub(super) fn file(&self, id: ProcessId, fd: &str) -> Option<FileFacts> {
        self.files.get(&(id, fd.parse().ok()?)).copied()
    }
}

/// Asks `processes`. Those in `blocked` already block a reader of their memory.
pub(super) fn survey(
    machine: &Machine,
    processes: &[Process],
    endpoints: &[Endpoint],
    waits: &Waits,
    reader: &mut Reader,
    gaps: &mut Vec<Gap>,
) -> Survey {
    let blocks = gaps.iter().filter(|gap| {
        let mut files = gap.what.split(',');
        gap.code == GapCode::BlockedRead && files.any(|file| BLOCKING.contains(&file))
    });
    let blocked: BTreeSet<ProcessId> = blocks.filter_map(|gap| gap.process).collect();
    let mut survey = Survey::default();
    let mut first = pipes(endpoints, None);
    let mut mounts = Mounts::default();
    let mut requests = Vec::new();
    let mut lists = Vec::new();
    for process in processes {
        let id = process.identity;
        let request = Request {
            files: files(machine, process, &mut mounts, reader),
            pipes: first.remove(&id).unwrap_or_default(),
            ..Request::of(id)
        };
        if !request.is_empty() {
            requests.push((lists.len(), request));
        }
        lists.push((process, GapList::of(id)));
    }
    survey.memory(machine, waits, &blocked, &mut lists);
    let (places, requests): (Vec<usize>, Vec<Request>) = requests.into_iter().unzip();
    let outcomes = machine.ipc.prober.read(&machine.proc, requests);
    let mut refused = BTreeMap::new();
    for (place, outcome) in places.into_iter().zip(outcomes) {
        let (process, list) = &mut lists[place];
        survey.take(process, outcome, list, &mut refused);
    }
    survey.ask_others(machine, endpoints, &refused);
    survey.note_refused(&refused, &mut lists);
    remember(machine, processes, &survey);
    for (_, list) in lists {
        add(gaps, list);
    }
    survey
}

/// By inode: what a holder said who did not let us look.
type Refused = BTreeMap<u64, (ProcessId, io::Error)>;

impl Survey {
    /// Reads words, arguments of calls and maps of the processes in `lists`, all that waits for their memory.
    fn memory(
        &mut self,
        machine: &Machine,
        waits: &Waits,
        blocked: &BTreeSet<ProcessId>,
        lists: &mut [(&Process, GapList)],
    ) {
        let mut jobs = Vec::new();
        let mut places = Vec::new();
        let relatives = relatives_of_users(lists.iter().map(|(process, _)| *process));
        for (place, (process, list)) in lists.iter_mut().enumerate() {
            let id = process.identity;
            let may_map = relatives.contains(&process.pid) || relatives.contains(&process.ppid);
            let maps = wants_maps(machine, process, may_map, self);
            let words = waits.range((id, 0)..=(id, u64::MAX));
            let words: Vec<u64> = words.map(|((_, address), _)| *address).collect();
            let arguments = arguments::wanted(process);
            if !maps && words.is_empty() && arguments.is_empty() {
                continue;
            }
            if blocked.contains(&id) {
                let gap = Gap::new(BLOCKED, GapCode::BlockedRead);
                list.add(gap.with_detail("its memory already blocks another read"));
                continue;
            }
            let task = Task::Connections {
                arguments,
                maps,
                words,
            };
            jobs.push(Job { id, task });
            places.push(place);
        }
        if jobs.is_empty() {
            return;
        }
        let mut parts = vec!["ipc"; jobs.len()];
        let mut take = |job: usize, piece| {
            let (process, gaps) = &mut lists[places[job]];
            match piece {
                Piece::BeginsArgument(kind) => parts[job] = kind.part(),
                Piece::BeginsWords => parts[job] = "ipc/futex",
                Piece::BeginsMaps => parts[job] = "ipc/maps",
                piece => self.take_piece(process.identity, piece, gaps),
            }
        };
        let failures = machine.memory.read(&machine.proc, &[], &jobs, &mut take);
        for (job, Failure { code, detail }) in failures {
            let (_, gaps) = &mut lists[places[job]];
            gaps.add(Gap::new(parts[job], code).with_detail(detail));
        }
    }

    fn take_piece(&mut self, id: ProcessId, piece: Piece, gaps: &mut GapList) {
        match piece {
            Piece::Argument(tid, kind, argument) => {
                match keep(gaps, kind.part(), argument.map_err(Into::into)) {
                    Some(Argument::Waited(list, words)) => {
                        let futexes = futex::waited(&list).into_iter().zip(words);
                        self.vectors.insert((id, tid), futexes.collect());
                    }
                    Some(argument) => drop(self.arguments.insert((id, tid), argument)),
                    None => {}
                }
            }
            Piece::Word(address, words) => {
                if let Some(words) = keep(gaps, "ipc/futex", words.map_err(Into::into)) {
                    self.words.insert((id, address), words);
                }
            }
            Piece::Maps(None) => {
                let detail = "the time for reading maps in one capture had run out";
                let gap = Gap::new("ipc/maps", GapCode::Skipped);
                gaps.add(gap.with_detail(detail));
            }
            Piece::Maps(Some(mappings)) => {
                if let Some(mappings) = keep(gaps, "ipc/maps", mappings.map_err(Into::into)) {
                    self.mappings.insert(id, mappings);
                }
            }
            _ => {}
        }
    }

    fn take(
        &mut self,
        process: &Process,
        outcome: Outcome,
        gaps: &mut GapList,
        refused: &mut Refused,
    ) {
        let id = process.identity;
        for answer in outcome.answers {
            match answer {
                Answer::Pipe(inode, Ok(facts)) => drop(self.pipes.insert(inode, facts)),
                Answer::Pipe(inode, Err(error)) => {
                    refused.entry(inode).or_insert((id, error));
                }
                // Asked for later, when it is known which sockets no list has.
                Answer::Protocol(..) => {}
                Answer::File(fd, file) => {
                    let Some((facts, fullness)) = keep(gaps, "ipc/file", file) else {
                        continue;
                    };
                    self.files.insert((id, fd), facts);
                    let fullness = fullness.and_then(|fullness| keep(gaps, "ipc/pipe", fullness));
                    if let Some(fullness) = fullness {
                        self.fifos.insert(facts.inode, fullness);
                    }
                }
            }
        }
        let gap = |what: &str, code, detail| gaps.add(Gap::new(what, code).with_detail(detail));
        match (outcome.blocked, outcome.skipped) {
            (Some(part), _) => {
                let mut gap = gap;
                gap(
                    &format!("ipc/{part}"),
                    GapCode::BlockedRead,
                    "the read did not return; it was abandoned, with what was to follow of this process",
                );
            }
            (None, Some(why)) => {
                let mut gap = gap;
                gap("ipc", GapCode::BlockedRead, why);
            }
            (None, None) => {}
        }
    }

    /// Asks other holders about pipes that were refused.
    fn ask_others(&mut self, machine: &Machine, endpoints: &[Endpoint], refused: &Refused) {
        let requests = pipes(endpoints, Some(refused));
        let requests = requests.into_iter().map(|(id, pipes)| Request {
            pipes,
            ..Request::of(id)
        });
        let outcomes = machine.ipc.prober.read(&machine.proc, requests.collect());
        for answer in outcomes.into_iter().flat_map(|outcome| outcome.answers) {
            if let Answer::Pipe(inode, Ok(facts)) = answer {
                self.pipes.insert(inode, facts);
            }
        }
    }

    /// A pipe is missing only if no holder let us look.
    fn note_refused(&self, refused: &Refused, lists: &mut [(&Process, GapList)]) {
        for (inode, (id, error)) in refused {
            if self.pipes.contains_key(inode) || is_gone(error) {
                continue;
            }
            let mut lists = lists.iter_mut();
            if let Some((_, gaps)) = lists.find(|(process, _)| process.identity == *id) {
                gaps.note("ipc/pipe", error);
            }
        }
    }
}

impl Request {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.pipes.is_empty()
    }
}

/// Which descriptors to look at pipes through: a read end before another. Of those that were refused, one of another
/// process.
fn pipes(
    endpoints: &[Endpoint],
    refused: Option<&Refused>,
) -> BTreeMap<ProcessId, Vec<PipeRequest>> {
    let mut requests = BTreeMap::<ProcessId, Vec<PipeRequest>>::new();
    for endpoint in endpoints {
        let Some(inode) = inode_of(&endpoint.target, "pipe") else {
            continue;
        };
        let refusal = refused.map(|refused| refused.get(&inode));
        if matches!(refusal, Some(None)) {
            continue;
        }
        let refusing = refusal.flatten().map(|(id, _)| *id);
        let holders = endpoint.owners.iter();
        let holders = holders.filter(|owner| Some(owner.identity) != refusing);
        let best = holders.min_by_key(|owner| owner.end != Some(PipeEnd::Read));
        if let Some(owner) = best
            && let Ok(fd) = owner.fd.parse()
        {
            let end = owner.end.unwrap_or(PipeEnd::Both);
            let request = PipeRequest { end, fd, inode };
            requests.entry(owner.identity).or_default().push(request);
        }
    }
    requests
}

/// Which descriptors may be of a FIFO, or are of a file in memory.
fn files(
    machine: &Machine,
    process: &Process,
    mounts: &mut Mounts,
    reader: &mut Reader,
) -> Vec<(i32, PipeEnd)> {
    let mut files = Vec::new();
    for descriptor in &process.proc.file_descriptors {
        let is_wanted = descriptor::is_shared_file(&descriptor.target)
            || (descriptor::may_be_fifo(descriptor)
                && descriptor::number(descriptor, "mnt_id").is_some_and(|mount| {
                    mounts.is_local(&machine.proc, process.pid, mount, reader)
                }));
        if is_wanted && let Ok(fd) = descriptor.fd.parse() {
            files.push((fd, descriptor::end(descriptor).unwrap_or(PipeEnd::Both)));
        }
    }
    files
}

/// The processes that use shared memory, and their parents. Who is one of them, or a child of one, may have inherited a mapping at
/// a fork: it counts as resident only once it is touched.
fn relatives_of_users<'a>(processes: impl Iterator<Item = &'a Process>) -> BTreeSet<i32> {
    let users = processes.filter(|process| shared_bytes(process).is_some_and(|bytes| bytes > 0));
    users
        .flat_map(|process| [process.pid, process.ppid])
        .collect()
}

/// `maps` is read again only when the process has touched more or less of shared memory than it had, or is another program. Of one
/// that has touched none it is read where it may have inherited a mapping.
fn wants_maps(machine: &Machine, process: &Process, may_map: bool, survey: &mut Survey) -> bool {
    let Some(key) = maps_key(process).filter(|(bytes, _)| *bytes > 0 || may_map) else {
        return false;
    };
    match lock(&machine.ipc.mappings).get(&process.identity) {
        Some((known, mappings)) if *known == key => {
            survey.mappings.insert(process.identity, mappings.clone());
            false
        }
        _ => true,
    }
}

fn shared_bytes(process: &Process) -> Option<u64> {
    process.memory.as_ref()?.rss_shmem_bytes
}

/// `RssShmem` of a process, and how many programs it has been.
pub(super) type MapsKey = (u64, Option<u32>);

fn maps_key(process: &Process) -> Option<MapsKey> {
    Some((shared_bytes(process)?, process.exec_generation))
}

fn remember(machine: &Machine, processes: &[Process], survey: &Survey) {
    let known = processes.iter().filter_map(|process| {
        let mappings = survey.mappings.get(&process.identity)?;
        Some((process.identity, (maps_key(process)?, mappings.clone())))
    });
    *lock(&machine.ipc.mappings) = known.collect();
}

/// What was closed, unmapped or ended since it was listed is not missing.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::BADF, Errno::FAULT, Errno::NOENT, Errno::SRCH];
    gone.iter()
        .any(|gone| error.raw_os_error() == Some(gone.raw_os_error()))
}

fn keep<T>(gaps: &mut GapList, what: &str, result: io::Result<T>) -> Option<T> {
    match result {
        Err(error) if is_gone(&error) => None,
        other => gaps.keep(what, other),
    }
}

/// Adds the gaps of one process; a remedy that is said of it already is not said again.
fn add(gaps: &mut Vec<Gap>, list: GapList) {
    for mut gap in list.finish() {
        let is_said = |known: &Gap| known.process == gap.process && known.remedy == gap.remedy;
        if gaps.iter().any(is_said) {
            gap.remedy = None;
        }
        gaps.push(gap);
    }
}
