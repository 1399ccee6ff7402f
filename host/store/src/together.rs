//! Several requests at a time, not all at once: what comes back is handed over as it comes. And work beside them.

use std::future::Future;

use tokio::task::{JoinError, JoinSet};

use crate::{Store, StoreError};

/// Requests under way at a time.
const AT_A_TIME: usize = 32;

/// Requests under way. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Together<T>(JoinSet<T>);

impl<T: Send + 'static> Default for Together<T> {
    fn default() -> Self {
        Self(JoinSet::new())
    }
}

impl<T: Send + 'static> Together<T> {
    /// Starts `work`, after waiting for another to end where enough are under way; returns what that one gave.
    pub(crate) async fn add(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let ended = if self.0.len() >= AT_A_TIME {
            self.next().await
        } else {
            None
        };
        self.0.spawn(work);
        ended
    }

    /// Returns what the next to end gives; `None` where nothing is under way.
    pub(crate) async fn next(&mut self) -> Option<T> {
        // What a runtime that is closed has ended gives nothing, and nobody waits for it any more.
        while let Some(joined) = self.0.join_next().await {
            if let Ok(one) = finished(joined) {
                return Some(one);
            }
        }
        None
    }

    /// Returns what all that are under way give, as they end.
    pub(crate) async fn rest(mut self) -> Vec<T> {
        let mut all = Vec::new();
        while let Some(one) = self.next().await {
            all.push(one);
        }
        all
    }
}

/// That what was begun was ended before it was done, as the runtime it was part of is closed.
#[derive(Debug)]
pub(crate) struct Closed;

/// Returns what a task came to; a fault of ours in it goes on where it is waited for.
pub(crate) fn finished<T>(joined: Result<T, JoinError>) -> Result<T, Closed> {
    match joined {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Closed),
    }
}

impl Store {
    /// Does what keeps a processor busy, such as decoding, beside the threads that wait for requests, so much of it at a time.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turn().await?;
        // Who asked may go away; what is begun ends, and keeps its turn until then.
        let working = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(turn);
            result
        });
        finished(working.await).map_err(|Closed| self.closed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_waits_as_its_runtime_is_closed_ends_with_an_error_and_not_with_a_panic() {
        let root = tempfile::tempdir().unwrap();
        let location = crate::Location::parse(".", root.path()).unwrap();
        let store = Store::open(&location).unwrap();
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap()
        };
        let closed = runtime();
        let handle = closed.handle().clone();
        closed.shutdown_background();
        // Polled once more, as by a worker that is still at it while its runtime is being closed.
        runtime().block_on(async {
            let _entered = handle.enter();
            let is_closed = |error| matches!(error, StoreError::Closed { .. });
            assert!(store.reading().await.is_err_and(is_closed));
            assert!(store.aside(|| ()).await.is_err_and(is_closed));
            let listed = store.files_after(root.path(), "a/", None).await;
            assert!(listed.is_err_and(is_closed));
            let mut together = Together::default();
            together.add(async {}).await;
            assert_eq!(together.next().await, None);
        });
    }

    #[tokio::test]
    async fn work_aside_holds_up_no_thread_that_waits_for_requests_and_so_much_is_done_at_a_time() {
        let store = Store::memory();
        let (go, wait) = mpsc::channel::<()>();
        let slow = tokio::spawn({
            let store = store.clone();
            async move { store.aside(move || wait.recv().is_ok()).await }
        });
        // It has begun, on another thread than this one, the only one that waits for requests.
        while store.free_turns() == crate::open::ASIDE_AT_A_TIME {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.aside(|| 7).await.unwrap(), 7);
        assert_eq!(store.free_turns(), crate::open::ASIDE_AT_A_TIME - 1);
        go.send(()).unwrap();
        assert!(slow.await.unwrap().unwrap());
    }
}
