//! What the watching thread reports.

use crate::{Ending, Member};

/// Something that happened to the task or to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A signal came to us, by its number. In `run` it has been forwarded by then, unless the task got its own copy.
    Signal(i32),
    /// A process that came to us when its parent ended, or a helper of ours, has ended. It is a zombie until the receiver returns,
    /// and reaped then.
    Orphan {
        /// Which child of ours.
        pid: i32,
        /// How it ended.
        ending: Ending,
    },
    /// These outlived SIGTERM by the time that they were given, and have been killed.
    OutOfGrace(Vec<Member>),
    /// The main process of the task has ended. Reported once.
    Ended(Ending),
}

/// Hands an event over. A panic in there must not end the thread that the task's signals depend on.
pub(crate) fn report(on_event: &impl Fn(Event), event: Event) {
    let handed_over = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on_event(event)));
    if handed_over.is_err() {
        // Whoever panicked has said so.
        tracing::debug!("The receiver of an event panicked.");
    }
}
