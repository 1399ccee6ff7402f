//! What every store's operator is wrapped in: a timeout for each attempt, tries with growing waits, a limit on what
//! goes on at a time, and a log.

use std::time::Duration;

use opendal::layers::{
    ConcurrentLimitLayer, LoggingInterceptor, LoggingLayer, RetryEvent, RetryLayer, TimeoutLayer,
};
use opendal::raw::{Operation, ServiceInfo};
use opendal::{Error, ErrorKind, Operator};

use crate::Fault;

/// How long one attempt at one operation may take.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts after the first; longer outages are the spool's business.
const RETRIES: usize = 3;
const SHORTEST_RETRY_DELAY: Duration = Duration::from_millis(100);
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Operations of one store at a time.
pub(crate) const CONCURRENT_OPERATIONS: usize = 8;

/// Adds the layers. The first is the innermost: each attempt is timed out, then retried, and all attempts of an
/// operation hold one permit and are one line of the log. The other way round a timeout would drop a retry in the
/// middle. What is retried is what the service marks as temporary: 429, 500, 502, 503, 504, S3's `SlowDown` and
/// `RequestTimeout` (a 400), connections that are refused or cut, and what takes too long.
pub(crate) fn layered(operator: Operator) -> Operator {
    let timeout = TimeoutLayer::new()
        .with_timeout(ATTEMPT_TIMEOUT)
        .with_io_timeout(ATTEMPT_TIMEOUT);
    let retry = RetryLayer::new()
        .with_max_times(RETRIES)
        .with_min_delay(SHORTEST_RETRY_DELAY)
        .with_max_delay(LONGEST_RETRY_DELAY)
        .with_jitter()
        .with_notify(|event: RetryEvent<'_>| {
            tracing::debug!(
                operation = ?event.op,
                attempt = event.attempt,
                error = %Fault::of(event.err),
                "The store failed; trying again."
            );
        });
    operator
        .layer(timeout)
        .layer(retry)
        .layer(ConcurrentLimitLayer::new(CONCURRENT_OPERATIONS))
        .layer(LoggingLayer::new(Log))
}

/// Sends the log of operations to `tracing`; queries of URLs do not reach it.
#[derive(Clone, Copy, Debug)]
struct Log;

impl LoggingInterceptor for Log {
    fn log(
        &self,
        _: &ServiceInfo,
        operation: Operation,
        context: &[(&str, &str)],
        message: &str,
        error: Option<&Error>,
    ) {
        let path = context.iter().find(|(name, _)| *name == "path");
        let path = path.map_or("", |(_, path)| *path);
        match error {
            Some(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(?operation, path, error = %Fault::of(error), "A store operation failed.");
            }
            _ => tracing::trace!(?operation, path, message, "A store operation."),
        }
    }
}
