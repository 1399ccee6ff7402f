//! A point in UTC, to the microsecond, and the two texts it is stored as.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A wall-clock instant in UTC. Serialises as ISO-8601 with six fraction digits and `Z`, so that the texts
/// sort as the instants do (schema 1.0 dropped a fraction of exactly 0; we never do).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// Returns the instant `microseconds` after 1970-01-01T00:00:00Z, or `None` outside years -9999 to 9999.
    pub fn from_microseconds(microseconds: i64) -> Option<Self> {
        jiff::Timestamp::from_microsecond(microseconds)
            .ok()
            .map(Self)
    }

    /// Returns the microseconds since 1970-01-01T00:00:00Z.
    pub fn as_microseconds(self) -> i64 {
        self.0.as_microsecond()
    }

    /// Returns the instant `duration` later; the largest one where that overflows.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let sum = self.as_microseconds().saturating_add(microseconds);
        Self(jiff::Timestamp::from_microsecond(sum).unwrap_or(jiff::Timestamp::MAX))
    }

    /// Returns the instant `duration` earlier; the smallest one where that overflows.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let difference = self.as_microseconds().saturating_sub(microseconds);
        Self(jiff::Timestamp::from_microsecond(difference).unwrap_or(jiff::Timestamp::MIN))
    }

    /// Returns the time from `earlier` to this instant, zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let microseconds = self
            .as_microseconds()
            .saturating_sub(earlier.as_microseconds());
        Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
    }

    /// Returns `YYYYmmddTHHMMSS.ffffffZ`, the stamp in a snapshot's id.
    pub fn compact(self) -> String {
        self.0.strftime("%Y%m%dT%H%M%S.%6fZ").to_string()
    }

    /// Returns `YYYYmmddTHHMMSSZ`, the stamp in the path of a task that has no name.
    pub fn compact_seconds(self) -> String {
        self.0.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    /// Returns `YYYY-mm-dd HH:MM:SS` in UTC, for people.
    pub fn human(self) -> String {
        self.0.strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Parses ISO-8601 in UTC, with or without a fraction.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(Self)
    }

    /// Parses the stamp that [`Timestamp::compact`] writes.
    pub fn parse_compact(text: &str) -> Option<Self> {
        let civil = text.strip_suffix('Z')?;
        let datetime = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S.%f", civil).ok()?;
        datetime
            .to_zoned(jiff::tz::TimeZone::UTC)
            .ok()
            .map(|zoned| Self(zoned.timestamp()))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%S.%6fZ"))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no UTC time such as 2026-11-29T14:40:57.227471Z"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_seconds_keep_their_fraction() {
        let timestamp = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
        assert_eq!(timestamp.to_string(), "2026-11-30T00:53:20.000000Z");
        assert_eq!(timestamp.compact(), "20261130T005320.000000Z");
    }

    #[test]
    fn schema_1_0_times_without_fraction_are_read() {
        let timestamp = Timestamp::parse("2026-11-29T14:40:57Z").unwrap();
        assert_eq!(timestamp.to_string(), "2026-11-29T14:40:57.000000Z");
    }

    proptest! {
        #[test]
        fn both_texts_round_trip_and_sort_as_the_instants(a in 0..4_000_000_000_000_000_i64, b in 0..4_000_000_000_000_000_i64) {
            let (a, b) = (Timestamp::from_microseconds(a).unwrap(), Timestamp::from_microseconds(b).unwrap());
            prop_assert_eq!(Timestamp::parse(&a.to_string()), Some(a));
            prop_assert_eq!(Timestamp::parse_compact(&a.compact()), Some(a));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.cmp(&b), a.compact().cmp(&b.compact()));
        }
    }
}
