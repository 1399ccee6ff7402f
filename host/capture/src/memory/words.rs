//! Words and texts in the memory of a process, by `process_vm_readv(2)`; where that is barred, by `/proc/PID/mem`.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use model::ProcessId;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::handed;
use super::service::{Service, Sink};
use crate::ipc::Words;

/// A mutex of glibc: the word, a count, the owner.
const LENGTH: usize = 12;

/// No path that the kernel takes is longer (`PATH_MAX`).
const LONGEST_TEXT: usize = 4096;
/// Pages are at least so large: what is within one is there as a whole or not at all.
const PAGE: u64 = 4096;
const CHUNK: usize = 256;

/// The memory of one process during one job, read with what the service has and may ask for.
pub(super) struct Memory<'a, 's> {
    directory: BorrowedFd<'a>,
    /// Its file, or why there is none, where the system call was barred.
    file: Option<Result<Arc<File>, Errno>>,
    id: ProcessId,
    pub(super) service: &'a mut Service,
    pub(super) sink: &'a mut Sink<'s>,
}

impl<'a, 's> Memory<'a, 's> {
    /// That of the process `id`, whose directory in `/proc` is `directory`. Opens nothing yet.
    pub(super) fn of(
        id: ProcessId,
        directory: BorrowedFd<'a>,
        service: &'a mut Service,
        sink: &'a mut Sink<'s>,
    ) -> Self {
        Self {
            directory,
            file: None,
            id,
            service,
            sink,
        }
    }

    /// Reads the futex at `address`.
    pub(super) fn futex(&mut self, address: u64) -> io::Result<Words> {
        let mut bytes = [0; LENGTH];
        let length = self.bytes(address, &mut bytes)?;
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

    /// Reads the text at `address` up to its NUL.
    pub(super) fn text(&mut self, address: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < LONGEST_TEXT {
            let to_page_end = usize::try_from(PAGE - at % PAGE).expect("less than a page");
            let mut bytes = [0; CHUNK];
            let wanted = &mut bytes[..to_page_end.min(CHUNK)];
            let length = self.bytes(at, wanted)?;
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
    pub(super) fn bytes(&mut self, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        if self.file.is_none() {
            match by_call(self.id.pid, address, bytes) {
                // A filter of system calls, a kernel without it, or no right: the file has the last word.
                Err(Errno::EPERM | Errno::ENOSYS) => {}
                other => return Ok(other?),
            }
            let file = handed::open(self.service, self.directory, self.id, "mem", self.sink);
            let number = |error: io::Error| error.raw_os_error().unwrap_or(0);
            self.file = Some(file.map_err(|error| Errno::from_raw(number(error))));
        }
        match &self.file {
            Some(Ok(file)) => Ok(rustix::io::pread(file, bytes, address)?),
            Some(Err(error)) => Err((*error).into()),
            None => unreachable!("it was opened, or not, above"),
        }
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
