//! Starts the task, forwards signals to it, reaps, and ends as it ended. The only crate that starts, signals or waits for
//! a process of the user's.
//!
//! The task must not notice us: it gets the standard streams, process group, session, signal mask and ignored signals that
//! we were started with. Two things show all the same: a `kill` of the whole process group reaches it twice (its own copy
//! and the one we forward, which the kernel does not tell apart from a `kill` of us alone), and a standard stream that was
//! closed is `/dev/null`, which Rust's runtime puts there.

mod deaths;
mod ending;
mod event;
mod inherited;
mod kernel;
mod reap;
mod replace;
mod signals;
mod start;
mod watch;
mod watch_process;

pub use deaths::{Death, Deaths, Hold};
pub use ending::end_like;
pub use event::Event;
pub use model::Ending;
pub use replace::replace_by;
pub use start::{StartError, Started, TaskCommand, start};
pub use watch_process::{WatchError, watch_process};
