//! The two worlds of `wit/`: what an instance exports besides `plugin`, which both have.

use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::enricher::{Enricher, EnricherPre};
use crate::bindings::sink::exports::taskscope::plugin::deliver::CloseReason;
use crate::bindings::sink::{Sink, SinkPre};
use crate::call::{begin_call, timed};
use crate::contract::World;
use crate::engine::Ticker;
use crate::guest::Guest;

/// What an instance of one world exports.
pub(crate) trait Exports: Sized {
    /// The world.
    const WORLD: World;

    /// Tells whether `component` exports what the world asks for.
    fn check(component: &InstancePre<Guest>) -> wasmtime::Result<()>;

    /// Finds the exports of `instance`.
    fn find(store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Self>;

    /// Bids an instance farewell that another one has taken over from.
    async fn leave(&mut self, store: &mut Store<Guest>, ticker: &Ticker, deadline: Duration);
}

impl Exports for Enricher {
    const WORLD: World = World::Enricher;

    fn check(component: &InstancePre<Guest>) -> wasmtime::Result<()> {
        EnricherPre::new(component.clone()).map(drop)
    }

    fn find(store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Self> {
        Self::new(store, instance)
    }

    async fn leave(&mut self, _: &mut Store<Guest>, _: &Ticker, _: Duration) {}
}

/// An instance of the world `sink`.
pub(crate) struct Outlet {
    pub(crate) exports: Sink,
    /// Whether `open` was called and went well.
    pub(crate) is_open: bool,
}

impl Exports for Outlet {
    const WORLD: World = World::Sink;

    fn check(component: &InstancePre<Guest>) -> wasmtime::Result<()> {
        SinkPre::new(component.clone()).map(drop)
    }

    fn find(store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Self> {
        Ok(Self {
            exports: Sink::new(store, instance)?,
            is_open: false,
        })
    }

    /// What it kept back goes out first. What goes wrong here is lost with it.
    async fn leave(&mut self, store: &mut Store<Guest>, ticker: &Ticker, deadline: Duration) {
        if !self.is_open {
            return;
        }
        let deliver = self.exports.taskscope_plugin_deliver();
        begin_call(store, deadline);
        let flushed = timed(ticker, deadline, deliver.call_flush(&mut *store)).await;
        if !flushed.has_returned() {
            return; // it can never be entered again
        }
        begin_call(store, deadline);
        let close = deliver.call_close(&mut *store, CloseReason::Reload);
        timed(ticker, deadline, close).await;
    }
}
