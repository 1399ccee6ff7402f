//! Who gets the signals that come to us.

use std::os::fd::{AsFd, OwnedFd};

use model::ProcessId;
use nix::libc;
use nix::unistd::{self, getpgid, getpgrp};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::kernel;

/// Who gets the signals that come to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recipients {
    /// The main process alone.
    #[default]
    Child,
    /// The process group of the main process, which then leads one of its own and is lent the terminal.
    Group,
    /// Every process of the task.
    Scope,
}

/// A process of the task, as whoever finds them names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which process.
    pub id: ProcessId,
    /// Its name, and what else is worth saying of it, for people.
    pub name: String,
}

/// Finds the processes of the task; nothing where they cannot be found. It is called on the watching thread.
pub type Members = Box<dyn Fn() -> Vec<Member> + Send + Sync>;

/// The task, as far as signals go.
pub(crate) struct Addressees {
    pub(crate) task: i32,
    pub(crate) recipients: Recipients,
    pub(crate) members: Members,
}

impl Addressees {
    pub(crate) fn send(&self, signal: i32) {
        match (self.recipients, self.group()) {
            (Recipients::Group, Some(group)) => kernel::send(-group, signal),
            (Recipients::Scope, _) => {
                // Its PID is not free before we have waited for it, which only the calling thread does.
                kernel::send(self.task, signal);
                for pidfd in self.hold_others() {
                    kernel::send_to_held(pidfd.as_fd(), signal);
                }
            }
            (Recipients::Child | Recipients::Group, _) => kernel::send(self.task, signal),
        }
    }

    /// Kills everybody who gets signals, and returns who that was.
    pub(crate) fn kill(&self) -> Vec<Member> {
        let group = self.group();
        let is_killed = |member: &Member| match (self.recipients, group) {
            (Recipients::Scope, _) => true,
            (Recipients::Group, Some(group)) => group_of(member.id.pid) == Some(group),
            (Recipients::Child | Recipients::Group, _) => member.id.pid == self.task,
        };
        let killed = self.list().into_iter().filter(is_killed).collect();
        self.send(libc::SIGKILL);
        killed
    }

    /// The process group of the main process, where it is not ours: a signal to ours would come back to us.
    pub(crate) fn group(&self) -> Option<i32> {
        group_of(self.task).filter(|group| *group != our_group())
    }

    /// Holds every process of the task but the main one. Who is named before and after is the one that is held, whatever became
    /// of the PID meanwhile.
    fn hold_others(&self) -> Vec<OwnedFd> {
        let hold = |member: Member| {
            let pid = Pid::from_raw(member.id.pid)?;
            Some((member.id, pidfd_open(pid, PidfdFlags::empty()).ok()?))
        };
        let others = self.list().into_iter();
        let others = others.filter(|member| member.id.pid != self.task);
        let held: Vec<(ProcessId, OwnedFd)> = others.filter_map(hold).collect();
        let still: Vec<ProcessId> = self.list().iter().map(|member| member.id).collect();
        let held = held.into_iter().filter(|(id, _)| still.contains(id));
        held.map(|(_, pidfd)| pidfd).collect()
    }

    fn list(&self) -> Vec<Member> {
        let listed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&self.members));
        listed.unwrap_or_else(|_| {
            tracing::warn!(
                "The processes of the task could not be found: whoever looks for them panicked."
            );
            Vec::new()
        })
    }
}

/// The process group of a process, if it is there.
pub(crate) fn group_of(pid: i32) -> Option<i32> {
    let group = getpgid(Some(unistd::Pid::from_raw(pid)));
    group.ok().map(unistd::Pid::as_raw)
}

/// Our process group; 0 where its leader is outside of our PID namespace.
pub(crate) fn our_group() -> i32 {
    getpgrp().as_raw()
}
