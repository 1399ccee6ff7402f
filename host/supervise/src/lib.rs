//! Starts the task, forwards signals to it, reaps, and ends as it ended. The only crate that starts, signals or waits for
//! a process of the user's.
//!
//! The task must not notice us: it gets the standard streams (a closed one is closed), process group, session, signal mask
//! and ignored signals that we were started with. One thing shows all the same: a `kill` of the whole process group reaches
//! it twice (its own copy and the one we forward, which the kernel does not tell apart from a `kill` of us alone).
//!
//! Nor may it suffer from us: a crash of ours, whatever its cause, leaves a stand-in in our place (`crash.rs`).

mod births;
mod crash;
mod deaths;
mod ending;
mod event;
mod inherited;
mod kernel;
mod reap;
mod recipients;
mod replace;
mod signals;
mod stand_in;
mod start;
mod terminal;
mod watch;
mod watch_process;

pub use births::{Births, BirthsError, Born, Connector};
pub use deaths::{Death, Deaths, Hold};
pub use ending::end_like;
pub use event::Event;
pub use model::Ending;
pub use recipients::{Member, Members, Recipients};
pub use replace::replace_by;
pub use stand_in::stand_in;
pub use start::{Manner, StartError, Started, TaskCommand, start};
pub use watch_process::{WatchError, watch_process};
