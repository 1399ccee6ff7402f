//! Tries to reach the memory and the descriptors of a process, without reading either.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::ours::OwnRights;
use super::process::ProcessRights;
use super::reason::{Access, refusal};
use super::remedy::{PY_SPY_ITSELF, SECCOMP};
use super::{Right, RightName, in_time};

/// No process has a descriptor with this number.
const NO_DESCRIPTOR: i32 = i32::MAX - 1;

/// Where we may read as an ancestor, which the helpers that read for us are not.
const HANDED: &str = "/proc/PID/mem can be opened: kernel.yama.ptrace_scope is 1 and taskscope an ancestor of the process; \
                      its helpers are handed that file, and stacks of CPython 3.8 to 3.13 are read by it, no others";

/// Tries both.
pub(super) fn try_both(
    directory: &Path,
    pid: i32,
    ours: &OwnRights,
    process: &ProcessRights,
) -> [Right; 2] {
    [
        memory(directory, pid, ours, process),
        descriptors(pid, ours, process),
    ]
}

fn memory(directory: &Path, pid: i32, ours: &OwnRights, process: &ProcessRights) -> Right {
    let right = RightName::ProcessMemory;
    let path = directory.join("mem");
    // Opening it asks for the same right and reads nothing.
    let Some(file) = in_time(move || File::open(path).map(drop)) else {
        return Right::unknown(right, "opening /proc/PID/mem did not return");
    };
    let Some(call) = in_time(move || read_nowhere(pid)) else {
        let detail = "the process's memory map is locked: reads of its memory do not return";
        return Right::unknown(right, detail);
    };
    judge(call, file, ours, process)
}

/// Judges by whether the system call and the opening of the file were allowed.
pub(super) fn judge(
    call: Result<(), Errno>,
    file: io::Result<()>,
    ours: &OwnRights,
    process: &ProcessRights,
) -> Right {
    let right = RightName::ProcessMemory;
    match (call, file) {
        (Ok(()), Ok(())) if ours.is_confined_by_yama() => Right::holds(right, HANDED),
        // What our helpers cannot do is not ours.
        (Ok(()), Err(_)) if ours.is_confined_by_yama() => {
            let detail =
                "process_vm_readv works, but /proc/PID/mem cannot be opened for our helpers";
            Right::lost(right, detail, Some(PY_SPY_ITSELF))
        }
        (Ok(()), _) => Right::holds(right, "process_vm_readv works"),
        (Err(Errno::SRCH), _) => Right::unknown(
            right,
            "it has no memory: it has ended, or is a kernel thread",
        ),
        (Err(_), file) if is_filtered(read_ourselves()) => {
            let fallback = match file {
                Ok(()) => {
                    "; /proc/PID/mem can be opened, and stacks of CPython 3.8 to 3.13 are read by it, no others"
                }
                Err(_) => "; /proc/PID/mem cannot be opened either",
            };
            let detail = format!("a seccomp filter refuses process_vm_readv{fallback}");
            Right::lost(right, detail, Some(SECCOMP))
        }
        (Err(_), _) => {
            let (detail, remedy) = refusal(Access::Attach, ours, process);
            Right::lost(right, detail, Some(remedy))
        }
    }
}

fn descriptors(pid: i32, ours: &OwnRights, process: &ProcessRights) -> Right {
    let right = RightName::ProcessDescriptors;
    let Some(call) = in_time(move || copy_none(pid)) else {
        return Right::unknown(right, "pidfd_getfd did not return");
    };
    match call {
        Err(Errno::BADF) | Ok(()) => Right::holds(right, "pidfd_getfd works"),
        Err(Errno::SRCH) => Right::unknown(right, "the process has ended"),
        Err(_) if copy_our_own().is_err() => {
            let detail =
                "pidfd_getfd is refused by a seccomp filter, or the kernel is older than Linux 5.6";
            Right::lost(right, detail, Some(SECCOMP))
        }
        Err(_) => {
            let (detail, remedy) = refusal(Access::Attach, ours, process);
            Right::lost(right, detail, Some(remedy))
        }
    }
}

/// Asks for a byte where nothing is mapped: whether we may is checked before whether it is there.
fn read_nowhere(pid: i32) -> Result<(), Errno> {
    match read(pid, 0) {
        Err(Errno::FAULT) => Ok(()),
        other => other,
    }
}

fn read_ourselves() -> Result<(), Errno> {
    let byte = [0_u8];
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    read(pid, byte.as_ptr().addr())
}

fn read(pid: i32, base: usize) -> Result<(), Errno> {
    let mut byte = [0_u8];
    let mut local = [IoSliceMut::new(&mut byte)];
    let remote = [RemoteIoVec { base, len: 1 }];
    process_vm_readv(nix::unistd::Pid::from_raw(pid), &mut local, &remote)
        .map(drop)
        .map_err(|error| Errno::from_raw_os_error(error as i32))
}

/// A call that a filter bars fails even where the kernel would always allow it.
fn is_filtered(own: Result<(), Errno>) -> bool {
    own.is_err()
}

fn copy_none(pid: i32) -> Result<(), Errno> {
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    pidfd_getfd(process, NO_DESCRIPTOR, PidfdGetfdFlags::empty()).map(drop)
}

fn copy_our_own() -> io::Result<()> {
    let process = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    let number = process.as_raw_fd();
    pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
    Ok(())
}
