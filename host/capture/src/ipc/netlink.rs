//! A small client of `sock_diag(7)`: questions to the kernel about sockets, and its answers as bytes.
//!
//! A message is a header (length, type, flags, sequence, port; 16 bytes in the machine's byte order) and a payload;
//! attributes after a payload are a length, a type and bytes, each aligned to four.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};

const HEADER: usize = 16;
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST: u16 = 0x1;
const DUMP: u16 = 0x300;

/// No answer takes so long: the kernel answers within the call that asks.
const PATIENCE: Duration = Duration::from_millis(250);

/// An open line to the kernel.
pub(super) struct Client {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

/// What one message of an answer is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// One socket: the payload after the header.
    Socket(&'a [u8]),
    /// The kernel refused, or found nothing.
    Error(Errno),
    /// Nothing follows.
    Done,
}

impl Client {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Self {
            socket,
            buffer: vec![0; 32 << 10],
            sequence: 0,
        })
    }

    /// Asks one question a request and hands each answer to `take`. A socket that is not found has none.
    pub(super) fn ask(
        &mut self,
        requests: &[Vec<u8>],
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut question = Vec::new();
        for request in requests {
            self.sequence += 1;
            push(&mut question, REQUEST, self.sequence, request);
        }
        send(&self.socket, &question, SendFlags::empty())?;
        let mut missing = requests.len();
        while missing > 0 {
            for message in messages(receive(&self.socket, &mut self.buffer)?) {
                missing = missing.saturating_sub(1);
                match message {
                    Message::Socket(payload) => take(payload),
                    Message::Error(Errno::NOENT) | Message::Done => {}
                    Message::Error(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Asks for all sockets that `request` describes and hands each to `take`, until that returns false or `deadline`
    /// has come. Returns whether it heard all that it wanted.
    pub(super) fn dump(
        mut self,
        request: &[u8],
        deadline: Instant,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        let mut question = Vec::new();
        push(&mut question, REQUEST | DUMP, 1, request);
        send(&self.socket, &question, SendFlags::empty())?;
        while Instant::now() < deadline {
            for message in messages(receive(&self.socket, &mut self.buffer)?) {
                match message {
                    // With the socket the rest of the dump goes away.
                    Message::Socket(payload) if !take(payload) => return Ok(true),
                    Message::Socket(_) => {}
                    Message::Done => return Ok(true),
                    Message::Error(error) => return Err(error.into()),
                }
            }
        }
        Ok(false)
    }
}

/// Returns the attributes of a payload after its fixed part, as type and bytes.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn push(question: &mut Vec<u8>, flags: u16, sequence: u32, request: &[u8]) {
    let length = u32::try_from(HEADER + request.len()).expect("a request is small");
    question.extend(length.to_ne_bytes());
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(flags.to_ne_bytes());
    question.extend(sequence.to_ne_bytes());
    question.extend(0_u32.to_ne_bytes());
    question.extend(request);
}

fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let (length, _) = retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::empty()))?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(&buffer[..length])
}

/// Splits what was received; what is cut off or odd ends it.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let kind = u16_at(bytes, 4)?;
        let payload = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(match kind {
            DONE => Message::Done,
            ERROR => Message::Error(errno(payload)),
            _ => Message::Socket(payload),
        })
    })
}

fn errno(payload: &[u8]) -> Errno {
    let code = u32_at(payload, 0).map_or(0, u32::cast_signed);
    Errno::from_raw_os_error(code.wrapping_neg().clamp(1, 4095))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_is_split_into_its_messages() {
        let mut bytes = Vec::new();
        push(&mut bytes, 0, 1, &[1, 2, 3, 4]);
        let mut error = Vec::new();
        push(&mut error, 0, 2, &(-2_i32).to_ne_bytes());
        error[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        bytes.extend(error);
        let split: Vec<_> = messages(&bytes).collect();
        assert_eq!(
            split,
            [Message::Socket(&[1, 2, 3, 4]), Message::Error(Errno::NOENT)]
        );
    }

    #[test]
    fn attributes_are_aligned_and_a_cut_one_is_left_out() {
        let mut bytes = Vec::new();
        for (length, kind) in [(5_u16, 6_u16), (8, 2), (40, 4)] {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([7, 0, 0, 0]);
        }
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(6, &[7][..]), (2, &[7, 0, 0, 0][..])]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(messages(&bytes).count() <= bytes.len());
            prop_assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}
