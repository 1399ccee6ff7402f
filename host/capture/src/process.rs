//! One process: everything the kernel says of it, with a gap for what it does not say.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::{
    Credentials, Detail, EnvironmentSource, Gap, GapCode, MemoryFacts, NamespaceSet, ProcFacts,
    Process, ProcessId, Timestamp,
};

use crate::call;
use crate::capture::Options;
use crate::command_line::{self, CommandLine};
use crate::error::{gap_code, malformed};
use crate::gaps::GapList;
use crate::image::{Environ, Image};
use crate::machine::Machine;
use crate::proc::kind::Kind;
use crate::proc::reader::open_process;
use crate::proc::threads::Threads;
use crate::proc::{Reader, Stat, descriptors, key_value, namespaces, stat, status, text};
use crate::process_facts::{self, NamespaceTable};
use crate::pulse::Pulses;
use crate::python::Python;
use crate::recall::Memory;
use crate::redact::Redactor;

/// Looks at processes one after the other.
pub(crate) struct Look<'a> {
    pub(crate) detail: Detail,
    pub(crate) gaps: Vec<Gap>,
    /// Gaps that were known before, by process.
    pub(crate) later: BTreeMap<ProcessId, Gap>,
    pub(crate) machine: &'a Machine,
    pub(crate) namespaces: NamespaceTable,
    /// The stamp of this capture.
    pub(crate) now: Timestamp,
    pub(crate) options: &'a Options,
    /// Of each process, before anything else of its threads is read.
    pub(crate) pulses: BTreeMap<ProcessId, io::Result<Pulses>>,
    pub(crate) reader: &'a mut Reader,
    pub(crate) recalled: &'a mut Memory,
    pub(crate) redactor: Redactor<'a>,
}

/// What the files of a process gave.
struct Files {
    cgroup: Vec<String>,
    facts: ProcFacts,
    memory: Option<MemoryFacts>,
    namespaces: Option<u32>,
    stat: Stat,
}

/// What of the image is told in words.
struct Words {
    python_candidate: bool,
    command_line: CommandLine,
    environment: BTreeMap<String, String>,
    environment_source: Option<EnvironmentSource>,
}

/// How a look ended.
enum End {
    /// It is the same process still.
    Same(Kind),
    /// It is no longer there.
    Gone,
    /// Another process has its PID.
    Reused,
    /// It could not be told.
    Unknown(io::Error),
}

impl Look<'_> {
    /// Reads the processes of `images`, of which `found` was known before. Returns them, their namespaces and all gaps.
    pub(crate) fn processes(
        mut self,
        images: Vec<Image>,
        found: &BTreeMap<ProcessId, Stat>,
    ) -> (Vec<Process>, Vec<NamespaceSet>, Vec<Gap>) {
        let images = images.into_iter();
        let processes = images.filter_map(|image| self.process(found.get(&image.id)?, image));
        let processes = processes.collect();
        (processes, self.namespaces.finish(), self.gaps)
    }

    /// Reads the process of `image`, of which `found` was known before. Nothing if its PID names another one by now:
    /// then what was read is thrown away.
    fn process(&mut self, found: &Stat, mut image: Image) -> Option<Process> {
        let id = image.id;
        let words = self.words(&mut image, found.ppid);
        let mut gaps = std::mem::replace(&mut image.gaps, GapList::of(id));
        let (files, end) = self.files(id, found, &mut gaps);
        match end {
            End::Reused => {
                let mut reused = GapList::of(id);
                reused.add(Gap::new("process", GapCode::Reused));
                self.gaps.extend(reused.finish());
                return None;
            }
            End::Gone => {
                let detail = "it ended while it was looked at";
                gaps.collapse(&[GapCode::Vanished], &[], GapCode::Vanished, detail);
            }
            End::Same(Kind::Zombie) => {
                let detail = "a zombie: it ended, and its parent has not waited for it";
                collapse_absent(&mut gaps, &image, &files, GapCode::Vanished, detail);
            }
            End::Same(Kind::KernelThread) => {
                let detail = "a kernel thread has none";
                collapse_absent(&mut gaps, &image, &files, GapCode::Unsupported, detail);
            }
            End::Same(Kind::Ordinary | Kind::WithoutMainThread(_)) => {
                gaps.settle_missing_files(files.facts.threads.len());
            }
            End::Unknown(error) => gaps.note("stat", &error),
        }
        if files.memory.is_some()
            && let Some(gap) = self.later.remove(&id)
        {
            gaps.add(gap);
        }
        self.gaps.extend(gaps.finish());
        Some(self.assemble(&image, words, files))
    }

    fn words(&self, image: &mut Image, parent: i32) -> Words {
        let process_pattern = self.options.process_pattern.as_ref();
        let (environment, environment_source) = self.machine.sights.settle(image, parent);
        Words {
            // The arguments, which are taken next, are part of the evidence.
            python_candidate: image.python() != Python::No,
            command_line: command_line::take(image, &self.redactor, process_pattern),
            environment,
            environment_source,
        }
    }

    fn files(&mut self, id: ProcessId, found: &Stat, gaps: &mut GapList) -> (Files, End) {
        let mut files = Files {
            cgroup: Vec::new(),
            facts: ProcFacts::default(),
            memory: None,
            namespaces: None,
            stat: found.clone(),
        };
        let directory = match open_process(&self.machine.proc, id.pid) {
            Ok(directory) => directory,
            Err(error) => return (files, end_of(error)),
        };
        let directory = directory.as_fd();
        // Where things are read follows from what discovery saw. Should it be another kind by now, or another process, the
        // look at the end says so.
        let kind = Kind::of(self.reader, directory, found);
        self.fill(&mut files, directory, kind, gaps);
        let has_namespaces = matches!(kind, Kind::Ordinary | Kind::WithoutMainThread(_));
        let set = has_namespaces.then(|| self.namespaces(directory, id, kind));
        let set = set.and_then(|set| gaps.keep("ns", set));
        self.threads(&mut files.facts, directory, id, gaps);
        // What was read belongs to this process only if it is this one that the directory was opened of: it names no other later.
        let end = match self.stat(directory, id) {
            Ok(after) => {
                let kind = Kind::of(self.reader, directory, &after);
                files.stat = after;
                End::Same(kind)
            }
            Err(end) => end,
        };
        if !matches!(end, End::Reused) {
            files.namespaces = set.map(|set| self.namespaces.index(set));
        }
        (files, end)
    }

    fn stat(&mut self, directory: BorrowedFd<'_>, id: ProcessId) -> Result<Stat, End> {
        let stat = self.reader.read_record(directory, "stat");
        let stat = stat.and_then(|content| stat::parse(content).ok_or_else(malformed));
        match stat {
            Ok(stat) if stat.start_time_ticks == id.start_time_ticks => Ok(stat),
            Ok(_) => Err(End::Reused),
            Err(error) => Err(end_of(error)),
        }
    }

    fn fill(
        &mut self,
        files: &mut Files,
        directory: BorrowedFd<'_>,
        kind: Kind,
        gaps: &mut GapList,
    ) {
        let facts = &mut files.facts;
        let reader = &mut *self.reader;
        let read = reader.read_record(directory, "status").map(status::parse);
        if let Some(status) = gaps.keep("status", read) {
            facts.allowed_cpus = status.allowed_cpus;
            facts.core_dumping = status.core_dumping;
            facts.credentials = status.credentials.map(|credentials| Credentials {
                dumpable: process_facts::dumpable(directory, credentials.effective_uid),
                ..credentials
            });
            facts.status = status.lines;
            files.memory = status.memory;
        }
        if let Kind::WithoutMainThread(_) = kind {
            let read = reader.read_record(directory, &kind.path("status"));
            files.memory = read
                .map(status::parse)
                .ok()
                .and_then(|status| status.memory);
        }
        let read = reader.read_record(directory, "io").map(key_value::parse);
        facts.io = gaps.keep("io", read).unwrap_or_default();
        let read = reader.read_record(directory, "limits").map(text::lines);
        facts.limits = gaps.keep("limits", read).unwrap_or_default();
        let read = reader.read_record(directory, "cgroup").map(text::lines);
        files.cgroup = gaps.keep("cgroup", read).unwrap_or_default();
        files.cgroup.sort();
        facts.file_descriptors = descriptors::read(reader, directory, kind, self.detail, gaps);
    }

    /// A thread enters other namespaces only by itself: while the main thread does not run, they are the same.
    fn namespaces(
        &mut self,
        directory: BorrowedFd<'_>,
        id: ProcessId,
        kind: Kind,
    ) -> io::Result<NamespaceSet> {
        let pulses = self.pulses.get(&id).and_then(|it| it.as_ref().ok());
        let mark = pulses.and_then(|pulses| pulses.rest_of(id.pid));
        let mark = mark.filter(|_| matches!(kind, Kind::Ordinary));
        let known = self.recalled.entry(id).or_default();
        if let Some((before, set)) = &known.namespaces
            && mark == Some(*before)
        {
            return Ok(set.clone());
        }
        let set = namespaces::read(directory, &kind.path("ns"))?;
        known.namespaces = mark.map(|mark| (mark, set.clone()));
        Ok(set)
    }

    fn threads(
        &mut self,
        facts: &mut ProcFacts,
        directory: BorrowedFd<'_>,
        id: ProcessId,
        gaps: &mut GapList,
    ) {
        let threads = Threads {
            detail: self.detail,
            gaps,
            known: &mut self.recalled.entry(id).or_default().threads,
            now: self.now,
            pid: id.pid,
            reader: self.reader,
        };
        let pulses = self.pulses.remove(&id);
        let pulses = pulses.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
        facts.threads = threads.read(directory, pulses);
        call::name_targets(&mut facts.threads, &facts.file_descriptors);
    }

    fn assemble(&self, image: &Image, words: Words, files: Files) -> Process {
        let id = image.id;
        let exe = image
            .exe
            .as_ref()
            .map(|exe| exe.to_string_lossy().into_owned());
        let CommandLine {
            arguments: cmdline,
            cut: cmdline_cut,
            matches_pattern,
            mut redactions,
        } = words.command_line;
        let mut distributed_environment = words.environment;
        redactions.extend(self.redactor.variables(&mut distributed_environment));
        let Files {
            cgroup,
            mut facts,
            memory,
            namespaces,
            stat,
        } = files;
        process_facts::of_stat(&mut facts, &stat);
        process_facts::of_main_thread(&mut facts, id.pid);
        let memory = memory.map(|memory| MemoryFacts {
            pss_bytes: image.rollup.map(|rollup| rollup.pss_bytes),
            uss_bytes: image.rollup.map(|rollup| rollup.uss_bytes),
            ..memory
        });
        Process {
            cgroup,
            command: cmdline.join(" "),
            cmdline,
            cmdline_cut,
            distributed_environment,
            environment_source: words.environment_source,
            exe,
            exec_generation: self.machine.execs.count(image),
            identity: id,
            matches_pattern,
            memory,
            namespaces,
            pid: id.pid,
            ppid: stat.ppid,
            proc: facts,
            pyspy: None,
            python_candidate: words.python_candidate,
            redactions,
            start_time_ticks: id.start_time_ticks,
            state: stat.state,
            steps: Vec::new(),
        }
    }
}

fn end_of(error: io::Error) -> End {
    match gap_code(&error) {
        GapCode::Vanished => End::Gone,
        _ => End::Unknown(error),
    }
}

/// One gap for all that such a process cannot have.
fn collapse_absent(gaps: &mut GapList, image: &Image, files: &Files, code: GapCode, detail: &str) {
    let absent = [
        ("cmdline", image.cmdline_bytes == 0),
        ("environ", matches!(image.environ, Environ::Missing)),
        ("exe", image.exe.is_none()),
        ("fd", files.facts.file_descriptors.is_empty()),
    ];
    let absent = absent.into_iter().filter(|(_, is_absent)| *is_absent);
    let names: Vec<&str> = absent.map(|(name, _)| name).collect();
    let expected = [GapCode::Vanished, GapCode::Denied, GapCode::Unsupported];
    gaps.collapse(&expected, &names, code, detail);
}
