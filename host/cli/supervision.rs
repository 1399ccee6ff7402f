//! How `run` stands by the task: from settings to what `supervise` is told, who the task's processes are, and who was killed.

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use capture::{Disposition, Machine, Scope};
use model::ProcessId;
use rustix::process::Signal;
use supervise::{Event, Manner, Member, Members};
use tracing::warn;

use crate::config::SignalsChoice;
use crate::session::Session;
use crate::ui;

/// Returns how to stand by the task, and by which command line of ours that goes on after a crash.
pub(crate) fn manner(signals: SignalsChoice, stop_grace: Option<Duration>) -> Manner {
    let mut stand_in: Vec<OsString> = ["taskscope", "stand-in", "--signals", signals.word()]
        .map(OsString::from)
        .to_vec();
    if let Some(grace) = stop_grace {
        stand_in.extend(["--stop-grace".into(), grace.as_millis().to_string().into()]);
    }
    Manner {
        recipients: signals.recipients(),
        stop_grace,
        stand_in,
    }
}

/// Returns what finds the processes of the task whose main process is `task`, a child of ours. `machine` must know the helpers.
pub(crate) fn members(machine: Machine, task: i32) -> Members {
    let adopter = i32::try_from(std::process::id()).ok();
    let scope = Mutex::new(None);
    Box::new(move || {
        let mut scope = scope.lock().unwrap_or_else(PoisonError::into_inner);
        if scope.is_none() {
            *scope = machine
                .identify(task)
                .ok()
                .map(|root| Scope::tree(root, adopter));
        }
        let found = scope
            .as_mut()
            .map(|scope| capture::discover(&machine, scope));
        match found {
            Some(Ok(targets)) => {
                let found = targets.found();
                found
                    .map(|it| Member {
                        id: it.process,
                        name: described(&machine, it.process, &it.name),
                    })
                    .collect()
            }
            Some(Err(error)) => {
                warn!("Only the main process gets this signal: {error}.");
                Vec::new()
            }
            None => Vec::new(),
        }
    })
}

/// A name with what its process does with SIGTERM, as far as that explains why it lives on.
fn described(machine: &Machine, id: ProcessId, name: &str) -> String {
    let term = u32::try_from(Signal::TERM.as_raw()).unwrap_or(15);
    let does = match machine.disposition(id, term) {
        Some(Disposition::Ignored) => " (ignores it)",
        Some(Disposition::Blocked) => " (blocks it)",
        Some(Disposition::Handled) => " (handles it)",
        Some(Disposition::Default) | None => "",
    };
    format!("{name}{does}")
}

/// Something that happened while we wait for the task to end.
#[derive(Debug)]
pub(crate) enum Happening {
    /// It is time for the look ahead of the deadline. Comes once at most.
    Deadline,
    Event(Event),
    /// A second has passed, where that was asked for.
    Round,
}

/// What happens to the task, and the look ahead of its deadline.
#[derive(Debug)]
pub(crate) struct Happenings<'a> {
    events: &'a Receiver<Event>,
    last_look: Option<Instant>,
    next_round: Option<Instant>,
}

/// How long a round is.
const ROUND: Duration = Duration::from_secs(1);

impl<'a> Happenings<'a> {
    pub(crate) fn of(events: &'a Receiver<Event>, session: &Session) -> Self {
        Self {
            events,
            last_look: session.last_look(),
            next_round: None,
        }
    }

    /// Has a round reported each second.
    pub(crate) fn with_rounds(mut self) -> Self {
        self.next_round = Some(Instant::now());
        self
    }

    /// Waits for what comes next; nothing when nobody can report any more.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let due = self.last_look.into_iter().chain(self.next_round).min();
        let Some(due) = due else {
            return self.events.recv().ok().map(Happening::Event);
        };
        let left = due.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(event) => Some(Happening::Event(event)),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) if self.last_look == Some(due) => {
                self.last_look = None;
                Some(Happening::Deadline)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.next_round = Some(Instant::now() + ROUND);
                Some(Happening::Round)
            }
        }
    }
}

/// Says who outlived SIGTERM for longer than the grace, where `event` is about that.
pub(crate) fn say_who_was_killed(event: &Event, stop_grace: Option<Duration>) {
    let Event::OutOfGrace(killed) = event else {
        return;
    };
    let named: Vec<String> = killed
        .iter()
        .map(|member| format!("{} {}", member.id.pid, member.name))
        .collect();
    let whom = if named.is_empty() {
        "the task".to_owned()
    } else {
        named.join(", ")
    };
    let grace = stop_grace.unwrap_or_default();
    ui::say(&format!(
        "SIGKILL after the stop-grace of {grace:?}, to what outlived SIGTERM: {whom}"
    ));
}
