//! What keeps a processor busy (decoding, judging, merging) is done beside the threads that answer, a bounded number of things at a
//! time: so an answer that needs none of it waits for none of it.

use std::sync::Arc;

use model::Snapshot;
use tokio::sync::Semaphore;

/// Processes that are many to look through: several times those of a job of a thousand ranks.
const MANY: usize = 4096;

/// How many things are done at a time. Large ones go through a door of their own, one by one, so that they hold up no small one.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    large: Arc<Semaphore>,
    small: Arc<Semaphore>,
}

impl Work {
    /// Whether what is made of so many processes takes long.
    pub(crate) fn is_large<'a>(snapshots: impl IntoIterator<Item = &'a Snapshot>) -> bool {
        let counts = snapshots.into_iter().map(|it| it.processes.len());
        counts.sum::<usize>() > MANY
    }

    pub(crate) fn new(at_a_time: usize) -> Self {
        Self {
            large: Arc::new(Semaphore::new(1)),
            small: Arc::new(Semaphore::new(at_a_time.max(1))),
        }
    }

    /// Does `work` when its turn comes, that of a large one among such; an error where it failed in us.
    pub(crate) async fn done<T: Send + 'static>(
        &self,
        is_large: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let doors = if is_large { &self.large } else { &self.small };
        let door = Arc::clone(doors).acquire_owned().await;
        let door = door.map_err(|_| "the page is being closed".to_owned())?;
        // Who asked may go away; what is begun ends, and keeps its door until then.
        let working = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(door);
            result
        });
        working.await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_work_holds_up_neither_small_work_nor_the_thread_that_answers() {
        let work = Work::new(1);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let large = tokio::spawn({
            let work = work.clone();
            async move { work.done(true, move || wait.recv().is_ok()).await }
        });
        // It has begun, on another thread than this one, which is the only one that answers.
        while work.large.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(work.done(false, || 7).await, Ok(7));
        assert!(!large.is_finished());
        go.send(()).unwrap();
        assert_eq!(large.await.unwrap(), Ok(true));
    }

    #[tokio::test]
    async fn work_that_fails_is_an_error_and_its_door_is_open_again() {
        let work = Work::new(1);
        let failed = work.done(false, || [0; 1].get(1).copied().unwrap()).await;
        assert!(failed.is_err(), "{failed:?}");
        assert_eq!(work.done(false, || 7).await, Ok(7));
    }
}
