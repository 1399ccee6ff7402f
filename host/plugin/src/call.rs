//! One call into a guest: bounded in time, and what its end means.

use std::future::Future;
use std::time::{Duration, Instant};

use wasmtime::Store;

use crate::engine::Ticker;
use crate::failure::Failure;
use crate::guest::Guest;

/// What a guest has left in one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// When the call ends at the latest.
    pub(crate) until: Instant,
    /// How many requests it has sent.
    pub(crate) requests: u32,
}

impl Allowance {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self {
            until: Instant::now() + deadline,
            requests: 0,
        }
    }

    /// How long the host may be at work for the guest: nine tenths of what is left, so that the guest has time to say
    /// what happened.
    pub(crate) fn patience(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now()) * 9 / 10
    }
}

/// What a call may write, log and send counts from here.
pub(crate) fn begin_call(store: &mut Store<Guest>, deadline: Duration) {
    let guest = store.data_mut();
    guest.allowance = Allowance::new(deadline);
    guest.words.clear();
    let dropped = guest.log.begin();
    if dropped > 0 {
        tracing::debug!(
            dropped,
            "Lines that a plugin logged over its limit were dropped."
        );
    }
}

/// Runs a call with the epoch ticking. `None`: the deadline passed, and the instance is unusable.
pub(crate) async fn timed<T>(
    ticker: &Ticker,
    deadline: Duration,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> Called<T> {
    let _ticking = ticker.run();
    match tokio::time::timeout(deadline, call).await {
        Ok(result) => Called::Returned(result),
        Err(_) => Called::OutOfTime(deadline),
    }
}

/// How a call into a guest ended.
pub(crate) enum Called<T> {
    Returned(wasmtime::Result<T>),
    OutOfTime(Duration),
}

impl<T> Called<T> {
    /// Whether the instance can be entered again.
    pub(crate) fn has_returned(&self) -> bool {
        matches!(self, Self::Returned(Ok(_)))
    }
}

pub(crate) fn settle<T>(store: &Store<Guest>, called: Called<T>) -> Result<T, Failure> {
    let guest = store.data();
    match called {
        Called::Returned(result) => {
            result.map_err(|error| Failure::trapped(&error, &guest.memory, &guest.words))
        }
        Called::OutOfTime(deadline) => Err(Failure::out_of_time(deadline, &guest.words)),
    }
}
