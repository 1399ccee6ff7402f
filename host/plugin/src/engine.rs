//! The WebAssembly engine: its settings, what guests may import, and the clock that interrupts them.

mod config;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wasmtime::EngineWeak;
use wasmtime::component::Linker;

use crate::guest::Guest;
use crate::interface;

const TICK: Duration = Duration::from_millis(10);

/// Returns an engine with the settings that bound a guest.
pub(crate) fn engine() -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(&config::config())
}

/// Returns what guests of both worlds may import: WASI 0.2 without anything behind it, and our own interfaces.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    // Never the variant for synchronous hosts: it panics inside tokio.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    interface::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Advances the engine's epoch every 10 ms while a guest runs, and sleeps otherwise: an idle collector must not wake
/// a hundred times a second. A thread, because a guest holds the thread that it runs on.
#[derive(Debug)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    changed: Condvar,
    phase: Mutex<Phase>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// So many calls are under way.
    Running(usize),
    Closed,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Running(0)
    }
}

/// The epoch advances as long as this lives.
#[derive(Debug)]
pub(crate) struct Ticking<'a>(&'a Shared);

impl Ticker {
    /// Starts the thread, asleep.
    pub(crate) fn start(engine: EngineWeak) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("plugin-ticker".to_owned())
            .spawn(move || ours.tick(&engine))?;
        Ok(Self(shared))
    }

    /// Lets it tick until the returned value is dropped.
    pub(crate) fn run(&self) -> Ticking<'_> {
        self.0.change(|phase| match phase {
            Phase::Running(calls) => Phase::Running(calls + 1),
            Phase::Closed => Phase::Closed,
        });
        Ticking(&self.0)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.change(|_| Phase::Closed);
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.change(|phase| match phase {
            Phase::Running(calls) => Phase::Running(calls.saturating_sub(1)),
            Phase::Closed => Phase::Closed,
        });
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(Phase) -> Phase) {
        let mut phase = self.phase();
        *phase = change(*phase);
        self.changed.notify_all();
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, engine: &EngineWeak) {
        let mut phase = self.phase();
        loop {
            phase = match *phase {
                Phase::Closed => return,
                Phase::Running(0) => self
                    .changed
                    .wait(phase)
                    .unwrap_or_else(PoisonError::into_inner),
                Phase::Running(_) => {
                    let waited = self.changed.wait_timeout(phase, TICK);
                    if let Some(engine) = engine.upgrade() {
                        engine.increment_epoch();
                    }
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
