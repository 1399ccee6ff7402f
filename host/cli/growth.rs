//! How fast a store grows, and how long the disk of a directory will do.

use std::path::Path;
use std::time::Duration;

use model::{MountPurpose, Snapshot, Timestamp};
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
    let grows = grows(bytes_per_day);
    let Ok(disk) = rustix::fs::statvfs(directory) else {
        return Some(grows);
    };
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    let path = directory.display().to_string();
    if let Some(soon) = full_soon(&path, bytes_per_day, left) {
        return Some(format!("warning: {soon}"));
    }
    let (days, left) = (left / bytes_per_day, table::bytes(left));
    Some(format!(
        "{grows}; its disk has {left} left, enough for {days} days"
    ))
}

fn grows(bytes_per_day: u64) -> String {
    format!("the store grows by {} a day", table::bytes(bytes_per_day))
}

/// Says that the disk of `directory`, which has `left` bytes, is full soon; `None` where it is not.
fn full_soon(directory: &str, bytes_per_day: u64, left: u64) -> Option<String> {
    let days = left.checked_div(bytes_per_day)?;
    (days < SOON_DAYS).then(|| {
        let (hours, grows) = (left_hours(days, bytes_per_day, left), grows(bytes_per_day));
        let (directory, left) = (page::safe(directory), table::bytes(left));
        format!(
            "{grows}, and the disk of {directory} is full in {hours}: {left} are left; \
             `[store] retention` deletes the oldest snapshots, a longer `--interval` makes fewer"
        )
    })
}

/// Warns once when the disk of a directory store will be full soon, by what each snapshot says of it.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    has_warned: bool,
    /// When the first snapshot was taken: what a short task stores is no rate.
    since: Option<Timestamp>,
}

impl DiskWatch {
    /// Looks at a snapshot that took `size_bytes`; returns what to say.
    pub(crate) fn look(&mut self, snapshot: &Snapshot, size_bytes: u64) -> Option<String> {
        let now = snapshot.capture.started_at;
        if now.since(*self.since.get_or_insert(now)) < SHORTEST {
            return None;
        }
        let mounts = snapshot.filesystem.mounts.iter();
        let disk = mounts.rev().find(|it| it.purpose == MountPurpose::Spool)?;
        let interval = Duration::try_from_secs_f64(snapshot.capture.interval_s?).ok()?;
        let a_day = DAY.as_millis().checked_div(interval.as_millis())?;
        let bytes_per_day = u64::try_from(u128::from(size_bytes) * a_day).ok()?;
        let soon = full_soon(&disk.path, bytes_per_day, disk.bytes_available?);
        let is_news = !self.has_warned;
        self.has_warned |= soon.is_some();
        soon.filter(|_| is_news)
    }
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

    #[test]
    fn a_collector_whose_disk_is_full_soon_says_so_once() {
        // 10 kB a second are 864 MB a day.
        let looking_at = |seconds: u64, left: u64| {
            let mut snapshot = page::tests::snapshot();
            snapshot.capture.started_at = after(seconds);
            snapshot.capture.interval_s = Some(1.0);
            let mount =
                serde_json::json!({ "bytes_available": left, "path": "/data", "purpose": "spool" });
            snapshot.filesystem.mounts = vec![serde_json::from_value(mount).unwrap()];
            snapshot
        };
        let looking = |left: u64| looking_at(60, left);
        let mut watch = DiskWatch::default();
        let early = [0, 59].map(|seconds| looking_at(seconds, 0));
        assert!(early.iter().all(|it| watch.look(it, 10_000).is_none()));
        assert_eq!(watch.look(&looking(864_000_000 * 3), 10_000), None);
        let said = watch.look(&looking(864_000_000 / 2), 10_000).unwrap();
        assert!(said.contains("the disk of /data is full in 12 h"), "{said}");
        assert!(said.contains("retention"), "{said}");
        assert_eq!(watch.look(&looking(0), 10_000), None, "it is said once");
        let (mut watch, mut single) = (DiskWatch::default(), looking(0));
        single.capture.interval_s = None;
        assert_eq!(watch.look(&looking_at(0, 0), 10_000), None);
        assert_eq!(watch.look(&single, 10_000), None);
    }
}
