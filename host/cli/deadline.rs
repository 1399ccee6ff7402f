//! When the scheduler will end the task, as far as it says so, and when to look before that.

use std::time::{Duration, Instant};

use model::Timestamp;
use tracing::{info, warn};

use crate::environment;

/// Names the end for whoever starts us: epoch seconds, or a time as in RFC 3339.
const OURS: &str = "TASKSCOPE_DEADLINE";
/// Set by Slurm in batch jobs: epoch seconds (sbatch(1), "output environment variables").
const SLURM: &str = "SLURM_JOB_END_TIME";

/// Returns the instant at which to look once more, `lead` before the scheduler ends the task; nothing where no end is
/// known, or it is past.
pub(crate) fn last_look(now: Timestamp, lead: Duration) -> Option<Instant> {
    let (name, text) = [OURS, SLURM]
        .into_iter()
        .find_map(|name| Some((name, environment::text(name)?)))?;
    let Some(deadline) = parse(&text) else {
        warn!(
            "{name}=`{text}` is no time, so there is no snapshot ahead of the deadline; epoch seconds such as 1796000000 \
             and RFC 3339 such as 2026-11-30T00:53:20Z are."
        );
        return None;
    };
    let Some(wait) = wait(deadline, now, lead) else {
        warn!(
            "The deadline {} UTC of {name} is past: there is no snapshot ahead of it.",
            deadline.human()
        );
        return None;
    };
    info!(
        "The deadline is {} UTC ({name}): a snapshot in {wait:?}.",
        deadline.human()
    );
    Instant::now().checked_add(wait)
}

fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds: i64 = text.parse().ok()?;
        return Timestamp::from_microseconds(seconds.checked_mul(1_000_000)?);
    }
    Timestamp::parse(text)
}

/// How long to wait for the look ahead of `deadline`: a task that has less than twice the lead left is looked at half-way.
fn wait(deadline: Timestamp, now: Timestamp, lead: Duration) -> Option<Duration> {
    let left = deadline.since(now);
    (!left.is_zero()).then(|| left.saturating_sub(lead).max(left / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn epoch_seconds_and_rfc_3339_are_times_and_nothing_else_is() {
        let time = Timestamp::from_microseconds(1_796_000_000_000_000);
        for text in [
            "1796000000",
            " 1796000000 ",
            "2026-11-30T00:53:20Z",
            "2026-11-30T02:53:20+02:00",
        ] {
            assert_eq!(parse(text), time, "{text}");
        }
        for text in [
            "",
            "soon",
            "-5",
            "1796000000000000",
            "2026-11-30",
            "99999999999999999999",
            "12:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_look_is_one_lead_ahead_and_never_before_half_of_what_is_left() {
        let now = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
        let wait_for = |left: Duration| wait(now.after(left), now, MINUTE);
        assert_eq!(wait_for(10 * MINUTE), Some(9 * MINUTE));
        assert_eq!(wait_for(MINUTE), Some(MINUTE / 2));
        assert_eq!(wait_for(Duration::ZERO), None);
        assert_eq!(wait(now.before(MINUTE), now, MINUTE), None);
    }
}
