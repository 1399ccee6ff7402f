//! Words and texts in the memory of a process, by `process_vm_readv(2)`; where that is barred, by `/proc/PID/mem`.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags, openat};

use crate::ipc::Words;

/// A mutex of glibc: the word, a count, the owner.
const LENGTH: usize = 12;

/// Reads the futex at `address` of the process `pid`, whose directory in `/proc` is `directory`.
pub(super) fn read(pid: i32, directory: BorrowedFd<'_>, address: u64) -> io::Result<Words> {
    let mut bytes = [0; LENGTH];
    let length = self::bytes(pid, directory, address, &mut bytes)?;
    let number = |at: usize| {
        let end = at + 4;
        let bytes = bytes[at..end].try_into().expect("four bytes");
        (length >= end).then(|| u32::from_ne_bytes(bytes))
    };
    Ok(Words {
        value: number(0).ok_or(io::ErrorKind::UnexpectedEof)?,
        third: number(8),
    })
}

/// No path that the kernel takes is longer (`PATH_MAX`).
const LONGEST_TEXT: usize = 4096;
/// Pages are at least so large: what is within one is there as a whole or not at all.
const PAGE: u64 = 4096;
const CHUNK: usize = 256;

/// Reads the text at `address` up to its NUL.
pub(super) fn text(pid: i32, directory: BorrowedFd<'_>, address: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < LONGEST_TEXT {
        let to_page_end = usize::try_from(PAGE - at % PAGE).expect("less than a page");
        let mut bytes = [0; CHUNK];
        let wanted = &mut bytes[..to_page_end.min(CHUNK)];
        let length = self::bytes(pid, directory, at, wanted)?;
        let read = bytes.get(..length).unwrap_or_default();
        if let Some(end) = read.iter().position(|&byte| byte == 0) {
            text.extend_from_slice(&read[..end]);
            return Ok(text);
        }
        if read.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(read);
        let length = u64::try_from(length).expect("a chunk is small");
        at = at.checked_add(length).ok_or(Errno::EFAULT)?;
    }
    // The kernel refuses it as well.
    Err(Errno::ENAMETOOLONG.into())
}

/// Reads what is at `address` into `bytes`; returns how much there was.
pub(super) fn bytes(
    pid: i32,
    directory: BorrowedFd<'_>,
    address: u64,
    bytes: &mut [u8],
) -> io::Result<usize> {
    match by_call(pid, address, bytes) {
        // A filter of system calls, or a kernel without it.
        Err(Errno::EPERM | Errno::ENOSYS) => by_file(directory, address, bytes),
        other => Ok(other?),
    }
}

fn by_call(pid: i32, address: u64, bytes: &mut [u8]) -> nix::Result<usize> {
    let base = usize::try_from(address).map_err(|_| Errno::EFAULT)?;
    let remote = [RemoteIoVec {
        base,
        len: bytes.len(),
    }];
    process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(bytes)], &remote)
}

fn by_file(directory: BorrowedFd<'_>, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let memory = openat(directory, "mem", flags, Mode::empty())?;
    Ok(rustix::io::pread(&memory, bytes, address)?)
}
