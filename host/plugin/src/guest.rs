//! The host's side of one instance: what its store holds, and what it is given while a call runs.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::document::Document;
use crate::entry::Entry;
use crate::grants::Grants;
use crate::interface::{Log, State};
use crate::limits::{self, Memory};
use crate::words::Words;

/// The data of a guest's store.
pub(crate) struct Guest {
    /// What the present call is about; nothing outside a call.
    pub(crate) document: Option<Arc<Document>>,
    pub(crate) grants: Grants,
    pub(crate) log: Log,
    pub(crate) memory: Memory,
    pub(crate) state: State,
    pub(crate) words: Words,
    table: ResourceTable,
    wasi: WasiCtx,
}

impl Guest {
    /// Returns a store for an instance of `entry`, with its limits set.
    pub(crate) fn store(engine: &wasmtime::Engine, entry: &Entry, state: State) -> Store<Self> {
        let words = Words::default();
        // No arguments, no environment, no directories, no addresses: only clocks and random numbers are real.
        let wasi = WasiCtxBuilder::new()
            .stdout(words.clone())
            .stderr(words.clone())
            .build();
        let guest = Self {
            document: None,
            grants: Grants::new(entry.environment.clone()),
            log: Log::new(&entry.instance),
            memory: Memory::new(entry.memory_bytes),
            state,
            words,
            table: ResourceTable::new(),
            wasi,
        };
        let mut store = Store::new(engine, guest);
        store.limiter(|guest| &mut guest.memory);
        // A busy guest lets go of the thread every tick, so that its deadline can be seen.
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_hostcall_fuel(limits::HANDED_OVER_BYTES);
        store.set_max_component_handles(limits::HANDLES);
        store
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}
