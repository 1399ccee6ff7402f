//! Memory of another process, many pieces at a time: `process_vm_readv(2)`, or `/proc/PID/mem` where that is barred.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::Trouble;
use crate::helper::passing;

/// The most pieces that one call takes (`IOV_MAX` of Linux).
const MOST_PIECES: usize = 1024;

/// The most pieces that may be missing before the rest is not tried: each costs a call.
const MOST_MISSING: usize = 64;

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    /// Its address.
    pub(super) at: u64,
    /// Its length, bytes.
    pub(super) length: u32,
}

impl Span {
    /// Returns the address of the first byte behind it; nothing where there is none.
    pub(super) fn end(self) -> Option<u64> {
        self.at.checked_add(u64::from(self.length))
    }

    /// Returns its length as the length of something of ours.
    pub(super) fn size(self) -> usize {
        usize::try_from(self.length).expect("a usize is no shorter than 32 bits")
    }
}

/// The memory of one process, and the way to it.
#[derive(Debug)]
pub(super) enum Memory {
    /// By the system call.
    Call(i32),
    /// By its file, which stays open; after an exec it is that of a program that is gone.
    File(File),
    /// Pieces of ours that stand for a process, for tests and fuzzing.
    #[cfg(any(test, feature = "fuzzing"))]
    Pieces(Vec<(u64, Vec<u8>)>),
}

impl Memory {
    /// Opens the file of `pid`, as where the system call is barred.
    pub(super) fn by_file(pid: i32) -> Result<Self, Trouble> {
        let file = passing::open_memory_of(Path::new("/proc"), pid).map_err(Trouble::of)?;
        Ok(Self::File(file))
    }

    /// Reads `spans` one behind the other into `bytes`. Returns the indices of those that are not there; their bytes are
    /// zeros. Errors: nothing may be read at all, or the process is gone.
    pub(super) fn read(
        &mut self,
        spans: &[Span],
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<usize>, Trouble> {
        let length = spans.iter().map(|span| span.size()).sum();
        bytes.clear();
        bytes.resize(length, 0);
        if let Self::Call(pid) = *self {
            match by_call(pid, spans, bytes) {
                // A filter of system calls, a kernel without it, or no right: the file has the last word.
                Err(Errno::EPERM | Errno::ENOSYS) => *self = Self::by_file(pid)?,
                other => return other.map_err(|error| Trouble::of(error.into())),
            }
        }
        match self {
            Self::Call(_) => unreachable!("it was left above"),
            Self::File(file) => Ok(one_by_one(spans, bytes, |piece, at| {
                file.read_exact_at(piece, at).is_ok()
            })),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Pieces(pieces) => Ok(one_by_one(spans, bytes, |piece, at| {
                copy(pieces, piece, at).is_some()
            })),
        }
    }
}

/// Reads with as few calls as the kernel allows; it stops at the first piece that is not there.
fn by_call(pid: i32, spans: &[Span], bytes: &mut [u8]) -> nix::Result<Vec<usize>> {
    let mut missing = Vec::new();
    let (mut next, mut start) = (0, 0);
    while next < spans.len() {
        let end = spans.len().min(next + MOST_PIECES);
        let remote: Vec<RemoteIoVec> = spans[next..end]
            .iter()
            .map(|span| RemoteIoVec {
                base: usize::try_from(span.at).expect("this is a 64-bit program"),
                len: span.size(),
            })
            .collect();
        let length: usize = remote.iter().map(|piece| piece.len).sum();
        let local = &mut bytes[start..start + length];
        let mut read =
            match process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(local)], &remote) {
                Ok(read) => read,
                Err(Errno::EFAULT) => 0,
                Err(error) => return Err(error),
            };
        for span in &spans[next..end] {
            if read < span.size() {
                bytes[start..start + span.size()].fill(0);
                missing.push(next);
                start += span.size();
                next += 1;
                break;
            }
            read -= span.size();
            start += span.size();
            next += 1;
        }
        if missing.len() > MOST_MISSING {
            missing.extend(next..spans.len());
            break;
        }
    }
    Ok(missing)
}

fn one_by_one(
    spans: &[Span],
    bytes: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> bool,
) -> Vec<usize> {
    let mut missing = Vec::new();
    let mut rest = bytes;
    for (index, span) in spans.iter().enumerate() {
        let (piece, behind) = rest.split_at_mut(span.size());
        if !read(piece, span.at) {
            piece.fill(0);
            missing.push(index);
        }
        rest = behind;
    }
    missing
}

/// As of a process: a page that a piece has a part of is there, with zeros where no piece is, and no other.
#[cfg(any(test, feature = "fuzzing"))]
fn copy(pieces: &[(u64, Vec<u8>)], wanted: &mut [u8], at: u64) -> Option<()> {
    let page = |address: u64| address / 4096;
    let end = at.checked_add(wanted.len() as u64)?;
    let pieces = pieces.iter().filter(|(_, piece)| !piece.is_empty());
    let pieces = pieces.map(|(start, piece)| (*start, start + piece.len() as u64, piece));
    let is_there = |number: u64| {
        let mut pieces = pieces.clone();
        pieces.any(|(start, end, _)| (page(start)..=page(end - 1)).contains(&number))
    };
    if !(page(at)..=page(end.checked_sub(1)?)).all(is_there) {
        return None;
    }
    wanted.fill(0);
    for (start, its_end, piece) in pieces {
        let (from, to) = (at.max(start), end.min(its_end));
        if from < to {
            let index = |address: u64, base: u64| usize::try_from(address - base).ok();
            let known = &piece[index(from, start)?..index(to, start)?];
            wanted[index(from, at)?..index(to, at)?].copy_from_slice(known);
        }
    }
    Some(())
}

impl Trouble {
    /// What an answer of the kernel means.
    fn of(error: io::Error) -> Self {
        match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::ESRCH | Errno::ENOENT => Self::Gone,
            _ => Self::Barred(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(bytes: &[u8]) -> Span {
        Span {
            at: bytes.as_ptr() as u64,
            length: u32::try_from(bytes.len()).unwrap(),
        }
    }

    #[test]
    fn both_ways_read_what_is_there_and_name_what_is_not() {
        let pid = rustix::process::getpid().as_raw_pid();
        let (first, second) = (vec![7; 5000], vec![9; 3]);
        let nowhere = Span { at: 8, length: 2 };
        let spans = [nowhere, own(&first), nowhere, own(&second), nowhere];
        let expected = [&[0, 0], &first[..], &[0, 0], &second[..], &[0, 0]].concat();
        for mut memory in [Memory::Call(pid), Memory::by_file(pid).unwrap()] {
            let mut bytes = vec![1];
            assert_eq!(memory.read(&spans, &mut bytes).unwrap(), [0, 2, 4]);
            assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn more_pieces_than_a_call_takes_are_read() {
        let pid = rustix::process::getpid().as_raw_pid();
        let numbers: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let spans: Vec<Span> = numbers.chunks(1).map(own).collect();
        let mut bytes = Vec::new();
        let missing = Memory::Call(pid).read(&spans, &mut bytes).unwrap();
        assert_eq!((missing, bytes), (Vec::new(), numbers));
    }

    #[test]
    fn a_process_that_is_gone_is_told_from_memory_that_is_not_there() {
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        let read = Memory::Call(pid).read(&[Span { at: 8, length: 2 }], &mut Vec::new());
        assert!(matches!(read, Err(Trouble::Gone)), "{read:?}");
    }
}
