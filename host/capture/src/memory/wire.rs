//! What the collector and a memory helper say to each other.
//!
//! helper: `Hello`; then, per `Request` of the collector, `Piece`s in the order of the jobs, with `Piece::Done` at the end of
//! each. A helper sends what it has before it begins a read that can block, so that all it found out is known when it must
//! be given up. Where it may not open the memory of a process it says `Piece::NeedsMemory`, which is answered as
//! `helper::passing` says. Requests and answers are in postcard's format, in which bytes are bytes; an answer frame holds one
//! `(position, piece)` after the other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use model::ProcessId;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub(super) use crate::helper::frame::{pack as encode, unpack as decode};
use crate::ipc::{Argument, ArgumentKind, ArgumentRequest, Mapping, Words};
use crate::sight::Generation;

/// The version of this protocol.
pub(super) const PROTOCOL: u32 = 4;

/// Processes to read; `J` is a list of jobs, borrowed where it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request<J> {
    /// What to read, in this order.
    pub(super) jobs: J,
    /// Names of variables to keep beyond the built-in ones.
    pub(super) names: Vec<String>,
    /// Where `/proc` is.
    pub(super) proc: OsString,
}

/// What to read of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: ProcessId,
    pub(crate) task: Task,
}

/// What to read of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// What program it runs.
    Image {
        /// Of which exec the environment is known.
        environ: Option<Generation>,
        /// Of which executable it is known whether it is Python.
        evidence: Option<OsString>,
        /// Whether its memory is looked into for a rank that it has set since its environment became known.
        rank: bool,
        /// Whether its share of memory is wanted.
        rollup: bool,
    },
    /// What of its memory connects it with others.
    Connections {
        /// Arguments of calls that its threads wait in.
        arguments: Vec<ArgumentRequest>,
        /// Whether the files in memory that it maps are wanted.
        maps: bool,
        /// Addresses of futexes.
        words: Vec<u64>,
    },
    /// Its share of memory and nothing else.
    Rollup,
}

/// One thing that was read, or that could not be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Piece {
    Exe {
        exe: Result<OsString, Refusal>,
        start_stack: u64,
    },
    /// The content and whether there is more.
    Cmdline(Result<(Vec<u8>, bool), Refusal>),
    Environ(Result<Environment, Refusal>),
    /// Whether the Python library is mapped, and what the symbols of the executable say.
    Evidence {
        library: Result<bool, Refusal>,
        symbols: Option<bool>,
    },
    /// What was known of it holds.
    EvidenceHolds,
    Rollup(Result<(Vec<u8>, bool), Refusal>),
    /// By address.
    Word(u64, Result<Words, Refusal>),
    /// By thread; not found if it waits in another call by now.
    Argument(i32, ArgumentKind, Result<Argument, Refusal>),
    /// Nothing where the time for this had run out.
    Maps(Option<Result<Vec<Mapping>, Refusal>>),
    /// The helper asks to be handed the memory of the process.
    NeedsMemory,
    /// An argument of a call is read next.
    BeginsArgument(ArgumentKind),
    /// Words of its memory are read next.
    BeginsWords,
    /// Its `maps` is read next.
    BeginsMaps,
    /// That was all of this job. It comes for a process that is gone, too.
    Done,
}

/// The listed variables of a process, and where they were found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Environment {
    /// In `environ`; with how many bytes were read if there are more.
    File(BTreeMap<String, String>, Option<u64>),
    /// In its memory, because its title is over what `environ` shows.
    Memory(BTreeMap<String, String>),
    /// `environ` is empty.
    Empty,
    /// Its title is over it, and the memory does not give it: why.
    Overwritten(String),
    /// It was not read, because it is known.
    Known,
}

/// An `io::Error` on its way through a pipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    System(i32),
    Malformed,
    TooLarge,
    Other(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match (error.raw_os_error(), error.kind()) {
            (Some(number), _) => Self::System(number),
            (None, io::ErrorKind::InvalidData) => Self::Malformed,
            (None, io::ErrorKind::FileTooLarge) => Self::TooLarge,
            (None, _) => Self::Other(error.to_string()),
        }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::System(number) => Errno::from_raw_os_error(number).into(),
            Refusal::Malformed => io::ErrorKind::InvalidData.into(),
            Refusal::TooLarge => io::ErrorKind::FileTooLarge.into(),
            Refusal::Other(words) => Self::other(words),
        }
    }
}

/// Returns the pieces of an answer's payload, each with the position of its job.
pub(super) fn pieces(mut payload: &[u8]) -> io::Result<Vec<(u32, Piece)>> {
    let mut pieces = Vec::new();
    while !payload.is_empty() {
        let (piece, rest) = postcard::take_from_bytes(payload)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        pieces.push(piece);
        payload = rest;
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_take_their_own_length_and_come_back_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let piece = Piece::Cmdline(Ok((bytes.clone(), true)));
        let frame = postcard::to_allocvec(&(7_u32, &piece)).unwrap();
        assert!(frame.len() < bytes.len() + 10, "{}", frame.len());
        let back = pieces(&[frame.clone(), frame].concat()).unwrap();
        assert_eq!(back.len(), 2);
        let (7, Piece::Cmdline(Ok((back, true)))) = &back[1] else {
            panic!("{back:?}")
        };
        assert_eq!(back, &bytes);
    }

    #[test]
    fn a_request_survives_the_pipe() {
        let jobs = [Job {
            id: "7:8".parse().unwrap(),
            task: Task::Image {
                environ: Generation::of("/bin/sh".as_ref(), 9),
                evidence: Some("/bin/sh".into()),
                rank: true,
                rollup: true,
            },
        }];
        let request = Request {
            jobs: jobs.as_slice(),
            names: vec!["MINE".to_owned()],
            proc: "/proc".into(),
        };
        let back: Request<Vec<Job>> = decode(&encode(&request).unwrap()[4..]).unwrap();
        assert_eq!(back.jobs[0].id, jobs[0].id);
        assert_eq!((back.names, back.proc), (request.names, request.proc));
    }

    #[test]
    fn an_error_keeps_its_number_or_its_kind() {
        let through = |error: io::Error| io::Error::from(Refusal::from(error));
        let denied = through(Errno::ACCESS.into());
        assert_eq!(denied.raw_os_error(), Some(Errno::ACCESS.raw_os_error()));
        let malformed = through(crate::error::malformed());
        assert_eq!(malformed.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(pieces(&[0xff; 40]).is_err());
        assert!(decode::<Request<Vec<Job>>>(&[0xff; 40]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (pieces(&bytes), decode::<Request<Vec<Job>>>(&bytes));
        }
    }
}
