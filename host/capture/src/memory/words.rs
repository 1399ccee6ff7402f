//! Words in the memory of a process, by `process_vm_readv(2)`; where that is barred, by `/proc/PID/mem`.

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
    let length = match by_call(pid, address, &mut bytes) {
        // A filter of system calls, or a kernel without it.
        Err(Errno::EPERM | Errno::ENOSYS) => by_file(directory, address, &mut bytes)?,
        other => other?,
    };
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
