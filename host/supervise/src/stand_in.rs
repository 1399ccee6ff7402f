//! Going on in the place of a process of ours that has crashed.

use nix::errno::Errno;
use rustix::process::Pid;

use crate::inherited::Inherited;
use crate::recipients::Members;
use crate::terminal::Terminal;
use crate::{Ending, Event, Manner, Recipients, Started, signals};

/// Supervises `task`, a child of ours that this process had started before it crashed, until it has ended; for the command line
/// that [`crate::start()`] was given. Signals that came meanwhile are forwarded now.
pub fn stand_in(
    task: i32,
    manner: &Manner,
    members: Members,
    on_event: impl Fn(Event),
) -> Result<Ending, &'static str> {
    let is_possible = Pid::from_raw(task).is_some_and(|pid| pid.as_raw_pid() > 0);
    if !is_possible {
        return Err("no process has such a PID");
    }
    // Whoever ran before us has blocked the signals already; what it inherited, the task has been given.
    Inherited::take_over(&signals::forwarded()).map_err(Errno::desc)?;
    let has_group = manner.recipients == Recipients::Group;
    let started = Started {
        pid: task,
        recipients: manner.recipients,
        relay: None,
        signals: signals::source(&signals::forwarded()).map_err(Errno::desc)?,
        stop_grace: manner.stop_grace,
        terminal: has_group.then(Terminal::of_session).flatten(),
    };
    let ending = std::cell::Cell::new(Ending::Unknown);
    started.watch_here(members, |event| match event {
        Event::Ended(known) => ending.set(known),
        other => on_event(other),
    });
    Ok(ending.get())
}
