//! The only place that asks the wall clock; `--now` fixes it in tests.

use std::time::{SystemTime, UNIX_EPOCH};

use model::Timestamp;

/// Where the time comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The system's clock.
    System,
    /// One instant for ever.
    Fixed(Timestamp),
}

impl Clock {
    /// Returns the present.
    pub(crate) fn now(self) -> Timestamp {
        match self {
            Self::Fixed(timestamp) => timestamp,
            Self::System => system_now(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
fn system_now() -> Timestamp {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let microseconds = i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_microseconds(microseconds).expect("the kernel's clock stays within year 9999")
}
