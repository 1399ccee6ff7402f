//! Reads what program a process runs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::ProcessId;

use super::service::{Service, Sink};
use super::variables;
use super::wire::{Environment, Job, Piece, Refusal, Task};
use super::{MAPS_LIMIT, executables};
use crate::environment;
use crate::proc::kind::Kind;
use crate::proc::reader::read_link;
use crate::proc::{cmdline, environ, stat};
use crate::python;
use crate::sight::Generation;

/// A `smaps_rollup` has some thirty short lines.
const ROLLUP_LIMIT: usize = 16 << 10;

/// A process whose program is looked at.
struct Target<'a> {
    directory: BorrowedFd<'a>,
    kind: Kind,
    /// Names of variables to keep beyond the built-in ones.
    names: &'a [String],
}

/// Reads the image of the process of `job`, whose directory in `/proc` this is. One that has become another has no answers.
pub(super) fn read(
    service: &mut Service,
    directory: &OwnedFd,
    job: &Job,
    names: &[String],
    sink: &mut Sink<'_>,
) {
    let Task::Image {
        environ: known,
        evidence,
        rank,
        rollup,
    } = &job.task
    else {
        return;
    };
    let directory = directory.as_fd();
    let Some((target, start_stack)) = Target::of(service, directory, job, names) else {
        return;
    };
    let kind = target.kind;
    let exe = read_link(directory, &kind.path("exe"));
    let exe_name = exe.as_ref().ok().cloned();
    sink.say(Piece::Exe {
        exe: exe.map_err(Into::into),
        start_stack,
    });
    sink.flush();
    let arguments = target.content(service, "cmdline", cmdline::LIMIT);
    let is_named = exe_name.as_deref().is_some_and(is_name)
        || arguments.iter().any(|(content, _)| is_first_named(content));
    sink.say(Piece::Cmdline(arguments));
    let generation = exe_name.as_ref();
    let generation = generation.and_then(|exe| Generation::of(exe, start_stack));
    let is_known = generation.is_some() && generation == *known;
    let environment = if is_known && !rank {
        Ok(Environment::Known)
    } else {
        sink.flush();
        target.learn(service, job.id, sink, is_known, is_named)
    };
    sink.say(Piece::Environ(environment));
    if matches!(kind, Kind::Zombie | Kind::KernelThread) {
        return;
    }
    if evidence.is_some() && *evidence == exe_name {
        sink.say(Piece::EvidenceHolds);
    } else {
        sink.flush();
        sink.say(target.evidence(service, is_named));
    }
    if *rollup {
        target.rollup(service, sink);
    }
}

/// Reads the share of memory of the process of `job`.
pub(super) fn read_rollup(
    service: &mut Service,
    directory: &OwnedFd,
    job: &Job,
    sink: &mut Sink<'_>,
) {
    let target = Target::of(service, directory.as_fd(), job, &[]);
    if let Some((target, _)) = target
        && !matches!(target.kind, Kind::Zombie | Kind::KernelThread)
    {
        target.rollup(service, sink);
    }
}

impl<'a> Target<'a> {
    /// Returns the process of `job` with the bottom of its stack; nothing where it has become another.
    fn of(
        service: &mut Service,
        directory: BorrowedFd<'a>,
        job: &Job,
        names: &'a [String],
    ) -> Option<(Self, u64)> {
        let content = service.reader.read_record(directory, "stat").ok()?;
        let stat = stat::parse(content)?;
        if stat.start_time_ticks != job.id.start_time_ticks {
            return None;
        }
        let target = Self {
            directory,
            kind: Kind::of(&mut service.reader, directory, &stat),
            names,
        };
        Some((target, stat.start_stack))
    }

    fn rollup(&self, service: &mut Service, sink: &mut Sink<'_>) {
        sink.flush();
        let rollup = self.content(service, "smaps_rollup", ROLLUP_LIMIT);
        sink.say(Piece::Rollup(rollup));
    }

    fn content(
        &self,
        service: &mut Service,
        file: &str,
        limit: usize,
    ) -> Result<(Vec<u8>, bool), Refusal> {
        let path = self.kind.path(file);
        let (content, more) = service.reader.read_up_to(self.directory, &path, limit)?;
        Ok((content.to_vec(), more))
    }

    /// What there is to learn of its environment: of one that is known only a rank that was set since.
    fn learn(
        &self,
        service: &mut Service,
        id: ProcessId,
        sink: &mut Sink<'_>,
        is_known: bool,
        is_named: bool,
    ) -> Result<Environment, Refusal> {
        let told = if is_known {
            Environment::Known
        } else {
            self.environment(service, id, sink)?
        };
        let may_have_one = match &told {
            Environment::Known => true,
            Environment::File(kept, _) => is_named && !environment::has_rank(kept),
            _ => false,
        };
        let since = if may_have_one {
            self.ranked(service, id, sink)
        } else {
            None
        };
        Ok(since.map_or(told, Environment::Memory))
    }

    /// Nothing but listed variables leaves this function.
    fn environment(
        &self,
        service: &mut Service,
        id: ProcessId,
        sink: &mut Sink<'_>,
    ) -> Result<Environment, Refusal> {
        let (content, more) = self.content(service, "environ", environ::LIMIT)?;
        let is_overwritten = environ::is_overwritten(&content);
        if !is_overwritten && !content.is_empty() {
            let read = u64::try_from(content.len()).expect("a length fits");
            let kept = environment::allowed(&content, self.names);
            return Ok(Environment::File(kept, more.then_some(read)));
        }
        // Of a zombie the kernel says the same as of an empty one, or of one that was moved away.
        let has_memory = !matches!(self.kind, Kind::Zombie | Kind::KernelThread);
        let found = if has_memory {
            variables::read(service, self.directory, (id, self.kind), sink)
        } else {
            Err("it has no memory".to_owned())
        };
        Ok(match found {
            Ok(content) => Environment::Memory(environment::allowed(&content, self.names)),
            Err(why) if is_overwritten => Environment::Overwritten(why),
            Err(_) => Environment::Empty,
        })
    }

    /// The listed variables as the process has them in its memory now, if there is a rank among them: Ray's workers and
    /// whoever starts ranks by `multiprocessing` set it within the program. Most processes have none, so that what cannot be
    /// read is nothing that is missing.
    fn ranked(
        &self,
        service: &mut Service,
        id: ProcessId,
        sink: &mut Sink<'_>,
    ) -> Option<BTreeMap<String, String>> {
        if matches!(self.kind, Kind::Zombie | Kind::KernelThread) {
            return None;
        }
        let content = variables::read(service, self.directory, (id, self.kind), sink).ok()?;
        Some(environment::allowed(&content, self.names)).filter(environment::has_rank)
    }

    /// Looks for a library only where the executable is no interpreter, nor has its name where it cannot be read.
    fn evidence(&self, service: &mut Service, is_named: bool) -> Piece {
        let exe = self.kind.path("exe");
        let symbols = executables::have_python(&mut service.executables, self.directory, &exe);
        let library = if symbols.unwrap_or(is_named) {
            Ok(false)
        } else {
            self.is_mapped(service).map_err(Into::into)
        };
        Piece::Evidence { library, symbols }
    }

    fn is_mapped(&self, service: &mut Service) -> io::Result<bool> {
        let path = self.kind.path("maps");
        let (maps, _) = service
            .reader
            .read_up_to(self.directory, &path, MAPS_LIMIT)?;
        Ok(python::is_mapped(maps))
    }
}

fn is_name(exe: &OsStr) -> bool {
    python::is_name(&exe.to_string_lossy())
}

fn is_first_named(cmdline: &[u8]) -> bool {
    let first = cmdline.split(|&byte| byte == 0).next().unwrap_or_default();
    python::is_name(&String::from_utf8_lossy(first))
}
