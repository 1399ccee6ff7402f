//! Which snapshot of a node is meant.

use std::fmt;
use std::str::FromStr;

use model::{SnapshotId, Timestamp};

use crate::Entry;

/// Which snapshot of a node is meant. Parses from `latest`, a snapshot's id, or a UTC time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The newest.
    #[default]
    Latest,
    /// The one with this id.
    Id(SnapshotId),
    /// The newest that is not later.
    Time(Timestamp),
}

impl At {
    /// Returns its place among `entries`, which are in the order of a history.
    pub fn position(self, entries: &[Entry]) -> Option<usize> {
        match self {
            Self::Latest => entries.len().checked_sub(1),
            Self::Id(id) => entries.iter().position(|entry| entry.id == id),
            Self::Time(time) => entries.iter().rposition(|entry| entry.at() <= time),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => formatter.write_str("latest"),
            Self::Id(id) => id.fmt(formatter),
            Self::Time(time) => time.fmt(formatter),
        }
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        Timestamp::parse(text).map(Self::Time).ok_or_else(|| {
            format!(
                "`{text}` is neither `latest`, a snapshot id such as 20261129T144054.169782Z-000000, \
                 nor a UTC time such as 2026-11-29T14:41:00Z"
            )
        })
    }
}
