//! How fast a store grows, and how long the disk of a directory will do.

use std::path::Path;
use std::time::Duration;

use model::Timestamp;
use store::NodeSummary;

use crate::page::{self, table};

const DAY: Duration = Duration::from_hours(24);
/// Over a shorter time a rate is an accident.
const SHORTEST: Duration = Duration::from_mins(1);
/// A node whose last snapshot is older than this, and than a few intervals, is no longer written to.
const RECENT: Duration = Duration::from_mins(10);
/// A disk that is full sooner is worth a warning.
const SOON_DAYS: u64 = 3;

/// Returns by how much what there is of a node grows in a day; `None` where it does not grow, or not for long enough to tell.
pub(crate) fn bytes_per_day(summary: &NodeSummary, now: Timestamp) -> Option<u64> {
    let (first, last) = (summary.first_at?, summary.last_at?);
    let span = last.since(first);
    let intervals = u32::try_from(summary.snapshots).ok()?.checked_sub(1)?;
    let interval = span.checked_div(intervals)?;
    if span < SHORTEST || now.since(last) > RECENT.max(interval * 3) {
        return None;
    }
    let per_second = u128::from(summary.size_bytes) * 1000 / span.as_millis();
    u64::try_from(per_second * u128::from(DAY.as_secs())).ok()
}

/// Says how fast a store in `directory` grows and how long its disk will do; `None` where it does not grow.
pub(crate) fn words(directory: &Path, bytes_per_day: u64) -> Option<String> {
    if bytes_per_day == 0 {
        return None;
    }
    let grows = format!("the store grows by {} a day", table::bytes(bytes_per_day));
    let Ok(disk) = rustix::fs::statvfs(directory) else {
        return Some(grows);
    };
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    let days = left / bytes_per_day;
    let left = table::bytes(left);
    Some(if days < SOON_DAYS {
        let hours = left_hours(
            days,
            bytes_per_day,
            disk.f_bavail.saturating_mul(disk.f_frsize),
        );
        let directory = page::safe(&directory.display().to_string());
        format!(
            "warning: {grows}, and the disk of {directory} is full in {hours}: {left} are left; \
             `[store] retention` deletes the oldest snapshots, a longer `--interval` makes fewer"
        )
    } else {
        format!("{grows}; its disk has {left} left, enough for {days} days")
    })
}

fn left_hours(days: u64, bytes_per_day: u64, left: u64) -> String {
    if days > 0 {
        return page::count(days, "day", "days");
    }
    let hours = u128::from(left) * 24 / u128::from(bytes_per_day);
    format!("{hours} h")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(snapshots: u64, seconds: u64, size_bytes: u64) -> NodeSummary {
        let start = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
        NodeSummary {
            first_at: Some(start),
            last_at: Some(start.after(Duration::from_secs(seconds))),
            newest: None,
            place: "a/attempt-0/diagnostics/node-b".parse().unwrap(),
            processes: None,
            retired: None,
            size_bytes,
            snapshots,
        }
    }

    fn after(seconds: u64) -> Timestamp {
        let start = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
        start.after(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_written_to_now_grows_and_what_is_over_does_not() {
        let grows = summary(61, 3600, 1000);
        assert_eq!(bytes_per_day(&grows, after(3700)), Some(0));
        let grows = summary(61, 3600, 36_000_000);
        assert_eq!(bytes_per_day(&grows, after(3700)), Some(864_000_000));
        assert_eq!(bytes_per_day(&grows, after(4300)), None);
        assert_eq!(bytes_per_day(&summary(1, 0, 1000), after(0)), None);
        assert_eq!(bytes_per_day(&summary(2, 30, 1000), after(30)), None);
    }

    #[test]
    fn a_disk_that_fills_soon_is_a_warning_with_what_helps() {
        let directory = std::env::temp_dir();
        let disk = rustix::fs::statvfs(&directory).unwrap();
        let left = disk.f_bavail.saturating_mul(disk.f_frsize);
        assert_eq!(words(&directory, 0), None);
        let slow = words(&directory, left / 20).unwrap();
        assert!(slow.starts_with("the store grows by"), "{slow}");
        let fast = words(&directory, left * 2).unwrap();
        assert!(
            fast.starts_with("warning: ") && fast.contains("retention"),
            "{fast}"
        );
    }
}
