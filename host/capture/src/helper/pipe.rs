//! Reading from and writing to pipes with a deadline.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::frame;

/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// Why a pipe gave or took nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PipeError {
    /// The deadline came first.
    #[error("no answer in time")]
    TimedOut,
    /// The other side is closed.
    #[error("the other side has ended")]
    Closed,
    /// The system's word, or a message that is no message.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for PipeError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE => Self::Closed,
            other => Self::Io(other.into()),
        }
    }
}

/// Waits until one of `descriptors` is ready or `until` has come; their `revents` say which.
pub(crate) fn wait_for_any(
    descriptors: &mut [PollFd<'_>],
    until: Instant,
) -> Result<(), PipeError> {
    if helper::wait_for_any(descriptors, until)? {
        Ok(())
    } else {
        Err(PipeError::TimedOut)
    }
}

/// Waits until `descriptor` is ready or `until` has come.
pub(crate) fn wait_for(
    descriptor: BorrowedFd<'_>,
    flags: PollFlags,
    until: Instant,
) -> Result<(), PipeError> {
    wait_for_any(&mut [PollFd::from_borrowed_fd(descriptor, flags)], until)
}

/// Makes reads and writes of `descriptor` return at once.
pub(crate) fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(descriptor, true)?)
}

/// Appends what a non-blocking pipe has, at most one chunk, to `buffer`. Returns how many bytes came, 0 at its end,
/// nothing when there is nothing yet.
pub(crate) fn read_chunk(pipe: impl AsFd, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let length = buffer.len();
    buffer.resize(length + CHUNK, 0);
    let read = rustix::io::read(pipe, &mut buffer[length..]);
    buffer.truncate(length + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes all of `bytes` to a non-blocking pipe.
pub(crate) fn write_all(
    pipe: impl AsFd,
    mut bytes: &[u8],
    until: Instant,
) -> Result<(), PipeError> {
    while !bytes.is_empty() {
        match rustix::io::write(pipe.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => wait_for(pipe.as_fd(), PollFlags::OUT, until)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The frames that come out of a non-blocking pipe.
#[derive(Debug)]
pub(crate) struct Frames<P> {
    pipe: P,
    buffer: Vec<u8>,
    /// How much at the beginning of the buffer has been taken.
    taken: usize,
}

impl<P: AsFd> Frames<P> {
    /// Reads from `pipe`, which must be non-blocking.
    pub(crate) fn of(pipe: P) -> Self {
        Self {
            pipe,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Returns the payload of the next frame.
    pub(crate) fn next(&mut self, until: Instant) -> Result<Vec<u8>, PipeError> {
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(start) = rest.first_chunk::<4>() {
                let end = 4 + frame::announced(*start)?;
                if let Some(payload) = rest.get(4..end) {
                    let payload = payload.to_vec();
                    self.taken += end;
                    return Ok(payload);
                }
            }
            self.buffer.drain(..std::mem::take(&mut self.taken));
            match read_chunk(self.pipe.as_fd(), &mut self.buffer)? {
                Some(0) => return Err(PipeError::Closed),
                Some(_) => {}
                None => wait_for(self.pipe.as_fd(), PollFlags::IN, until)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        set_nonblocking(&reader).unwrap();
        set_nonblocking(&writer).unwrap();
        (reader, writer)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[test]
    fn messages_come_out_one_by_one_however_they_were_written() {
        let (reader, writer) = pipe();
        let frame = b"\x03\0\0\0abc".to_vec();
        let mut frames = Frames::of(reader);
        let both = [frame.clone(), frame].concat();
        write_all(&writer, &both[..5], soon()).unwrap();
        assert!(matches!(frames.next(soon()), Err(PipeError::TimedOut)));
        write_all(&writer, &both[5..], soon()).unwrap();
        drop(writer);
        assert_eq!(frames.next(soon()).unwrap(), b"abc");
        assert_eq!(frames.next(soon()).unwrap(), b"abc");
        assert!(matches!(frames.next(soon()), Err(PipeError::Closed)));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_given_up_at_the_deadline() {
        let (_reader, writer) = pipe();
        let written = write_all(&writer, &vec![0; 1 << 20], soon());
        assert!(matches!(written, Err(PipeError::TimedOut)));
    }

    #[test]
    fn garbage_is_an_error() {
        let (reader, writer) = pipe();
        write_all(&writer, b"hello, world", soon()).unwrap();
        assert!(matches!(
            Frames::of(reader).next(soon()),
            Err(PipeError::Io(_))
        ));
    }
}
