//! Waiting for something to become true: polling with a deadline, never a fixed sleep.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for anything a test waits for, on a loaded machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(5);

/// Returns as soon as `condition` holds. Panics at the caller's line if it does not within `deadline`.
#[track_caller]
pub fn wait_until(deadline: Duration, condition: impl FnMut() -> bool) {
    assert!(
        holds_within(deadline, condition),
        "the condition did not hold within {deadline:?}"
    );
}

/// Whether `condition` comes to hold within `deadline`.
pub(crate) fn holds_within(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let start = Instant::now();
        wait_until(DEADLINE, || start.elapsed() > Duration::from_millis(20));
        assert!(start.elapsed() < DEADLINE);
    }

    #[test]
    #[should_panic(expected = "did not hold within 20ms")]
    fn a_condition_that_stays_false_fails_the_test() {
        wait_until(Duration::from_millis(20), || false);
    }
}
