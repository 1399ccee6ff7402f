//! Bytes <-> documents, and nothing else knows how: compact JSON with sorted keys and every character beyond ASCII
//! escaped; snapshots gzipped at a fixed level with no time in the header. Same content, same bytes.
//!
//! Keys are sorted because the stored structs declare their fields in alphabetical order (a test here keeps it so)
//! and their maps are ordered. We read every `schema_version` 1.x, `metaflow_pyspy`'s 1.0 included.

use std::io::{self, BufWriter, Read, Write};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder, read::GzDecoder};
use model::{Snapshot, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::FormatError;
use crate::folded::{self, Folded, Kinds};
use crate::record::{Record, RecordKey};
use crate::{Key, StoreError};

/// More than any snapshot inflates to; keeps a hostile object from filling the memory.
const INFLATED_LIMIT_BYTES: u64 = 512 << 20;

/// The operating system in a gzip header: unknown, so that it is the same everywhere.
const GZIP_UNKNOWN_SYSTEM: u8 = 255;

/// How hard gzip tries. From 6 to 8 a snapshot of 64 Pythons (2 MB of text, most of it stacks that are much alike) goes from
/// 60 kB to 38 kB for 3 ms of CPU: up to 6, zlib-rs looks for no better match once it has one.
const GZIP_LEVEL: u32 = 8;

/// How much text is handed to gzip at a time; the whole text is never in memory.
const TEXT_PIECE_BYTES: usize = 64 << 10;

/// Returns `snapshot` as a stored object. Numbers that are not finite are refused, because JSON has none.
pub fn encode(snapshot: &Snapshot) -> Result<Vec<u8>, StoreError> {
    if let Some(field) = not_finite(snapshot) {
        return Err(StoreError::Encode(FormatError::NotFinite { field }));
    }
    gzip_json(&Folded::from(snapshot)).map_err(StoreError::Encode)
}

/// Reads a stored object; `key` is for the error's text.
pub fn decode(bytes: &[u8], key: &Key) -> Result<Snapshot, StoreError> {
    decode_within(bytes, key, INFLATED_LIMIT_BYTES)
}

/// Reads a stored object whose text has `limit_bytes` at most: a larger one is an error before it is decoded.
pub fn decode_within(bytes: &[u8], key: &Key, limit_bytes: u64) -> Result<Snapshot, StoreError> {
    let text = inflate(bytes, limit_bytes);
    text.and_then(|text| snapshot_from_json(&text))
        .map_err(|source| StoreError::Format {
            key: key.to_string(),
            source,
        })
}

/// Reads a record.
pub(crate) fn decode_record<T: DeserializeOwned>(
    bytes: &[u8],
    key: &RecordKey,
) -> Result<T, StoreError> {
    let read = match key.record {
        Record::Kept(..) => decompress(bytes),
        Record::Report => from_json(bytes),
    };
    read.map_err(|source| StoreError::Format {
        key: key.to_string(),
        source,
    })
}

/// Reads a snapshot that lies outside a store, gzipped or as plain JSON; `name` is for the error's text.
pub fn decode_copy(bytes: &[u8], name: &str) -> Result<Snapshot, StoreError> {
    let is_gzip = bytes.starts_with(&[0x1f, 0x8b]);
    let read = if is_gzip {
        inflate(bytes, INFLATED_LIMIT_BYTES).and_then(|text| snapshot_from_json(&text))
    } else {
        snapshot_from_json(bytes)
    };
    read.map_err(|source| StoreError::Format {
        key: name.to_owned(),
        source,
    })
}

/// Returns a part of a snapshot, or a whole one, as the JSON text that is stored: compact, keys sorted, ASCII.
pub fn encode_json(document: &impl Serialize) -> Result<String, StoreError> {
    let text = to_json(document).map_err(StoreError::Encode)?;
    Ok(String::from_utf8(text).expect("the formatter writes ASCII"))
}

/// Returns `document` as compact JSON in ASCII.
pub(crate) fn to_json(document: &impl Serialize) -> Result<Vec<u8>, FormatError> {
    let mut text = Vec::new();
    write_json(document, &mut text)?;
    Ok(text)
}

/// Returns `text` gzipped, as all that is stored so.
pub(crate) fn compress(text: &[u8]) -> Result<Vec<u8>, FormatError> {
    let mut encoder = gzip();
    encoder
        .write_all(text)
        .and_then(|()| encoder.finish())
        .map_err(FormatError::Gzip)
}

/// Reads a gzipped document whose `schema_version` is 1.x.
pub(crate) fn decompress<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    inflate(bytes, INFLATED_LIMIT_BYTES).and_then(|text| from_json(&text))
}

/// Returns the CRC-32 of `text`.
pub(crate) fn check_sum(text: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(text);
    sum.sum()
}

fn write_json(document: &impl Serialize, writer: impl Write) -> Result<(), FormatError> {
    let mut serializer = serde_json::Serializer::with_formatter(writer, AsciiFormatter);
    document
        .serialize(&mut serializer)
        .map_err(FormatError::Json)
}

/// Reads a document whose `schema_version` is 1.x.
pub(crate) fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, FormatError> {
    head(text)?;
    serde_json::from_slice(text).map_err(FormatError::Json)
}

/// Reads a snapshot, folded or whole.
fn snapshot_from_json(text: &[u8]) -> Result<Snapshot, FormatError> {
    let kinds = match head(text)?.ipc {
        Some(ipc) => serde_json::from_str(ipc.get()).map_err(FormatError::Json)?,
        None => Kinds::default(),
    };
    let mut snapshot = serde_json::from_slice(text).map_err(FormatError::Json)?;
    folded::unfold(&mut snapshot, kinds)
        .map_err(|reason| FormatError::Json(serde::de::Error::custom(reason)))?;
    Ok(snapshot)
}

/// Looks at the version first: a later document may well have another shape, and the version is the reason.
fn head(text: &[u8]) -> Result<Head<'_>, FormatError> {
    let head: Head = serde_json::from_slice(text).map_err(FormatError::Json)?;
    if head.schema_version.split('.').next() != Some("1") {
        return Err(FormatError::Version {
            version: head.schema_version,
        });
    }
    Ok(head)
}

#[derive(Deserialize)]
struct Head<'a> {
    /// Only snapshots have it.
    #[serde(borrow, default)]
    ipc: Option<&'a RawValue>,
    schema_version: String,
}

fn gzip_json(document: &impl Serialize) -> Result<Vec<u8>, FormatError> {
    let mut pieces = BufWriter::with_capacity(TEXT_PIECE_BYTES, gzip());
    write_json(document, &mut pieces)?;
    let encoder = pieces
        .into_inner()
        .map_err(|error| FormatError::Gzip(error.into_error()))?;
    encoder.finish().map_err(FormatError::Gzip)
}

fn gzip() -> GzEncoder<Vec<u8>> {
    GzBuilder::new()
        .mtime(0)
        .operating_system(GZIP_UNKNOWN_SYSTEM)
        .write(Vec::new(), Compression::new(GZIP_LEVEL))
}

fn inflate(bytes: &[u8], limit_bytes: u64) -> Result<Vec<u8>, FormatError> {
    let mut text = Vec::new();
    let mut limited = GzDecoder::new(bytes).take(limit_bytes + 1);
    limited.read_to_end(&mut text).map_err(FormatError::Gzip)?;
    if text.len() as u64 > limit_bytes {
        return Err(FormatError::TooLarge { limit_bytes });
    }
    Ok(text)
}

fn not_finite(snapshot: &Snapshot) -> Option<String> {
    let capture = &snapshot.capture;
    let of_capture = [
        ("cpu_ms", capture.cpu_ms),
        ("duration_ms", Some(capture.duration_ms)),
        ("interval_s", capture.interval_s),
    ];
    let is_bad = |number: Option<f64>| number.is_some_and(|number| !number.is_finite());
    if let Some((name, _)) = of_capture.into_iter().find(|(_, number)| is_bad(*number)) {
        return Some(format!("/capture/{name}"));
    }
    let index = snapshot.annotations.iter().position(
        |annotation| matches!(annotation.value, Value::Number(number) if !number.is_finite()),
    )?;
    Some(format!("/annotations/{index}/value"))
}

/// Escapes every character beyond ASCII as `\uXXXX`, in UTF-16, as Python's `json.dumps` does by default.
struct AsciiFormatter;

impl serde_json::ser::Formatter for AsciiFormatter {
    /// Text that was formed before. Beyond ASCII it has characters in its strings only, so they are escaped alike.
    fn write_raw_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.write_string_fragment(writer, fragment)
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(start) = rest.find(|character: char| !character.is_ascii()) {
            let (ascii, tail) = rest.split_at(start);
            writer.write_all(ascii.as_bytes())?;
            let character = tail
                .chars()
                .next()
                .expect("a character was found at this offset");
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &tail[character.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests;
