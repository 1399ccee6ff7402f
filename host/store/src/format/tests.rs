//! What stored bytes look like, and what is refused.

use std::fmt::Write as _;

use model::{SnapshotId, Timestamp};
use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::sample::{snapshot, task};
use crate::{Index, Place};

fn key() -> Key {
    Key {
        place: Place::of(&task()),
        id: SnapshotId {
            stamp: Timestamp::from_microseconds(0).unwrap(),
            sequence: 0,
        },
    }
}

/// Writes `value` as Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))` would, whatever the order
/// of its maps in memory.
fn canonical(value: &Json) -> String {
    match value {
        Json::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let member = |name: &String| {
                format!(
                    "{}:{}",
                    Json::from(name.as_str()),
                    canonical(&members[name])
                )
            };
            format!(
                "{{{}}}",
                names.into_iter().map(member).collect::<Vec<_>>().join(",")
            )
        }
        Json::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(canonical).collect::<Vec<_>>().join(",")
            )
        }
        scalar => scalar.to_string(),
    }
}

fn gzipped(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = gzip();
    encoder.write_all(text)?;
    encoder.finish()
}

fn refusal(text: &str) -> FormatError {
    let bytes = gzipped(text.as_bytes()).unwrap();
    let StoreError::Format { source, .. } = decode(&bytes, &key()).unwrap_err() else {
        panic!("{text} was refused for another reason");
    };
    source
}

#[test]
fn a_full_snapshot_has_sorted_keys_all_the_way_down() {
    let whole = snapshot(7);
    let text = String::from_utf8(to_json(&Folded::from(&whole)).unwrap()).unwrap();
    let value: Json = serde_json::from_str(&text).unwrap();
    let mut expected = String::new();
    for character in canonical(&value).chars() {
        if character.is_ascii() {
            expected.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(expected, "\\u{unit:04x}").unwrap();
            }
        }
    }
    assert_eq!(text, expected);
    assert!(text.contains(r"tr\u00e4in.py") && text.contains(r"MainThread \ud83d\udc0d"));
}

#[test]
fn an_index_has_sorted_keys_all_the_way_down() {
    let listed = crate::index::Listed::of(&snapshot(7), &key(), 100);
    let index = Index::rebuilt("node-a", vec![listed]).unwrap();
    let text = String::from_utf8(to_json(&index).unwrap()).unwrap();
    assert_eq!(text, canonical(&serde_json::from_str(&text).unwrap()));
}

#[test]
fn a_snapshot_comes_back_as_it_was_and_the_same_gives_the_same_bytes() {
    let bytes = encode(&snapshot(7)).unwrap();
    let back = decode(&bytes, &key()).unwrap();
    assert_eq!(back, snapshot(7));
    assert_eq!(encode(&back).unwrap(), bytes);
}

#[test]
fn the_gzip_header_holds_no_time_no_name_and_no_system() {
    let bytes = encode(&snapshot(7)).unwrap();
    assert_eq!(bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[9], GZIP_UNKNOWN_SYSTEM);
}

#[test]
fn later_minor_versions_are_read_and_unknown_names_ignored() {
    let mut value = serde_json::to_value(snapshot(7)).unwrap();
    value["schema_version"] = "1.7".into();
    value["processes"][0]["news"] = "x".into();
    let bytes = gzipped(value.to_string().as_bytes()).unwrap();
    assert_eq!(decode(&bytes, &key()).unwrap().schema_version, "1.7");
}

#[test]
fn a_later_major_version_is_refused_by_name() {
    let error = refusal(r#"{"schema_version":"2.0","all":"new"}"#);
    assert_eq!(
        error.to_string(),
        "it has schema version 2.0, and this build reads 1.x; use a newer taskscope"
    );
    assert!(matches!(
        refusal(r#"{"schema_version":"11.0"}"#),
        FormatError::Version { .. }
    ));
}

#[test]
fn what_is_no_snapshot_is_refused() {
    assert!(matches!(refusal("{}"), FormatError::Json(_)));
    assert!(matches!(
        refusal(r#"{"schema_version":"1.0"}"#),
        FormatError::Json(_)
    ));
    let bytes = encode(&snapshot(7)).unwrap();
    let torn = decode(&bytes[..bytes.len() / 2], &key()).unwrap_err();
    assert!(
        matches!(
            torn,
            StoreError::Format {
                source: FormatError::Gzip(_),
                ..
            }
        ),
        "{torn:?}"
    );
}

#[test]
fn more_than_the_limit_is_not_inflated() {
    let bytes = gzipped(&[b' '; 1000]).unwrap();
    assert_eq!(inflate(&bytes, 1000).unwrap().len(), 1000);
    assert!(matches!(
        inflate(&bytes, 999).unwrap_err(),
        FormatError::TooLarge { limit_bytes: 999 }
    ));
}

#[test]
fn a_number_that_json_lacks_is_refused_by_its_place() {
    let mut with_nan = snapshot(7);
    with_nan.annotations[1].value = Value::Number(f64::NAN);
    let error = encode(&with_nan).unwrap_err();
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "/annotations/1/value is not a finite number"
    );
    let mut with_infinity = snapshot(7);
    with_infinity.capture.interval_s = Some(f64::INFINITY);
    assert!(encode(&with_infinity).is_err());
}

proptest! {
    #[test]
    fn any_text_is_stored_in_ascii_and_comes_back(text in any::<String>()) {
        let json = to_json(&text).unwrap();
        prop_assert!(json.is_ascii());
        prop_assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
        prop_assert!(decode(&bytes, &key()).is_err());
        prop_assert!(decode(&gzipped(&bytes).unwrap(), &key()).is_err());
    }
}
