//! Sealed parts of an index: `index/<first id>_<last id>_<count>_<crc32>.json.gz`.
//!
//! Each is an index document with older entries, gzipped, written once and never changed. The name tells what is in it,
//! so that a reader opens only those it needs; the check sum in it keeps the segments of two collectors apart.

use std::fmt;

use model::SnapshotId;

use crate::error::FormatError;
use crate::index::{Index, in_order};
use crate::{Place, format};

const FILE_SUFFIX: &str = ".json.gz";

/// The name of a segment. Displays and parses as the name of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentName {
    /// Its first snapshot, by sequence number.
    pub(crate) first: SnapshotId,
    /// Its last.
    pub(crate) last: SnapshotId,
    /// How many entries it has.
    count: u64,
    /// CRC-32 of its text before compression.
    check: u32,
}

/// Returns `index`, which has entries, as a segment; `None` for one without.
pub(crate) fn encode(index: &Index) -> Result<Option<(SegmentName, Vec<u8>)>, FormatError> {
    let (Some(first), Some(last)) = (index.snapshots.first(), index.snapshots.last()) else {
        return Ok(None);
    };
    let text = format::to_json(index)?;
    let name = SegmentName {
        first: first.capture_id,
        last: last.capture_id,
        count: index.snapshots.len() as u64,
        check: format::check_sum(&text),
    };
    Ok(Some((name, format::compress(&text)?)))
}

impl SegmentName {
    /// Returns the key of the segment.
    pub(crate) fn key(&self, place: &Place) -> String {
        format!("{}{self}", place.index_folder())
    }

    /// Reads the name of an object; a foreign one is `None`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(FILE_SUFFIX)?.split('_');
        let parsed = Self {
            first: parts.next()?.parse().ok()?,
            last: parts.next()?.parse().ok()?,
            count: parts.next()?.parse().ok()?,
            check: u32::from_str_radix(parts.next()?, 16).ok()?,
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Where it stands among others.
    pub(crate) fn in_order(&self) -> impl Ord + use<> {
        (in_order(self.first), in_order(self.last), self.check)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            first,
            last,
            count,
            check,
        } = self;
        write!(formatter, "{first}_{last}_{count}_{check:08x}{FILE_SUFFIX}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_in_a_segment_and_foreign_ones_are_none() {
        let text =
            "20261129T144054.169782Z-000000_20261129T154054.169782Z-000499_500_00c0ffee.json.gz";
        let name = SegmentName::parse(text).unwrap();
        assert_eq!(name.to_string(), text);
        assert_eq!((name.first.sequence, name.last.sequence), (0, 499));
        for (part, other) in [("_500", "_+500"), ("00c0ffee", "c0ffee"), (".gz", "")] {
            let bad = text.replacen(part, other, 1);
            assert_eq!(SegmentName::parse(&bad), None, "{bad} was accepted");
        }
    }
}
