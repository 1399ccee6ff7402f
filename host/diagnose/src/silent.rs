//! Nodes that have stored nothing for a while: what they showed then is no news now.

use std::time::Duration;

use model::{Snapshot, Timestamp, span_words};
use serde::Serialize;

use crate::ranges::ranges;
use crate::ranks::ranks_of;

/// A node is silent where its newest snapshot is older than the newest of all by so many of its intervals, …
const INTERVALS: f64 = 3.0;
/// … and by so much.
const LEAST: Duration = Duration::from_mins(1);

/// The newest snapshot of a node.
#[derive(Clone, Copy, Debug)]
pub struct Newest<'a> {
    /// When it was taken by the clock that all nodes share, microseconds.
    pub at: i64,
    /// Whether something that both saw tells how its clock stands to that of the others.
    pub is_clock_compared: bool,
    /// The snapshot.
    pub snapshot: &'a Snapshot,
}

/// A node of which nothing new is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Silent {
    /// How much older its newest snapshot is than the newest of all, seconds, by the clocks.
    pub behind_s: u64,
    /// Whether something that both saw tells how its clock stands to that of the others.
    pub is_clock_compared: bool,
    /// When it last stored one, by its own clock.
    pub last: Timestamp,
    /// Its name.
    pub node: String,
    /// The ranks that were there.
    pub ranks: String,
}

impl Silent {
    /// Returns it as a sentence.
    pub fn words(&self) -> String {
        let one = self.ranks.parse::<u64>().is_ok();
        let whose = match (self.ranks.as_str(), one) {
            ("", _) => format!("node {}", self.node),
            (ranks, true) => format!("rank {ranks}'s node ({})", self.node),
            (ranks, false) => format!("the node of ranks {ranks} ({})", self.node),
        };
        let by = if self.is_clock_compared {
            ""
        } else {
            ", if its clock is right"
        };
        format!(
            "{whose} has stored nothing since {} UTC, {} before the others{by}; it is not judged",
            self.last.human(),
            span_words(self.behind_s)
        )
    }
}

/// Returns after how long without a snapshot a node is silent that takes one each `interval_s` seconds.
pub fn silent_after(interval_s: Option<f64>) -> Duration {
    let usual = Duration::try_from_secs_f64(interval_s.unwrap_or(0.0) * INTERVALS);
    LEAST.max(usual.unwrap_or_default())
}

/// Returns which nodes are silent, of each the newest snapshot is given.
pub fn silent(nodes: &[Newest<'_>]) -> Vec<Silent> {
    let Some(latest) = nodes.iter().max_by_key(|node| node.at) else {
        return Vec::new();
    };
    let silent = nodes.iter().filter_map(|node| {
        let behind = latest.at.saturating_sub(node.at);
        let behind = Duration::from_micros(u64::try_from(behind).unwrap_or(0));
        let capture = &node.snapshot.capture;
        (behind > silent_after(capture.interval_s)).then(|| Silent {
            behind_s: behind.as_secs(),
            is_clock_compared: node.is_clock_compared && latest.is_clock_compared,
            last: capture.started_at,
            node: node.snapshot.task.node.clone(),
            ranks: ranges(ranks_of(node.snapshot)),
        })
    });
    silent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_said_with_its_ranks() {
        let silent = |ranks: &str| Silent {
            behind_s: 190,
            is_clock_compared: ranks != "4-7",
            last: Timestamp::from_microseconds(1_796_000_000_000_000).unwrap(),
            node: "node-1".to_owned(),
            ranks: ranks.to_owned(),
        };
        assert_eq!(
            silent("5").words(),
            "rank 5's node (node-1) has stored nothing since 2026-11-30 00:53:20 UTC, 3m10s before the others; it is not judged"
        );
        let several = silent("4-7").words();
        assert!(
            several.starts_with("the node of ranks 4-7 (node-1) has")
                && several.contains("before the others, if its clock is right;"),
            "{several}"
        );
        assert!(silent("").words().starts_with("node node-1 has"));
    }

    #[test]
    fn a_node_is_silent_after_a_minute_and_three_of_its_intervals() {
        for (interval, seconds) in [
            (None, 60),
            (Some(1.0), 60),
            (Some(30.0), 90),
            (Some(-1.0), 60),
            (Some(f64::NAN), 60),
        ] {
            assert_eq!(
                silent_after(interval),
                Duration::from_secs(seconds),
                "{interval:?}"
            );
        }
    }
}
