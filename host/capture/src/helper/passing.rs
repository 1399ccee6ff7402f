//! The memory of a process on its way to a helper: an open `/proc/PID/mem`, which travels over the socket that is the
//! helper's standard input.
//!
//! The kernel asks who may look when that file is opened, not when it is read. The collector may be an ancestor of the
//! process, to whom Yama or another security module allows it; a helper is not. So a helper that is refused asks, by a message
//! of its own protocol, and the collector answers with an empty frame, and with the file if it could open it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::pipe::{self, PipeError};

/// A frame without a message.
const EMPTY_FRAME: [u8; 4] = [0; 4];

/// Opens the memory of the process `pid` below the root `proc`; nothing of it is read, and no lock of it taken.
pub(crate) fn open_memory_of(proc: &Path, pid: i32) -> io::Result<File> {
    let path = proc.join(pid.to_string()).join("mem");
    let path = path.to_str().ok_or_else(crate::error::malformed)?;
    open_memory(CWD, path)
}

/// Opens the memory at `path` below `directory`.
pub(crate) fn open_memory(directory: BorrowedFd<'_>, path: &str) -> io::Result<File> {
    // It is never a link. That no other file is opened with this flag lets a test refuse this one alone.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(directory, path, flags, Mode::empty())?.into())
}

/// Whether opening a memory failed for want of a right, which somebody else may have.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::ACCESS | Errno::PERM))
}

/// Answers a helper that asked for a memory, on the non-blocking `socket` that is its input.
pub(crate) fn hand(
    socket: BorrowedFd<'_>,
    memory: Option<&File>,
    until: Instant,
) -> Result<(), PipeError> {
    let sent = match memory {
        Some(memory) => send_with(socket, &EMPTY_FRAME, memory.as_fd(), until)?,
        None => 0,
    };
    pipe::write_all(socket, &EMPTY_FRAME[sent..], until)
}

/// Sends the beginning of `bytes`, at least one, with `descriptor` at the first. Returns how many were sent.
fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
    until: Instant,
) -> Result<usize, PipeError> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        match sendmsg(
            socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        ) {
            Ok(sent) => return Ok(sent),
            Err(Errno::AGAIN) => pipe::wait_for(socket, PollFlags::OUT, until)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The input of a helper, which may bring a descriptor with a frame. A pipe, which brings none, will do.
#[derive(Debug)]
pub(crate) struct Inbox<I> {
    input: I,
    descriptor: Option<OwnedFd>,
}

impl<I: AsFd> Inbox<I> {
    /// Reads from `input`, past any buffer that it may have.
    pub(crate) fn of(input: I) -> Self {
        Self {
            input,
            descriptor: None,
        }
    }

    /// Takes the descriptor that came with what was read, if one did.
    pub(crate) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

impl<I: AsFd> Read for Inbox<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        let received = recvmsg(
            &self.input,
            &mut parts,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let received = match received {
            Err(Errno::NOTSOCK) => return Ok(rustix::io::read(&self.input, buffer)?),
            other => other?,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptor = descriptors.last().or(self.descriptor.take());
            }
        }
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::helper::frame;

    fn pair() -> (UnixStream, Inbox<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        pipe::set_nonblocking(&ours).unwrap();
        (ours, Inbox::of(theirs))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[test]
    fn a_memory_comes_with_its_own_frame_and_closed_on_exec() {
        let (ours, mut inbox) = pair();
        let kept = [1_u8, 2, 3];
        let pid = rustix::process::getpid().as_raw_pid();
        let memory = open_memory_of(Path::new("/proc"), pid).unwrap();
        pipe::write_all(&ours, b"\x01\0\0\0a", soon()).unwrap();
        hand(ours.as_fd(), Some(&memory), soon()).unwrap();
        hand(ours.as_fd(), None, soon()).unwrap();
        assert_eq!(frame::read_payload(&mut inbox).unwrap(), b"a");
        assert!(inbox.descriptor().is_none());
        assert_eq!(frame::read_payload(&mut inbox).unwrap(), b"");
        let memory = inbox.descriptor().unwrap();
        let flags = rustix::io::fcntl_getfd(&memory).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let mut bytes = [0; 3];
        File::from(memory)
            .read_exact_at(&mut bytes, kept.as_ptr() as u64)
            .unwrap();
        assert_eq!(bytes, kept);
        assert_eq!(frame::read_payload(&mut inbox).unwrap(), b"");
        assert!(inbox.descriptor().is_none());
        drop(ours);
        let error = frame::read_payload(&mut inbox).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_helper_that_does_not_listen_is_given_up_at_the_deadline() {
        let (ours, _inbox) = pair();
        let memory = File::open("/dev/null").unwrap();
        let mut handed = Ok(());
        while handed.is_ok() {
            handed = hand(ours.as_fd(), Some(&memory), soon());
        }
        assert!(matches!(handed, Err(PipeError::TimedOut)), "{handed:?}");
    }
}
