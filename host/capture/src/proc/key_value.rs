//! Files of `key: value` lines: `/proc/PID/io` and `/proc/PID/fdinfo/FD`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Returns key to value. Of a key that comes again (the descriptors an epoll watches), the first line stands under
/// the key and the others under `key#2`, `key#3`, …; a line without a colon stands under its own text.
pub(crate) fn parse(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut values = BTreeMap::new();
    let mut times = BTreeMap::<&str, u32>::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let (key, value) = (key.trim(), value.trim().to_owned());
        match values.entry(key.to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(value);
            }
            Entry::Occupied(_) => {
                let time = times.entry(key).or_insert(1);
                *time += 1;
                values.insert(format!("{key}#{time}"), value);
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_io_file_is_read() {
        let values = parse(b"rchar: 4292\nwchar: 0\nsyscr: 13\nsyscw: 0\nread_bytes: 8192\nwrite_bytes: 0\ncancelled_write_bytes: 0\n");
        assert_eq!(values["read_bytes"], "8192");
        assert_eq!(values.len(), 7);
    }

    #[test]
    fn every_target_of_an_epoll_is_kept() {
        let values = parse(b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\ntfd:        5 events:       19 data: 5  pos:0 ino:421 sdev:f\ntfd:        7 events:       19 data: 7  pos:0 ino:421 sdev:f\ntfd:        9 events:       19 data: 9  pos:0 ino:421 sdev:f\n");
        assert!(values["tfd"].starts_with("5 events:"));
        assert!(values["tfd#2"].starts_with("7 events:"));
        assert!(values["tfd#3"].starts_with("9 events:"));
    }

    #[test]
    fn a_line_without_a_colon_is_not_lost() {
        assert_eq!(parse(b"odd\n\n")["odd"], "");
    }
}
