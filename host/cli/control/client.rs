//! One connection: bytes in, lines out. It is never waited for.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, UCred, recvmsg, send,
};

use super::line::LINE_LIMIT;

/// How much is read of one connection in a round.
const CHUNK: usize = 16 << 10;

/// A connection of a process that may speak.
#[derive(Debug)]
pub(super) struct Client {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// Who connected; each message says who wrote it.
    peer: UCred,
    pub(super) stream: UnixStream,
}

/// What became of a round of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing more is there now.
    Waiting,
    /// There may be more.
    Reading,
    /// It is over: the other side has closed, or is not to be heard any longer.
    Over,
}

impl Client {
    pub(super) fn new(stream: UnixStream, peer: UCred) -> Self {
        Self {
            begun: Vec::new(),
            peer,
            stream,
        }
    }

    /// Reads what is there, up to 16 KiB, and hands each line over with who wrote it; what that returns is
    /// sent back. Whoever does not take its answers, or sends a line that is too long, is over.
    pub(super) fn read(&mut self, mut take: impl FnMut(UCred, &[u8]) -> Option<String>) -> State {
        let mut chunk = [0; CHUNK];
        let (count, writer) = match self.receive(&mut chunk) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return State::Waiting,
            Err(Errno::INTR) => return State::Reading,
            Err(_) => return State::Over,
        };
        if count == 0 {
            let last = std::mem::take(&mut self.begun);
            if !last.is_empty() {
                self.answer(take(writer, &last));
            }
            return State::Over;
        }
        let mut rest = &chunk[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            let answer = if self.begun.is_empty() {
                take(writer, line)
            } else {
                self.begun.extend_from_slice(line);
                let whole = std::mem::take(&mut self.begun);
                take(writer, &whole)
            };
            if self.begun.len() + line.len() >= LINE_LIMIT || !self.answer(answer) {
                return State::Over;
            }
        }
        self.begun.extend_from_slice(rest);
        if self.begun.len() >= LINE_LIMIT {
            take(writer, &self.begun); // refused, and counted
            return State::Over;
        }
        State::Reading
    }

    /// Receives bytes that one process wrote. Descriptors that come along are closed by the kernel: there is no room.
    fn receive(&self, chunk: &mut [u8]) -> Result<(usize, UCred), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(chunk)];
        let received = recvmsg(&self.stream, &mut parts, &mut control, RecvFlags::DONTWAIT)?;
        let writer = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(writer) => Some(writer),
            _ => None,
        });
        Ok((received.bytes, writer.unwrap_or(self.peer)))
    }

    /// Sends an answer whole, or not at all; returns whether it was sent.
    fn answer(&self, answer: Option<String>) -> bool {
        let Some(answer) = answer else {
            return true;
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.stream, answer.as_bytes(), flags) == Ok(answer.len())
    }
}
