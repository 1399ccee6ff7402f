//! What is special about a sink: it is opened, given one snapshot after the other, and closed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome};

use super::{Loading, Plugin, Running};
use crate::bindings::sink::exports::taskscope::plugin::deliver::{CloseReason, Receipt};
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::call::{begin_call, settle, timed};
use crate::document::Document;
use crate::engine::Ticker;
use crate::failure::{Failure, Then};
use crate::limits;
use crate::world::{Exports, Outlet};

/// What became of a snapshot.
pub(crate) enum Written {
    /// It went its way.
    Taken(Receipt),
    /// It is to be tried again, after this rest where the sink names one.
    Again(Failure, Option<Duration>),
    /// The sink does not want it.
    Refused(Failure),
    /// The instance is gone.
    Crashed(Failure),
    /// The sink is not called any more.
    Disabled(Failure),
}

impl Written {
    /// Returns why the snapshot did not go its way.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Taken(_) => None,
            Self::Again(failure, _)
            | Self::Refused(failure)
            | Self::Crashed(failure)
            | Self::Disabled(failure) => Some(failure),
        }
    }
}

impl Plugin<Outlet> {
    /// Gives the sink a snapshot, after all that has to come before. Each call takes `most` or its deadline.
    pub(crate) async fn write(
        &mut self,
        document: &Arc<Document>,
        ticker: &Ticker,
        most: Duration,
    ) -> Written {
        let deadline = self.entry.deadline.min(most);
        if self.is_worn() {
            if let Some(Running { store, world, .. }) = &mut self.running {
                world.leave(store, ticker, deadline).await;
            }
            self.discard();
        }
        if self.running.is_none()
            && let Err(failure) = self.start(ticker).await
        {
            return self.not_begun(failure);
        }
        if let Err(written) = self.open(ticker, deadline).await {
            return written;
        }
        let Some(running) = &mut self.running else {
            return self.not_begun(Failure::load("it did not start".to_owned()));
        };
        running.calls += 1;
        let store = &mut running.store;
        store.data_mut().document = Some(Arc::clone(document));
        begin_call(store, deadline);
        let deliver = running.world.exports.taskscope_plugin_deliver();
        let called = timed(ticker, deadline, deliver.call_write(&mut *store)).await;
        store.data_mut().document = None;
        match settle(store, called) {
            Ok(Ok(receipt)) => {
                self.succeeded();
                Written::Taken(receipt)
            }
            Ok(Err(error)) => self.refused(&error),
            Err(failure) => self.crashed(failure),
        }
    }

    /// Opens the instance where that was not done.
    async fn open(&mut self, ticker: &Ticker, deadline: Duration) -> Result<(), Written> {
        let Some(Running { store, world, .. }) = &mut self.running else {
            return Ok(());
        };
        if world.is_open {
            return Ok(());
        }
        begin_call(store, deadline);
        let deliver = world.exports.taskscope_plugin_deliver();
        let called = timed(ticker, deadline, deliver.call_open(&mut *store)).await;
        match settle(store, called) {
            Ok(Ok(())) => {
                world.is_open = true;
                Ok(())
            }
            Ok(Err(error)) => Err(match self.refused(&error) {
                // The snapshot is not to blame.
                Written::Refused(failure) => Written::Again(failure, None),
                other => other,
            }),
            Err(failure) => Err(self.crashed(failure)),
        }
    }

    /// Lets out what is kept back, and says good-bye. Returns why it did not flush; what goes wrong later is in the log.
    pub(crate) async fn close(&mut self, ticker: &Ticker, most: Duration) -> Result<(), Failure> {
        let deadline = self.entry.deadline.min(most / 2);
        let Some(Running { store, world, .. }) = &mut self.running else {
            return Ok(());
        };
        if !world.is_open {
            return Ok(());
        }
        let deliver = world.exports.taskscope_plugin_deliver();
        begin_call(store, deadline);
        let called = timed(ticker, deadline, deliver.call_flush(&mut *store)).await;
        let flushed = settle(store, called)?.map_err(|error| Failure::refused(&error));
        begin_call(store, deadline);
        let close = deliver.call_close(&mut *store, CloseReason::TaskExit);
        let closed = timed(ticker, deadline, close).await;
        if let Err(failure) = settle(store, closed) {
            let plugin = &self.entry.instance;
            tracing::debug!(%plugin, reason = failure.message, "A sink did not close.");
        }
        flushed
    }

    /// Whether it can be called, but for a rest.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.component, Loading::Ready(_))
    }

    /// Why it is not called any more.
    pub(crate) fn disabled(&self) -> Option<&Failure> {
        match &self.component {
            Loading::Disabled(failure) => Some(failure),
            Loading::Compiling | Loading::Ready(_) => None,
        }
    }

    /// When it may be called again after a crash.
    pub(crate) fn rest_until(&self) -> Option<Instant> {
        self.rest_until
    }

    /// Returns how it is before it was called.
    pub(crate) fn untried(&self) -> PluginOutcome {
        let mut outcome = self.outcome(OutcomeKind::Ok);
        match &self.component {
            Loading::Compiling => {
                outcome.outcome = OutcomeKind::NotReady;
                outcome.message = Some("it is still being compiled".to_owned());
            }
            Loading::Disabled(failure) => {
                outcome.outcome = failure.kind;
                outcome.message = Some(failure.message.clone());
            }
            Loading::Ready(_) => {}
        }
        outcome
    }

    /// Returns how it is after a call that began at `begun`; tells of it where it is news.
    pub(crate) fn tried(&mut self, written: &Written, begun: Instant) -> PluginOutcome {
        let mut outcome = self.judged(written, begun);
        self.report.tell(&outcome);
        self.add_stale(&mut outcome);
        outcome
    }

    /// Returns how it is after a call that began at `begun`.
    pub(crate) fn judged(&self, written: &Written, begun: Instant) -> PluginOutcome {
        let mut outcome = self.outcome(OutcomeKind::Ok);
        self.measure(&mut outcome, begun);
        if let Some(failure) = written.failure() {
            outcome.outcome = failure.kind;
            outcome.message = Some(failure.message.clone());
        }
        outcome
    }

    /// Tells of what made loading it fail, once.
    pub(crate) fn tell_untried(&mut self) -> PluginOutcome {
        let mut outcome = self.untried();
        if self.disabled().is_some() {
            self.report.tell(&outcome);
        }
        self.add_stale(&mut outcome);
        outcome
    }

    fn refused(&mut self, error: &Error) -> Written {
        let failure = Failure::refused(error);
        match error.kind {
            ErrorKind::Config => {
                self.failed(failure.clone());
                Written::Disabled(failure)
            }
            ErrorKind::Unavailable => {
                let rest = error
                    .retry_after_ms
                    .map(|rest| Duration::from_millis(rest.into()));
                Written::Again(failure, rest.map(|rest| rest.min(limits::LONGEST_REST)))
            }
            ErrorKind::Rejected | ErrorKind::Denied | ErrorKind::Limit | ErrorKind::Internal => {
                self.succeeded(); // as an instance
                Written::Refused(failure)
            }
        }
    }

    fn crashed(&mut self, failure: Failure) -> Written {
        self.failed(failure.clone());
        Written::Crashed(failure)
    }

    /// Judges what went wrong before the sink was given anything.
    fn not_begun(&mut self, failure: Failure) -> Written {
        match failure.then {
            Then::Disable => {
                self.failed(failure.clone());
                Written::Disabled(failure)
            }
            Then::Replace => self.crashed(failure),
            Then::Keep(rest) => Written::Again(failure, (!rest.is_zero()).then_some(rest)),
        }
    }
}
