//! Steering a collector while it runs: a unix socket beside the task, and the side that asks.
//!
//! Any process of this user may speak here: all that it can send is bounded, nothing waits for it, and what it says is data.
//! docs/control.md is the protocol.

mod ask;
mod board;
mod client;
mod desk;
mod line;
mod owners;
mod place;
mod server;
mod stages;

pub(crate) use ask::{Collector, ask, find};
pub(crate) use board::{Board, IntervalSource, Status};
pub(crate) use line::Ask;
pub(crate) use place::{Socket, connect};
pub(crate) use server::Server;
pub(crate) use stages::{SharedStages, StageStatus};

/// The variable that tells the task where the socket is.
pub(crate) const SOCKET_VARIABLE: &str = "TASKSCOPE_SOCKET";
