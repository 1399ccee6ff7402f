//! The page over real connections: who is let in, what stores in any state give, and what each answer holds.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod access;
mod answers;
mod beside;
mod browser;
mod client;
mod damaged;
mod described;
mod job;
#[path = "../../../store/tests/sample/mod.rs"]
mod sample;
mod several;
