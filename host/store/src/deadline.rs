//! The end of a writer's work: no store operation goes on after it.

use std::future::Future;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::{Store, StoreError};

/// The time at which a closed writer gives up on its store; not set while it is open.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(watch::Receiver<Option<Instant>>);

impl Deadline {
    pub(crate) fn new() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Waits until it is set, or nobody can set it any more.
    pub(crate) async fn set(&self) {
        let mut receiver = self.0.clone();
        // Either way the writer is gone.
        let _ = receiver.wait_for(Option::is_some).await;
    }

    /// Ends `work` on `store` when the deadline has passed.
    pub(crate) async fn limit<T>(
        &self,
        store: &Store,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut receiver = self.0.clone();
        let passed = async {
            // Without a writer there is nobody to set it.
            let at = receiver.wait_for(Option::is_some).await.ok();
            reached(at.and_then(|at| *at)).await;
        };
        let begun = Instant::now();
        tokio::select! {
            biased;
            result = work => result,
            () = passed => Err(StoreError::OutOfTime {
                location: store.location().to_owned(),
                patience: begun.elapsed(),
            }),
        }
    }
}

/// Waits until `at`, or for ever.
pub(crate) async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
