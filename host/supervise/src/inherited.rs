//! The signals and standard streams we were started with, kept for the task, which is to begin as if we were not there.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};

use crate::kernel;

/// Whether SIGPIPE was ignored before Rust's runtime, which ignores it, came to run.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// The standard streams that were closed before Rust's runtime, which puts `/dev/null` there, came to run: bit N for N.
static CLOSED_STREAMS: AtomicU8 = AtomicU8::new(0);

/// Called by the loader before `main`.
pub(crate) extern "C" fn remember() {
    PIPE_WAS_IGNORED.store(kernel::is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    let closed = (0..3).filter(|stream| !kernel::is_open(*stream));
    CLOSED_STREAMS.store(
        closed.fold(0, |bits, stream| bits | 1 << stream),
        Ordering::Relaxed,
    );
}

/// What a shell, nohup or a service manager gave us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    child_was_ignored: bool,
    mask: SigSet,
}

impl Inherited {
    /// Remembers the state, then blocks `signals` in this thread and makes children waitable.
    pub(crate) fn take_over(signals: &SigSet) -> Result<Inherited, Errno> {
        let child_was_ignored = kernel::is_ignored(libc::SIGCHLD);
        // Ignored, it would have the kernel reap our children, and their statuses would be lost.
        kernel::set_default(libc::SIGCHLD);
        let mask = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Inherited {
            child_was_ignored,
            mask,
        })
    }

    /// Restores the state. Runs between fork and exec: nothing but plain system calls.
    pub(crate) fn give_back(self) -> io::Result<()> {
        let closed = CLOSED_STREAMS.load(Ordering::Relaxed);
        for stream in (0..3).filter(|stream| closed & 1 << stream != 0) {
            kernel::close(stream);
        }
        if self.child_was_ignored {
            kernel::set_ignored(libc::SIGCHLD);
        }
        // std sets it to the default on every exec.
        if PIPE_WAS_IGNORED.load(Ordering::Relaxed) {
            kernel::set_ignored(libc::SIGPIPE);
        }
        // Last: signals that have arrived since the fork are delivered here.
        self.mask.thread_set_mask().map_err(io::Error::from)
    }
}
