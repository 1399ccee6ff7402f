//! One process: everything the kernel says of it, with a gap for what it does not say.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::{
    Credentials, EnvironmentSource, Gap, GapCode, MemoryFacts, ProcFacts, Process, ProcessId,
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
use crate::proc::{Reader, Stat, descriptors, key_value, namespaces, stat, status, text, threads};
use crate::process_facts::{self, NamespaceTable};
use crate::python::Python;
use crate::redact::Redactor;

/// Looks at processes one after the other.
pub(crate) struct Look<'a> {
    pub(crate) gaps: Vec<Gap>,
    /// Gaps that were known before, by process.
    pub(crate) later: BTreeMap<ProcessId, Gap>,
    pub(crate) machine: &'a Machine,
    pub(crate) namespaces: NamespaceTable,
    pub(crate) options: &'a Options,
    pub(crate) reader: &'a mut Reader,
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
    /// Reads the process of `image`, of which `found` was known before. Nothing if its PID names another one by now:
    /// then what was read is thrown away.
    pub(crate) fn process(&mut self, found: &Stat, mut image: Image) -> Option<Process> {
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
        let Options {
            environment: added,
            process_pattern,
            ..
        } = self.options;
        let (environment, environment_source) = self.machine.sights.settle(image, parent, added);
        Words {
            // The arguments, which are taken next, are part of the evidence.
            python_candidate: image.python() != Python::No,
            command_line: command_line::take(image, &self.redactor, process_pattern.as_ref()),
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
        let before = match self.stat(directory, id) {
            Ok(stat) => stat,
            Err(end) => return (files, end),
        };
        let kind = Kind::of(self.reader, directory, &before);
        self.fill(&mut files, directory, kind, gaps);
        files.stat = before;
        // What was read belongs to this process only if it is still the same one.
        let end = match self.stat(directory, id) {
            Ok(after) => End::Same(Kind::of(self.reader, directory, &after)),
            Err(end) => end,
        };
        (files, end)
    }

    fn stat(&mut self, directory: BorrowedFd<'_>, id: ProcessId) -> Result<Stat, End> {
        let stat = self.reader.read(directory, "stat");
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
        let read = reader.read(directory, "status").map(status::parse);
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
        if let Kind::Ordinary | Kind::WithoutMainThread(_) = kind {
            let path = kind.path("ns");
            let set = gaps.keep("ns", namespaces::read(directory, &path));
            files.namespaces = set.map(|set| self.namespaces.index(set));
        }
        if let Kind::WithoutMainThread(_) = kind {
            let read = reader.read(directory, &kind.path("status"));
            files.memory = read
                .map(status::parse)
                .ok()
                .and_then(|status| status.memory);
        }
        let read = reader.read(directory, "io").map(key_value::parse);
        facts.io = gaps.keep("io", read).unwrap_or_default();
        let read = reader.read(directory, "limits").map(text::lines);
        facts.limits = gaps.keep("limits", read).unwrap_or_default();
        let read = reader.read(directory, "cgroup").map(text::lines);
        files.cgroup = gaps.keep("cgroup", read).unwrap_or_default();
        files.cgroup.sort();
        facts.file_descriptors = descriptors::read(reader, directory, kind, gaps);
        facts.threads = threads::read(reader, directory, gaps);
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
