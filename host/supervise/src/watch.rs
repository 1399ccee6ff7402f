//! The thread that stands beside a started task: forwards signals, reaps every child of ours, reports.
//! It is the only one that waits and the only one that sends, so a signal never goes to a PID that was used again.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::event::report;
use crate::reap::{Change, children, ended, next_change, take};
use crate::recipients::{Addressees, Members, group_of, our_group};
use crate::terminal::Terminal;
use crate::{Ending, Event, Started, crash, kernel, signals};

impl Started {
    /// Watches the task on a thread of its own, until we end; `on_event` is called there and should be quick. `members` is
    /// asked where more than the main process is to be signalled, and who is killed after the grace is said.
    ///
    /// Where no thread can be had, it watches on the calling thread and returns when the task has ended.
    pub fn watch(self, members: Members, on_event: impl Fn(Event) + Send + Sync + 'static) {
        let watch = Arc::new(Watch::new(self, members, on_event));
        let shared = Arc::clone(&watch);
        let thread = thread::Builder::new()
            .name("supervise".to_owned())
            .spawn(move || shared.run_to_the_end(AfterEnd::GoOn));
        if let Err(error) = thread {
            tracing::warn!(%error, "The task is watched without a thread, so nothing else is done meanwhile.");
            watch.run_to_the_end(AfterEnd::Return);
        }
    }

    /// As `watch`, on the calling thread; returns when the task has ended.
    pub(crate) fn watch_here(self, members: Members, on_event: impl Fn(Event)) {
        Watch::new(self, members, on_event).run(AfterEnd::Return);
    }
}

struct Watch<F> {
    on_event: F,
    addressees: Addressees,
    signals: SignalFd,
    relay: Option<OwnedFd>,
    terminal: Option<Terminal>,
    stop_grace: Option<Duration>,
}

/// What to do once the main process has ended: signals may still come, and orphans still end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterEnd {
    GoOn,
    Return,
}

/// Whether signals still go to the main process, and until when it may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Alive { until: Option<Instant> },
    Ended,
}

impl<F: Fn(Event)> Watch<F> {
    fn new(started: Started, members: Members, on_event: F) -> Self {
        let addressees = Addressees {
            task: started.pid,
            recipients: started.recipients,
            members,
        };
        Self {
            on_event,
            addressees,
            signals: started.signals,
            relay: started.relay,
            terminal: started.terminal,
            stop_grace: started.stop_grace,
        }
    }

    /// A panic must not leave the task alone: it is a crash as any other, so the stand-in goes on.
    fn run_to_the_end(&self, after_end: AfterEnd) {
        if catch_unwind(AssertUnwindSafe(|| self.run(after_end))).is_err() {
            std::process::abort();
        }
    }

    fn run(&self, after_end: AfterEnd) {
        let mut task = Task::Alive { until: None };
        // Reaping comes before the first wait: a child that ended before the signal was blocked sends none.
        while self.reap(&mut task, after_end).is_continue() {
            if let Task::Alive { until: Some(until) } = task
                && Instant::now() >= until
            {
                task = Task::Alive { until: None };
                let killed = self.addressees.kill();
                report(&self.on_event, Event::OutOfGrace(killed));
            }
            self.wait(&task);
            while let Some(signal) = signals::next(&self.signals) {
                let number = signals::number(&signal);
                let is_for_task = signals::is_for_task(&signal, self.addressees.task);
                self.pass_on(number, is_for_task, &mut task);
            }
            for number in self.relay.iter().flat_map(crash::relayed) {
                self.pass_on(number, true, &mut task);
            }
        }
    }

    /// Waits for a signal, or until the grace is over.
    fn wait(&self, task: &Task) {
        let mut sources = vec![PollFd::from_borrowed_fd(
            self.signals.as_fd(),
            PollFlags::IN,
        )];
        sources.extend(self.relay.as_ref().map(|it| PollFd::new(it, PollFlags::IN)));
        let until = match task {
            Task::Alive { until } => *until,
            Task::Ended => None,
        };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        // An interrupted wait is begun again by whoever called.
        let _ = poll(&mut sources, timeout.as_ref());
    }

    fn pass_on(&self, number: i32, is_for_task: bool, task: &mut Task) {
        if number == libc::SIGCHLD {
            return;
        }
        if let (Task::Alive { until }, true) = (&mut *task, is_for_task) {
            if number == libc::SIGCONT {
                self.lend_terminal();
            }
            self.addressees.send(number);
            if number == libc::SIGTERM && until.is_none() {
                *until = self.stop_grace.map(|grace| Instant::now() + grace);
            }
        }
        report(&self.on_event, Event::Signal(number));
    }

    fn reap(&self, task: &mut Task, after_end: AfterEnd) -> ControlFlow<()> {
        // The main process stays a zombie until we end: a task that was shorter than the first look is seen even so.
        while *task != Task::Ended {
            if let Some(ending) = ended(self.addressees.task) {
                self.end(task, ending);
                break;
            }
            let Some((pid, change)) = next_change() else {
                break;
            };
            let is_main = pid == self.addressees.task;
            match change {
                // It ended between the two questions, and is not taken.
                Change::Ended(ending) if is_main => self.end(task, ending),
                Change::Ended(ending) => self.reap_orphan(pid, ending),
                Change::Stopped(signal) => {
                    take(pid);
                    if is_main {
                        self.stop_along(signal);
                    }
                }
            }
        }
        match (&task, after_end) {
            (Task::Ended, AfterEnd::Return) => return ControlFlow::Break(()),
            (Task::Ended, AfterEnd::GoOn) => self.reap_others(),
            (Task::Alive { .. }, _) => {}
        }
        ControlFlow::Continue(())
    }

    /// Reaps every child that has ended, but the main process.
    fn reap_others(&self) {
        let others = children().into_iter();
        for pid in others.filter(|&pid| pid != self.addressees.task) {
            if let Some(ending) = ended(pid) {
                self.reap_orphan(pid, ending);
            }
        }
    }

    /// Tells of a child that has ended while it can still be looked at, and reaps it.
    fn reap_orphan(&self, pid: i32, ending: Ending) {
        report(&self.on_event, Event::Orphan { pid, ending });
        take(pid);
    }

    fn end(&self, task: &mut Task, ending: Ending) {
        *task = Task::Ended;
        // Who ended before is told of before.
        self.reap_others();
        if let Some(terminal) = &self.terminal {
            // Its group has the number of its PID, which it still holds.
            terminal.pass(self.addressees.task, our_group());
        }
        report(&self.on_event, Event::Ended(ending));
    }

    /// Stops us as the task was stopped by its terminal, so that the shell sees its job stop. Returns when continued.
    /// A task in a group of its own that we did not make is its own shell's affair, and SIGSTOP is meant for it alone.
    fn stop_along(&self, signal: i32) {
        if !matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) {
            return;
        }
        let task = self.addressees.task;
        let group = group_of(task);
        if group == Some(our_group()) {
            kernel::suffer(signal);
        } else if self.terminal.is_some() && group == Some(task) {
            kernel::suffer(signal);
            // The shell that continued us knows of our group alone; where nobody could stop us, nobody will continue it.
            self.lend_terminal();
            self.addressees.send(libc::SIGCONT);
        }
    }

    fn lend_terminal(&self) {
        if let (Some(terminal), Some(group)) = (&self.terminal, self.addressees.group()) {
            terminal.pass(our_group(), group);
        }
    }
}
