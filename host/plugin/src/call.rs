//! One call into a guest: bounded in time, and what its end means.

use std::future::Future;
use std::time::Duration;

use wasmtime::Store;

use crate::engine::Ticker;
use crate::failure::Failure;
use crate::guest::Guest;

/// What a call may write and log counts from here.
pub(crate) fn begin_call(store: &mut Store<Guest>) {
    let guest = store.data_mut();
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

pub(crate) fn settle<T>(store: &Store<Guest>, called: Called<T>) -> Result<T, Failure> {
    let guest = store.data();
    match called {
        Called::Returned(result) => {
            result.map_err(|error| Failure::trapped(&error, &guest.memory, &guest.words))
        }
        Called::OutOfTime(deadline) => Err(Failure::out_of_time(deadline, &guest.words)),
    }
}
