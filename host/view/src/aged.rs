//! What was asked of a store, for as long as it is taken to be so: many who ask cost the store no more than one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

use crate::answer::Trouble;

/// Who asks waits so long for a new look at what is not fresh any more, and then gets what was known, …
const PATIENCE: Duration = Duration::from_millis(10);
/// … unless it is older than this, …
const STALE: Duration = Duration::from_mins(10);
/// … and who asks for what was so lately gets what was known then without any look.
const LATELY: Duration = Duration::from_mins(1);

/// How new what a store held has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsOf {
    /// As of the last minute, where that is known: nothing is asked then.
    Lately,
    /// As of now, or a moment ago.
    Now,
}

/// What was asked of a store, and when. Who asks again when it is old has it looked at anew, and waits for that a moment only.
#[derive(Debug)]
pub(crate) struct Aged<T> {
    known: Mutex<Option<Known<T>>>,
    /// One looks at a time.
    turn: Turn<()>,
}

#[derive(Debug)]
struct Known<T> {
    at: Instant,
    it: T,
    /// Whether it could not be looked at anew since.
    is_doubted: bool,
}

impl AsOf {
    pub(crate) fn known<T: Clone + Send + Sync + 'static>(self, aged: &Aged<T>) -> Option<T> {
        match self {
            Self::Lately => aged.lately(),
            Self::Now => None,
        }
    }
}

impl<T> Default for Aged<T> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            turn: Turn::default(),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Aged<T> {
    /// Returns what was found last, where it is not older than so much.
    fn known(&self, age: Duration) -> Option<T> {
        let known = self.lock();
        let known = known.as_ref()?;
        (known.at.elapsed() < age).then(|| known.it.clone())
    }

    /// Returns what was so lately, where that is known and could be looked at.
    fn lately(&self) -> Option<T> {
        let is_doubted = self.lock().as_ref().is_some_and(|known| known.is_doubted);
        self.known(LATELY).filter(|_| !is_doubted)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known<T>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what `look` finds, which is given what was found before; what is `fresh` is not looked for, and where looking takes
    /// a while, what is not much older is returned meanwhile.
    pub(crate) async fn get<L>(
        self: &Arc<Self>,
        fresh: Duration,
        look: impl FnOnce(Option<T>) -> L + Send + 'static,
    ) -> Result<T, Trouble>
    where
        L: Future<Output = Result<T, Trouble>> + Send,
    {
        if let Some(known) = self.known(fresh) {
            return Ok(known);
        }
        let aged = Arc::clone(self);
        // A task of its own: an asker that goes away leaves what was found for the next one.
        let mut looking = tokio::spawn(async move {
            let _turn = aged.turn.lock().await;
            if let Some(known) = aged.known(fresh) {
                return Ok(known);
            }
            let found = look(aged.known(Duration::MAX)).await;
            let mut known = aged.lock();
            match (&found, known.as_mut()) {
                (Ok(it), _) => {
                    *known = Some(Known {
                        at: Instant::now(),
                        it: it.clone(),
                        is_doubted: false,
                    });
                }
                (Err(_), Some(known)) => known.is_doubted = true,
                (Err(_), None) => {}
            }
            found
        });
        let looked = match self.known(STALE) {
            Some(known) => match tokio::time::timeout(PATIENCE, &mut looking).await {
                Ok(looked) => looked,
                Err(_) => return Ok(known),
            },
            None => looking.await,
        };
        looked.unwrap_or_else(|error| Err(Trouble::unavailable(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_known_lately_needs_no_look_until_one_fails() {
        let aged: Arc<Aged<u8>> = Arc::default();
        assert_eq!(AsOf::Lately.known(&aged), None);
        let looked = aged.get(LATELY, async |_| Ok(7)).await;
        assert_eq!(looked, Ok(7));
        assert_eq!(AsOf::Lately.known(&aged), Some(7));
        assert_eq!(AsOf::Now.known(&aged), None);
        let failed = aged.get(Duration::ZERO, async |_| Err(Trouble::unavailable("gone")));
        // Who asks may get what was known, where the look takes longer than it is waited for.
        _ = failed.await;
        while AsOf::Lately.known(&aged).is_some() {
            tokio::task::yield_now().await;
        }
        let looked = aged.get(Duration::ZERO, async |known| Ok(known.unwrap_or(0) + 1));
        _ = looked.await;
        while AsOf::Lately.known(&aged) != Some(8) {
            tokio::task::yield_now().await;
        }
    }
}
