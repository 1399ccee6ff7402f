//! When to try again what failed: after 1 s, then after twice as long each time, up to 1 min.

use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

/// When to try again.
#[derive(Debug)]
pub(crate) struct Backoff {
    delay: Duration,
    until: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            delay: SHORTEST,
            until: None,
        }
    }

    /// Returns when to try again: `now` after a success.
    pub(crate) fn until(&self, now: Instant) -> Instant {
        self.until.unwrap_or(now)
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.until = Some(now + self.delay);
        self.delay = (self.delay * 2).min(LONGEST);
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_a_minute_and_a_success_ends_it() {
        let now = Instant::now();
        let mut backoff = Backoff::new();
        assert_eq!(backoff.until(now), now);
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                backoff.failed(now);
                (backoff.until(now) - now).as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.succeeded();
        assert_eq!(backoff.until(now), now);
    }
}
