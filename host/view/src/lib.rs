//! Stored snapshots to a browser: a local web page, its JSON, and the documentation. The only crate that listens.
//!
//! [`Server`] takes connections (`server.rs`) and lets in who knows the token (`access.rs`). Each answer is made from what the
//! store holds: which runs there are (`runs.rs`), asked again when that is old (`aged.rs`), by one clock (`clocks.rs`), the snapshots of all nodes at an instant
//! (`moment.rs`), kept decoded on a shelf (`shelf.rs`), and in short (`digest.rs`) for the timeline and the matrix of ranks. What takes a
//! processor's time is done beside the threads that answer (`work.rs`). HTML is made here (`pages/`), so
//! that one place escapes it; scripts (`assets/`) draw curves and replace parts of the page. Nothing is ever written, and
//! what cannot be read is a part that says so.

mod access;
mod aged;
mod answer;
mod api;
mod assets;
mod clocks;
mod curves;
mod digest;
mod docs;
mod ends;
mod error;
mod events;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod grid;
mod judged;
mod matrix;
mod moment;
mod pages;
mod patience;
mod query;
mod routes;
mod runs;
mod server;
mod shelf;
mod timeline;
mod view;
mod work;

pub use access::Token;
pub use error::ViewError;
#[cfg(feature = "fuzzing")]
pub use fuzzing::Unserved;
pub use server::Server;
pub use view::{Shown, View};
