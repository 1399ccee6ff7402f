//! Samples see within seconds that a task has come to a stand; a snapshot says why. So they ask for one.

use std::fmt;

use diagnose::{Stillness, Tuning};
use model::Sample;

/// What asks for a closer look.
pub(crate) struct Suspicion {
    look: Box<dyn Fn() + Send>,
    stillness: Stillness,
}

impl Suspicion {
    /// Begins to watch; `look` asks for a snapshot.
    pub(crate) fn new(tuning: Tuning, look: impl Fn() + Send + 'static) -> Self {
        Self {
            look: Box::new(look),
            stillness: Stillness::new(tuning),
        }
    }

    /// Notes a sample, and asks for a snapshot where one is worth while.
    pub(super) fn note(&mut self, sample: &Sample) {
        if self.stillness.note(sample) {
            (self.look)();
        }
    }
}

impl fmt::Debug for Suspicion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Suspicion")
            .field(&self.stillness)
            .finish()
    }
}
