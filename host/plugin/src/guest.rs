//! The host's side of one instance: what its store holds, and what it is given while a call runs.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::call::Allowance;
use crate::document::Document;
use crate::entry::Entry;
use crate::grants::Grants;
use crate::interface::{Log, State};
use crate::limits::{self, Memory};
use crate::sink::Outside;
use crate::words::Words;

/// The data of a guest's store.
pub(crate) struct Guest {
    /// What the present call has left.
    pub(crate) allowance: Allowance,
    /// What the present call is about; nothing outside a call.
    pub(crate) document: Option<Arc<Document>>,
    pub(crate) grants: Grants,
    /// The name of its entry.
    pub(crate) instance: String,
    pub(crate) log: Log,
    pub(crate) memory: Memory,
    /// What a sink may do outside; an enricher may do nothing.
    pub(crate) outside: Option<Arc<Outside>>,
    pub(crate) state: State,
    pub(crate) words: Words,
    table: ResourceTable,
    wasi: WasiCtx,
}

impl Guest {
    /// Returns a store for an instance of `entry`, with its limits set. An error says what of its settings does not do,
    /// and gives `state` back.
    pub(crate) fn store(
        engine: &wasmtime::Engine,
        entry: &Entry,
        outside: Option<Arc<Outside>>,
        state: State,
    ) -> Result<Store<Self>, (String, State)> {
        let words = Words::default();
        // No arguments, no environment, no addresses, no directories but those that are granted: only clocks and random
        // numbers are real.
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdout(words.clone()).stderr(words.clone());
        if let Some(outside) = &outside
            && let Err(message) = outside.open_directories(&mut wasi)
        {
            return Err((message, state));
        }
        let guest = Self {
            allowance: Allowance::new(entry.deadline),
            document: None,
            grants: Grants::new(entry.environment.clone()),
            instance: entry.instance.clone(),
            log: Log::new(&entry.instance),
            memory: Memory::new(entry.memory_bytes),
            outside,
            state,
            words,
            table: ResourceTable::new(),
            wasi: wasi.build(),
        };
        let mut store = Store::new(engine, guest);
        store.limiter(|guest| &mut guest.memory);
        // A busy guest lets go of the thread every tick, so that its deadline can be seen.
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_hostcall_fuel(limits::HANDED_OVER_BYTES);
        store.set_max_component_handles(limits::HANDLES);
        Ok(store)
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
