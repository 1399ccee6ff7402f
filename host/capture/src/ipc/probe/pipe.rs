//! How full a pipe is, asked through a copy of a descriptor of its holder.
//!
//! While the copy is open it counts as a reader (or writer): for some microseconds a writer whose last reader closes
//! gets no error, and a reader whose last writer closes no end of file; both get it when the copy is closed. Nothing is
//! read or written through it, it is closed on exec, and there is at most one for a pipe in a capture.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use model::{PipeEnd, PipeFacts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::{ioctl_fionread, retry_on_intr};
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::PipeRequest;

/// Looks at the pipe behind a descriptor of the process of `pidfd`. Not found, if it is of something else by now.
pub(super) fn read(pidfd: &OwnedFd, request: PipeRequest) -> io::Result<PipeFacts> {
    // The kernel sets close-on-exec itself.
    let copy = pidfd_getfd(pidfd, request.fd, PidfdGetfdFlags::empty())?;
    let known = statx(
        &copy,
        c"",
        AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
        StatxFlags::TYPE | StatxFlags::INO,
    )?;
    let kind = FileType::from_raw_mode(known.stx_mode.into());
    if kind != FileType::Fifo || known.stx_ino != request.inode {
        return Err(rustix::io::Errno::NOENT.into());
    }
    let waiting = ioctl_fionread(&copy)?;
    let capacity = fcntl_getpipe_size(&copy)?;
    let other = retry_on_intr(|| revents(&copy))?;
    Ok(PipeFacts {
        bytes_waiting: waiting,
        capacity_bytes: u64::try_from(capacity).unwrap_or(u64::MAX),
        has_readers: (request.end == PipeEnd::Write).then(|| !other.contains(PollFlags::ERR)),
        has_writers: (request.end == PipeEnd::Read).then(|| !other.contains(PollFlags::HUP)),
    })
}

fn revents(copy: &OwnedFd) -> rustix::io::Result<PollFlags> {
    let mut polled = [PollFd::from_borrowed_fd(copy.as_fd(), PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&at_once))?;
    Ok(polled[0].revents())
}
