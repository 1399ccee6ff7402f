//! What is asked of the descriptors of one process: pipes first, which explain waits.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use model::{PipeEnd, PipeFacts, ProcessId};
use rustix::fs::{AtFlags, FileType, StatxFlags, getxattr, statx};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Answer, PipeRequest, Request, pipe};
use crate::proc::reader::{open_process, read_link};
use crate::proc::{Reader, stat};

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipc) struct FileFacts {
    pub(in crate::ipc) inode: u64,
    pub(in crate::ipc) is_fifo: bool,
    pub(in crate::ipc) size_bytes: u64,
}

/// Asks processes one after the other.
pub(super) struct Probed {
    fifos: BTreeSet<u64>,
    proc: PathBuf,
    reader: Reader,
}

/// A process that is looked at, with a descriptor of it where one could be had.
struct Target<'a> {
    directory: BorrowedFd<'a>,
    id: ProcessId,
    pidfd: io::Result<OwnedFd>,
}

impl Probed {
    pub(super) fn new(proc: PathBuf) -> Self {
        Self {
            fifos: BTreeSet::new(),
            proc,
            reader: Reader::new(),
        }
    }

    /// Says by `begin` what it does and by `answer` what it found. A process that is gone or has become another one has
    /// no answers; who asked finds that out.
    pub(super) fn process(
        &mut self,
        request: &Request,
        begin: impl Fn(&'static str),
        answer: impl Fn(Answer),
    ) {
        begin("process");
        let Ok(directory) = open_process(&self.proc, request.id.pid) else {
            return;
        };
        let target = Target {
            directory: directory.as_fd(),
            id: request.id,
            pidfd: open(request.id.pid),
        };
        // If the process is still there, the descriptor that was opened by its PID is its.
        if !self.is_same(&target) {
            return;
        }
        for &wanted in &request.pipes {
            begin("pipe");
            let facts = pipe_of(&target, wanted);
            answer(Answer::Pipe(wanted.inode, facts));
        }
        for &(fd, end) in &request.files {
            begin("file");
            let file = self.file(&target, fd, end);
            answer(Answer::File(fd, file));
        }
        for &(fd, inode) in &request.sockets {
            begin("socket");
            let protocol = self.protocol(&target, fd, inode);
            answer(Answer::Protocol(inode, protocol));
        }
    }

    /// Asks the file system for nothing that it does not know: a network file system is not waited for.
    fn file(
        &mut self,
        target: &Target<'_>,
        fd: i32,
        end: PipeEnd,
    ) -> io::Result<(FileFacts, Option<io::Result<PipeFacts>>)> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let mask = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
        let known = statx(target.directory, format!("fd/{fd}"), flags, mask)?;
        let facts = FileFacts {
            inode: known.stx_ino,
            is_fifo: FileType::from_raw_mode(known.stx_mode.into()) == FileType::Fifo,
            size_bytes: known.stx_size,
        };
        if !facts.is_fifo || self.fifos.contains(&facts.inode) {
            return Ok((facts, None));
        }
        let wanted = PipeRequest {
            end,
            fd,
            inode: facts.inode,
        };
        let fullness = pipe_of(target, wanted);
        if fullness.is_ok() {
            self.fifos.insert(facts.inode);
        }
        Ok((facts, Some(fullness)))
    }

    /// Asks for an attribute: a copy of the descriptor would put the socket into our own network class (`net_cls`).
    fn protocol(&self, target: &Target<'_>, fd: i32, inode: u64) -> io::Result<String> {
        let path = self.proc.join(target.id.pid.to_string());
        let path = path.join("fd").join(fd.to_string());
        let mut name = [0; 64];
        let length = getxattr(&path, "system.sockprotoname", &mut name[..])?;
        // If it is of the same socket now, it was so before: no inode comes back while it is open.
        let link = read_link(target.directory, &format!("fd/{fd}"))?;
        if link.to_str() != Some(format!("socket:[{inode}]").as_str()) {
            return Err(rustix::io::Errno::NOENT.into());
        }
        let name = name.get(..length).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn is_same(&mut self, target: &Target<'_>) -> bool {
        let stat = self.reader.read_record(target.directory, "stat");
        let stat = stat.ok().and_then(stat::parse);
        stat.is_some_and(|stat| stat.start_time_ticks == target.id.start_time_ticks)
    }
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn pipe_of(target: &Target<'_>, wanted: PipeRequest) -> io::Result<PipeFacts> {
    match &target.pidfd {
        Ok(pidfd) => pipe::read(pidfd, wanted),
        Err(error) => Err(error
            .raw_os_error()
            .map_or(error.kind().into(), io::Error::from_raw_os_error)),
    }
}
