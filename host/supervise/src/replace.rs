//! Becoming a command: no process of ours stays, so nothing of the command differs from the command alone.

use std::os::unix::process::CommandExt;

use nix::sys::signal::SigSet;

use crate::inherited::Inherited;
use crate::kernel;
use crate::start::{StartError, TaskCommand, start_error};

/// Replaces this process by the command, which has our PID, standard streams, and the signal mask and the ignored signals that
/// we were started with. Returns only where that fails. As for [`crate::start()`], no other thread may exist.
pub fn replace_by(command: &TaskCommand) -> StartError {
    let inherited = match Inherited::take_over(&SigSet::empty()) {
        Ok(inherited) => inherited,
        Err(errno) => {
            return StartError::Failed {
                program: command.program.clone(),
                reason: errno.desc().to_owned(),
            };
        }
    };
    let mut process = command.process();
    kernel::before_exec(&mut process, move || inherited.give_back());
    start_error(&command.program, &process.exec())
}
