//! A stored object may hold anything: it is read or refused, and what was read can be written and read again.
#![no_main]

use std::io::Write;
use std::sync::LazyLock;

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use store::Key;

static KEY: LazyLock<Key> = LazyLock::new(|| {
    let name =
        "job/1/attempt-0/diagnostics/node-a/snapshots/20261129T144054.169782Z-000000.json.gz";
    name.parse().expect("it is a key")
});

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // What is no gzip ends early; so the same bytes as the text within.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(bytes).expect("it goes to memory");
    read(&gzip.finish().expect("it goes to memory"));
});

fn read(bytes: &[u8]) {
    if let Ok(snapshot) = store::decode(bytes, &KEY) {
        let written = store::encode(&snapshot).expect("JSON holds finite numbers only");
        let again = store::decode(&written, &KEY).expect("we wrote it");
        assert_eq!(again, snapshot);
    }
}
