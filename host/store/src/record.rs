//! Where records of a node lie, beside its snapshots: `obituaries/<name>` and `samples/<name>`, written once, and
//! `report.json`, which is replaced whole.
//!
//! A name is `<UTC stamp>-<crc32>.json.gz`: when the record begins, and a check sum of its text, which keeps those of two
//! collectors apart. Texts and keys correspond one to one, as those of snapshots do.

use std::fmt;
use std::str::FromStr;

use model::Timestamp;

use crate::key::{ParseKeyError, Place};
use crate::{Key, format};

const FILE_SUFFIX: &str = ".json.gz";
const REPORT: &str = "report.json";

/// What a folder of records is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// How processes ended.
    Obituaries,
    /// Readings of memory and CPU between snapshots.
    Samples,
}

impl RecordKind {
    const ALL: [Self; 2] = [Self::Obituaries, Self::Samples];

    /// The name of its folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Obituaries => "obituaries",
            Self::Samples => "samples",
        }
    }
}

/// The name of a record that is written once. Displays and parses as the name of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName {
    /// When the record begins.
    pub at: Timestamp,
    /// CRC-32 of its text before compression.
    check: u32,
}

/// One record of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Record {
    /// Written once.
    Kept(RecordKind, RecordName),
    /// The newest report, replaced whole.
    Report,
}

/// Where a record lies. Displays and parses as `<place>/obituaries/<name>`, `<place>/samples/<name>` or
/// `<place>/report.json`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The node's folder.
    pub place: Place,
    /// The record.
    pub record: Record,
}

/// Where an object of a node lies that waits in the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKey {
    Snapshot(Key),
    Record(RecordKey),
}

impl RecordName {
    /// Returns the name of a record with this text.
    pub(crate) fn of(at: Timestamp, text: &[u8]) -> Self {
        Self {
            at,
            check: format::check_sum(text),
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (stamp, check) = name.strip_suffix(FILE_SUFFIX)?.split_once('-')?;
        let parsed = Self {
            at: Timestamp::parse_compact(stamp)?,
            check: u32::from_str_radix(check, 16).ok()?,
        };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl Place {
    /// Returns the key of the report.
    pub fn report(&self) -> RecordKey {
        RecordKey {
            place: self.clone(),
            record: Record::Report,
        }
    }

    pub(crate) fn records_folder(&self, kind: RecordKind) -> String {
        format!("{self}/{}/", kind.folder())
    }

    /// Returns the folders that objects wait in while they are spooled; the place's own, which holds the others, last.
    pub(crate) fn object_folders(&self) -> Vec<String> {
        let mut folders = vec![self.snapshots_folder()];
        folders.extend(RecordKind::ALL.map(|kind| self.records_folder(kind)));
        folders.push(format!("{self}/"));
        folders
    }
}

impl ObjectKey {
    pub(crate) fn place(&self) -> &Place {
        match self {
            Self::Snapshot(key) => &key.place,
            Self::Record(key) => &key.place,
        }
    }

    /// Whether it tells how processes ended.
    pub(crate) fn is_obituary(&self) -> bool {
        let kind = RecordKind::Obituaries;
        matches!(self, Self::Record(key) if matches!(key.record, Record::Kept(of, _) if of == kind))
    }

    /// Whether it is replaced by later ones.
    pub(crate) fn is_report(&self) -> bool {
        matches!(self, Self::Record(key) if key.record == Record::Report)
    }

    /// Whose turn it is: snapshots by number, then records by time, and what is replaced last.
    pub(crate) fn turn(&self) -> impl Ord + use<> {
        match self {
            Self::Snapshot(key) => (0, key.id.sequence, Some(key.id.stamp)),
            Self::Record(key) => match key.record {
                Record::Kept(_, name) => (1, 0, Some(name.at)),
                Record::Report => (2, 0, None),
            },
        }
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, check } = self;
        write!(formatter, "{}-{check:08x}{FILE_SUFFIX}", at.compact())
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match self.record {
            Record::Kept(kind, name) => write!(formatter, "{place}/{}/{name}", kind.folder()),
            Record::Report => write!(formatter, "{place}/{REPORT}"),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(key) => key.fmt(formatter),
            Self::Record(key) => key.fmt(formatter),
        }
    }
}

impl FromStr for RecordKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseKeyError::of(text))
    }
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let snapshot = text.parse().map(Self::Snapshot);
        snapshot.or_else(|_| text.parse().map(Self::Record))
    }
}

fn parse(text: &str) -> Option<RecordKey> {
    let (rest, name) = text.rsplit_once('/')?;
    if name == REPORT {
        return Some(rest.parse::<Place>().ok()?.report());
    }
    let (place, folder) = rest.rsplit_once('/')?;
    let mut kinds = RecordKind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.folder() == folder)?;
    Some(RecordKey {
        place: place.parse().ok()?,
        record: Record::Kept(kind, RecordName::parse(name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: &str = "Flow/17/start/1/attempt-0/diagnostics/node-vm";

    proptest! {
        #[test]
        fn every_record_is_found_again_by_its_text(microseconds in 0..4_000_000_000_000_000_i64, text: Vec<u8>) {
            let at = Timestamp::from_microseconds(microseconds).unwrap();
            for kind in RecordKind::ALL {
                let record = Record::Kept(kind, RecordName::of(at, &text));
                let key = RecordKey { place: PLACE.parse().unwrap(), record };
                prop_assert_eq!(key.to_string().parse(), Ok(key.clone()));
                prop_assert_eq!(key.to_string().parse(), Ok(ObjectKey::Record(key)));
            }
        }
    }

    #[test]
    fn foreign_names_are_refused() {
        let good = format!("{PLACE}/samples/20261129T144054.169782Z-00c0ffee.json.gz");
        assert_eq!(good.parse::<RecordKey>().unwrap().to_string(), good);
        let report = format!("{PLACE}/report.json");
        assert_eq!(report.parse::<RecordKey>().unwrap().to_string(), report);
        for (part, other) in [
            ("samples", "snapshots"),
            ("samples/", ""),
            ("00c0ffee", "c0ffee"),
            ("00c0ffee", "00C0FFEE"),
            (".169782Z", ".16978Z"),
            (".gz", ""),
            (".gz", ".gz.part"),
        ] {
            let bad = good.replacen(part, other, 1);
            assert!(bad.parse::<RecordKey>().is_err(), "{bad} was accepted");
        }
    }
}
