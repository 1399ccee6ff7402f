//! How the task ended, and ending the same way, so that whoever waits for us sees what it would have seen without us.

use std::process::ExitCode;

use nix::libc;
use nix::sys::prctl;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use model::Ending;

use crate::kernel;

/// Ends as the task ended. Of an exit it returns the code, 0 where it is unknown. Of a signal it does not return: this
/// process ends at once by the same signal, without a core file, so everything must be written by then. PID 1 of a
/// container cannot be ended so; then it returns 128 and the signal's number, as shells do.
pub fn end_like(ending: Ending) -> ExitCode {
    match ending {
        Ending::Exited(code) => ExitCode::from(low_byte(code)),
        Ending::Killed { signal, .. } => {
            leave_no_core();
            kernel::suffer(signal);
            ExitCode::from(low_byte(libc::SIGRTMAX().min(signal) + 128))
        }
        Ending::Unknown => ExitCode::SUCCESS,
    }
}

/// The task has left the core file that counts; ours would be put over it.
fn leave_no_core() {
    let limit = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    // The limit does not hold for cores that are piped to a program, the other switch does. Neither is worth failing for.
    let _ = setrlimit(Resource::Core, limit);
    let _ = prctl::set_dumpable(false);
}

/// Exit codes are one byte, of which the kernel has kept no more either.
fn low_byte(code: i32) -> u8 {
    code.to_le_bytes()[0]
}
