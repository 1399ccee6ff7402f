//! A sink tried out: called as in a run, with nothing outside.

use std::io::PipeWriter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome, Snapshot};
use serde::Serialize;

use super::Outside;
use crate::compiler::Compiler;
use crate::document::Document;
use crate::engine::{self, Ticker};
use crate::entry::{About, Entry};
use crate::interface;
use crate::load::Loader;
use crate::plugin::{Plugin, Written};
use crate::world::Outlet;

/// A call that nothing cuts short but the deadline of its entry.
const UNBOUNDED: Duration = Duration::from_hours(24);

/// One sink with nothing outside: requests are answered `denied`, there is no storage and no directory.
pub struct Rehearsal {
    outside: Arc<Outside>,
    plugin: Plugin<Outlet>,
    ticker: Ticker,
    /// What is being compiled is given up when this is dropped.
    _closing: PipeWriter,
}

/// What a sink did with one snapshot, or at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rehearsed {
    /// Messages that it says it delivered.
    pub delivered: u32,
    /// Whether it cannot be called any more.
    pub is_over: bool,
    /// The requests that it made and that were not sent.
    pub kept_back: Vec<String>,
    /// How the call ended.
    pub outcome: PluginOutcome,
    /// What it says it had no reason to deliver.
    pub skipped: u32,
}

impl Rehearsal {
    /// Loads the component of `entry`; compiles it where that was not done. Blocks. What cannot be loaded shows up as an
    /// outcome.
    pub fn load(entry: Entry, about: About, compiler: Compiler) -> Result<Self, String> {
        Self::begin(entry, about, compiler).map_err(|error| error.root_cause().to_string())
    }

    fn begin(entry: Entry, about: About, compiler: Compiler) -> wasmtime::Result<Self> {
        let engine = engine::engine()?;
        let ticker = Ticker::start(engine.weak())?;
        let mut linker = engine::linker(&engine)?;
        interface::add_those_of_sinks(&mut linker)?;
        let (closing, closer) = std::io::pipe()?;
        let outside = Arc::new(Outside::rehearsal());
        let shared = Some(Arc::clone(&outside));
        let mut plugin = Plugin::new(entry.clone(), shared, Arc::new(about));
        let mut loader = Loader::new::<Outlet>(engine, linker, compiler, vec![entry], closing);
        let embedded = loader.load_embedded().pop();
        plugin.loaded(match embedded {
            Some((_, loaded)) => loaded,
            None => loader.load(0),
        });
        Ok(Self {
            outside,
            plugin,
            ticker,
            _closing: closer,
        })
    }

    /// Gives the sink a snapshot: opens it before the first, and calls `write`.
    pub async fn write(&mut self, snapshot: Snapshot) -> Rehearsed {
        let document = Arc::new(Document::new(Arc::new(snapshot)));
        let begun = Instant::now();
        if let Some(failure) = self.plugin.disabled() {
            let written = Written::Disabled(failure.clone());
            return self.rehearsed(&written, begun);
        }
        let written = self.plugin.write(&document, &self.ticker, UNBOUNDED).await;
        self.rehearsed(&written, begun)
    }

    /// Calls `flush` and `close`, as at the end of a task.
    pub async fn close(mut self) -> Rehearsed {
        let begun = Instant::now();
        let mut rehearsed = Rehearsed {
            delivered: 0,
            is_over: true,
            kept_back: Vec::new(),
            outcome: self.plugin.untried(),
            skipped: 0,
        };
        if let Err(failure) = self.plugin.close(&self.ticker, UNBOUNDED).await {
            rehearsed.outcome.outcome = failure.kind;
            rehearsed.outcome.message = Some(failure.message);
        }
        rehearsed.outcome.duration_us = u64::try_from(begun.elapsed().as_micros()).ok();
        rehearsed.kept_back = self.outside.take_kept_back();
        rehearsed
    }

    fn rehearsed(&self, written: &Written, begun: Instant) -> Rehearsed {
        let (delivered, skipped) = match written {
            Written::Taken(receipt) => (receipt.delivered, receipt.skipped),
            _ => (0, 0),
        };
        Rehearsed {
            delivered,
            is_over: matches!(written, Written::Crashed(_) | Written::Disabled(_)),
            kept_back: self.outside.take_kept_back(),
            outcome: self.plugin.judged(written, begun),
            skipped,
        }
    }
}

impl Rehearsed {
    /// Why the call failed, unless that was to be expected because a request was kept back.
    pub fn failure(&self) -> Option<&str> {
        let is_well = self.outcome.outcome == OutcomeKind::Ok
            || self.outcome.outcome == OutcomeKind::Refused && !self.kept_back.is_empty();
        let message = self.outcome.message.as_deref();
        (!is_well).then(|| message.unwrap_or("it does not say why"))
    }
}
