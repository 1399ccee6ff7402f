//! Several requests at a time, not all at once: what comes back is handed over as it comes. And work beside them.

use std::future::Future;

use tokio::task::JoinSet;

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
        let joined = self.0.join_next().await?;
        Some(joined.expect("requests do not panic"))
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

/// Does what may keep a processor busy for long beside the thread that waits for requests; nothing where all is being closed.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}
