//! The thread that stands beside a started task: forwards signals, reaps every child of ours, reports.
//! It is the only one that waits and the only one that sends, so a signal never goes to a PID that was used again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use nix::libc;
use rustix::process::{Pid, getpgid, getpgrp};

use crate::event::report;
use crate::reap::{Change, ended, next_change};
use crate::{Event, Started, kernel, signals};

impl Started {
    /// Watches the task on a thread of its own, until we end; `on_event` is called there and should be quick.
    ///
    /// Where no thread can be had, it watches on the calling thread and returns when the task has ended.
    pub fn watch(self, on_event: impl Fn(Event) + Send + Sync + 'static) {
        let watch = Arc::new(Watch {
            on_event,
            started: self,
        });
        let shared = Arc::clone(&watch);
        let thread = thread::Builder::new()
            .name("supervise".to_owned())
            .spawn(move || shared.run(AfterEnd::GoOn));
        if let Err(error) = thread {
            tracing::warn!(%error, "The task is watched without a thread, so nothing else is done meanwhile.");
            watch.run(AfterEnd::Return);
        }
    }
}

struct Watch<F> {
    on_event: F,
    started: Started,
}

/// What to do once the main process has ended: signals may still come, and orphans still end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterEnd {
    GoOn,
    Return,
}

/// Whether signals still go to the main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Alive,
    Ended,
}

impl<F: Fn(Event)> Watch<F> {
    fn run(&self, after_end: AfterEnd) {
        let mut task = Task::Alive;
        // Reaping comes before the first wait: a child that ended before the signal was blocked sends none.
        while self.reap(&mut task, after_end).is_continue() {
            let signal = signals::next(&self.started.signals);
            let number = signals::number(&signal);
            if number == libc::SIGCHLD {
                continue;
            }
            if task == Task::Alive && signals::is_for_task(&signal, self.started.pid) {
                kernel::send(self.started.pid, number);
            }
            report(&self.on_event, Event::Signal(number));
        }
    }

    fn reap(&self, task: &mut Task, after_end: AfterEnd) -> ControlFlow<()> {
        // The main process stays a zombie until we end: a task that was shorter than the first look is seen even so. We
        // end soon after it, so what else ends until then is left to whoever inherits it.
        while *task == Task::Alive {
            if let Some(ending) = ended(self.started.pid) {
                *task = Task::Ended;
                report(&self.on_event, Event::Ended(ending));
                break;
            }
            let Some((pid, change)) = next_change() else {
                break;
            };
            match change {
                _ if pid != self.started.pid => {}
                Change::Stopped(signal) => self.stop_along(signal),
                // It ended between the two questions.
                Change::Ended(ending) => {
                    *task = Task::Ended;
                    report(&self.on_event, Event::Ended(ending));
                }
            }
        }
        if *task == Task::Ended && after_end == AfterEnd::Return {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Stops us as the task was stopped by its terminal, so that the shell sees its job stop. Returns when continued.
    /// A task in a group of its own is its own shell's affair, and SIGSTOP is meant for it alone.
    fn stop_along(&self, signal: i32) {
        let is_job_control = matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        let group = Pid::from_raw(self.started.pid).map(|pid| getpgid(Some(pid)));
        if is_job_control && group == Some(Ok(getpgrp())) {
            kernel::suffer(signal);
        }
    }
}
