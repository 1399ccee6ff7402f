//! The interfaces that guests import: one file each.

mod log;
mod snapshot;
mod state;

use wasmtime::component::{HasData, Linker};

use crate::bindings::taskscope::plugin as wit;
use crate::guest::Guest;

pub(crate) use log::Log;
pub(crate) use state::State;

/// Adds all of them to `linker`.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<_, Types>(linker, |_| Types)?;
    log::add_to_linker(linker)?;
    snapshot::add_to_linker(linker)?;
    state::add_to_linker(linker)
}

/// The interface `types` has no functions.
struct Types;

impl HasData for Types {
    type Data<'a> = Self;
}

impl wit::types::Host for Types {}
