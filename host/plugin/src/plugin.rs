//! One plugin: its component, the instance that is kept between snapshots, and what happens after a failure.

mod deliver;
mod enrich;
mod reload;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome};
use wasmtime::Store;
use wasmtime::component::InstancePre;

pub(crate) use deliver::Written;

use crate::bindings::Base;
use crate::call::{begin_call, settle, timed};
use crate::convert;
use crate::engine::Ticker;
use crate::entry::{About, Description, Entry};
use crate::failure::{Failure, Then};
use crate::guest::Guest;
use crate::interface::State;
use crate::load::Loaded;
use crate::report::Report;
use crate::sink::Outside;
use crate::world::Exports;
use crate::{limits, requires};

/// One entry of the settings and what became of it; an instance of it is of the world `W`.
pub(crate) struct Plugin<W> {
    about: Arc<About>,
    component: Loading,
    description: Option<Description>,
    entry: Entry,
    failures: u32,
    last_failure: Option<Failure>,
    /// What its file became after it was loaded; it takes over at the next snapshot.
    next: Option<Loaded>,
    /// What a sink may do outside.
    outside: Option<Arc<Outside>>,
    report: Report,
    rest_until: Option<Instant>,
    running: Option<Running<W>>,
    /// Why what its file became is not what runs.
    stale: Option<String>,
    /// The values of its `state` while no instance runs.
    state: State,
}

/// How far the component is.
pub(crate) enum Loading {
    /// It is being compiled.
    Compiling,
    /// It is ready.
    Ready(InstancePre<Guest>),
    /// It cannot be used any more.
    Disabled(Failure),
}

/// A live instance. In no other state than after a call that returned: everything else is thrown away.
pub(crate) struct Running<W> {
    pub(crate) calls: u32,
    /// Linear memory after its start, bytes.
    initial: usize,
    pub(crate) store: Store<Guest>,
    pub(crate) world: W,
}

impl<W: Exports> Plugin<W> {
    pub(crate) fn new(entry: Entry, outside: Option<Arc<Outside>>, about: Arc<About>) -> Self {
        Self {
            about,
            component: Loading::Compiling,
            description: None,
            entry,
            failures: 0,
            last_failure: None,
            next: None,
            outside,
            report: Report::default(),
            rest_until: None,
            running: None,
            stale: None,
            state: State::default(),
        }
    }

    pub(crate) fn is_compiling(&self) -> bool {
        matches!(self.component, Loading::Compiling)
    }

    pub(crate) fn instance(&self) -> &str {
        &self.entry.instance
    }

    /// Takes what loading gave, at the start or after its file changed.
    pub(crate) fn loaded(&mut self, result: Loaded) {
        if self.is_compiling() {
            self.component = match result {
                Ok(component) => Loading::Ready(component),
                Err(message) => Loading::Disabled(Failure::load(message)),
            };
        } else {
            self.next = Some(result);
        }
    }

    /// Starts an instance if there is none, and returns what the plugin says about itself.
    pub(crate) async fn describe(&mut self, ticker: &Ticker) -> Result<Description, String> {
        self.take_over(ticker).await;
        if let Loading::Disabled(failure) = &self.component {
            return Err(failure.message.clone());
        }
        if self.is_compiling() {
            return Err("it is still being compiled".to_owned());
        }
        if self.running.is_none()
            && let Err(failure) = self.start(ticker).await
        {
            let message = failure.message.clone();
            self.failed(failure);
            return Err(message);
        }
        self.description
            .clone()
            .ok_or_else(|| "it does not describe itself".to_owned())
    }

    fn outcome(&self, kind: OutcomeKind) -> PluginOutcome {
        PluginOutcome {
            annotations: 0,
            duration_us: None,
            findings: 0,
            instance: self.entry.instance.clone(),
            memory_bytes: None,
            message: None,
            outcome: kind,
            sink: None,
            version: self
                .description
                .as_ref()
                .map(|description| description.version.clone()),
        }
    }

    /// Writes into `outcome` what a call cost that began at `begun`.
    fn measure(&self, outcome: &mut PluginOutcome, begun: Instant) {
        outcome.duration_us = u64::try_from(begun.elapsed().as_micros()).ok();
        outcome.version = self
            .description
            .as_ref()
            .map(|description| description.version.clone());
        outcome.memory_bytes = self
            .running
            .as_ref()
            .and_then(|running| u64::try_from(running.store.data().memory.used).ok());
    }

    /// Why it is not called now.
    fn waiting(&mut self) -> Option<(OutcomeKind, Option<String>)> {
        match &self.component {
            Loading::Compiling => {
                return Some((
                    OutcomeKind::NotReady,
                    Some("it is still being compiled".to_owned()),
                ));
            }
            Loading::Disabled(failure) => {
                let (kind, message) = (failure.kind, failure.message.clone());
                let mut outcome = self.outcome(kind);
                outcome.message = Some(message.clone());
                self.report.tell(&outcome);
                return Some((kind, Some(message)));
            }
            Loading::Ready(_) => {}
        }
        if self.rest_until.is_some_and(|until| Instant::now() < until) {
            let last = self
                .last_failure
                .as_ref()
                .map(|failure| failure.message.as_str())
                .unwrap_or_default();
            let failures = match self.failures {
                1 => "a failure".to_owned(),
                count => format!("{count} failures in a row, the last"),
            };
            let message = match rest_after(self.failures) {
                limits::DISABLED => format!("it rests for 10 minutes after {failures}: {last}"),
                _ => format!("it rests after {failures}: {last}"),
            };
            return Some((OutcomeKind::BackedOff, Some(message)));
        }
        None
    }

    async fn start(&mut self, ticker: &Ticker) -> Result<(), Failure> {
        let Loading::Ready(component) = &self.component else {
            return Err(Failure::load("it is not loaded".to_owned()));
        };
        let component = component.clone();
        let state = std::mem::take(&mut self.state);
        match self.start_new(&component, state, ticker).await {
            Ok((running, description)) => {
                (self.description, self.running) = (Some(description), Some(running));
                Ok(())
            }
            Err((failure, state)) => {
                self.state = state;
                Err(failure)
            }
        }
    }

    /// Makes an instance of `component`, asks it what it is and gives it its settings. A failure gives `state` back.
    async fn start_new(
        &self,
        component: &InstancePre<Guest>,
        state: State,
        ticker: &Ticker,
    ) -> Result<(Running<W>, Description), (Failure, State)> {
        let deadline = self.entry.deadline;
        let resumed = !state.is_empty();
        let begun = Instant::now();
        let outside = self.outside.clone();
        let mut store = match Guest::store(component.engine(), &self.entry, outside, state) {
            Ok(store) => store,
            Err((message, state)) => return Err((Failure::settings(message), state)),
        };
        let started = async {
            let instance = timed(ticker, deadline, component.instantiate_async(&mut store)).await;
            let instance = settle(&store, instance)?;
            let instantiated = begun.elapsed();
            let unfit = |error: wasmtime::Error| Failure::load(error.root_cause().to_string());
            let base = Base::new(&mut store, &instance).map_err(unfit)?;
            let world = W::find(&mut store, &instance).map_err(unfit)?;
            begin_call(&mut store, deadline);
            let plugin = base.taskscope_plugin_plugin();
            let said = timed(ticker, deadline, plugin.call_describe(&mut store)).await;
            let said = convert::description(settle(&store, said)?);
            requires::check(&said, &self.entry, self.outside.as_deref())
                .map_err(Failure::settings)?;
            begin_call(&mut store, deadline);
            let context = convert::context(&self.entry, &self.about, resumed);
            let init = timed(ticker, deadline, plugin.call_init(&mut store, &context)).await;
            settle(&store, init)?.map_err(|error| Failure::refused(&error))?;
            tracing::debug!(plugin = %self.entry.instance, ?instantiated, elapsed = ?begun.elapsed(), "Plugin started.");
            Ok((world, said))
        };
        match started.await {
            Ok((world, said)) => {
                let running = Running {
                    calls: 0,
                    initial: store.data().memory.used,
                    store,
                    world,
                };
                Ok((running, said))
            }
            Err(failure) => Err((failure, store.into_data().state)),
        }
    }

    /// Whether the instance is to be thrown away: linear memory never shrinks.
    fn is_worn(&self) -> bool {
        self.running.as_ref().is_some_and(|running| {
            let memory = &running.store.data().memory;
            let has_grown = memory.used > running.initial.saturating_mul(limits::GROWTH);
            running.calls >= limits::CALLS || memory.is_nearly_full() || has_grown
        })
    }

    fn discard(&mut self) {
        if let Some(running) = self.running.take() {
            self.state = running.store.into_data().state;
        }
    }

    fn succeeded(&mut self) {
        (self.failures, self.rest_until, self.last_failure) = (0, None, None);
    }

    fn failed(&mut self, failure: Failure) {
        match failure.then {
            Then::Keep(rest) => self.rest_until = (!rest.is_zero()).then(|| Instant::now() + rest),
            Then::Replace => {
                self.discard();
                self.failures = self.failures.saturating_add(1);
                self.rest_until = Some(Instant::now() + rest_after(self.failures));
                if self.failures >= limits::FAILURES {
                    let (plugin, failures) = (&self.entry.instance, self.failures);
                    let message = &failure.message;
                    tracing::warn!(
                        "Plugin {plugin} failed {failures} times in a row and rests for 10 minutes: {message}."
                    );
                    for line in &failure.trail {
                        tracing::warn!("Plugin {plugin}: {line}");
                    }
                }
            }
            Then::Disable => {
                self.discard();
                self.component = Loading::Disabled(failure.clone());
            }
        }
        self.last_failure = Some(failure);
    }
}

/// One second, doubled with every failure in a row; from the fifth on ten minutes.
fn rest_after(failures: u32) -> Duration {
    if failures >= limits::FAILURES {
        return limits::DISABLED;
    }
    Duration::from_secs(2_u64.saturating_pow(failures.saturating_sub(1)))
}

#[cfg(test)]
mod tests;
