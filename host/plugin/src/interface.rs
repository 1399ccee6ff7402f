//! The interfaces that guests import: one file each.

mod http;
mod log;
mod snapshot;
mod state;
mod storage;

use wasmtime::component::{HasData, Linker};

use crate::bindings::taskscope::plugin as wit;
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::guest::Guest;

pub(crate) use log::Log;
pub(crate) use state::State;

/// Adds those of every plugin to `linker`.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<_, Types>(linker, |_| Types)?;
    log::add_to_linker(linker)?;
    snapshot::add_to_linker(linker)?;
    state::add_to_linker(linker)
}

/// Adds those of sinks alone.
pub(crate) fn add_those_of_sinks(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    http::add_to_linker(linker)?;
    storage::add_to_linker(linker)
}

/// Returns an error for a guest.
pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error {
        kind,
        message: message.into(),
        retry_after_ms: None,
    }
}

/// The interface `types` has no functions.
struct Types;

impl HasData for Types {
    type Data<'a> = Self;
}

impl wit::types::Host for Types {}
