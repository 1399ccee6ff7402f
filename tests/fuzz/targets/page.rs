//! A page may be asked for anything, over a store in which anything lies: there is an answer, and it is no fault of ours. An input is
//! an object where it begins as one (JSON or gzip), else a request: `GET /path?query` and lines of headers.
#![no_main]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use store::{Location, Store};
use tokio::runtime::Runtime;
use view::{Shown, Unserved, View};

const SAMPLE: &[u8] = include_bytes!("../seeds/stored_format/snapshot.json");
const NODE: &str = "job/1/attempt-0/diagnostics/node-a";
const FIRST: &str = "20261129T144054.169782Z-000000.json.gz";
const SECOND: &str = "20261129T144154.169782Z-000001.json.gz";
const HOST: (&str, &str) = ("host", "127.0.0.1");
/// What a snapshot shows on; the last ones ask for what the sample has.
const ADDRESSES: [&str; 14] = [
    "/",
    "/?at=20261129T144054.169782Z-000000",
    "/runs",
    "/part/verdict",
    "/part/stacks",
    "/part/stacks?with=2026-11-29T14:40:54.169782Z",
    "/part/stacks?ranks=0&against=1",
    "/part/processes",
    "/part/ipc",
    "/api/v1/timeline",
    "/api/v1/ranks",
    "/api/v1/why",
    "/api/v1/snapshot",
    "/value?pointer=/processes/0",
];

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    runtime.expect("threads can be had")
});

/// A store in a directory of this process, with the sample and what is fuzzed after it.
static STORE: LazyLock<PathBuf> = LazyLock::new(|| {
    let stores = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/fuzz-stores"
    ));
    let directory = stores.join(std::process::id().to_string());
    let snapshots = directory.join(NODE).join("snapshots");
    std::fs::create_dir_all(&snapshots).expect("a directory can be made");
    std::fs::write(snapshots.join(FIRST), gzip(SAMPLE)).expect("a file can be written");
    directory
});

fuzz_target!(|bytes: &[u8]| {
    let object = match bytes.first() {
        Some(b'{') => Some(gzip(bytes)),
        Some(0x1f) => Some(bytes.to_vec()),
        _ => None,
    };
    let second = STORE.join(NODE).join("snapshots").join(SECOND);
    let content = object.clone().unwrap_or_else(|| gzip(SAMPLE));
    std::fs::write(second, content).expect("a file can be written");
    RUNTIME.block_on(async {
        if object.is_some() {
            let page = page();
            for path in ADDRESSES {
                let (status, body) = page.ask("GET", path, &[HOST]).await.expect("a request");
                check("GET", path, status, &body);
            }
        } else {
            ask(&page(), &String::from_utf8_lossy(bytes)).await;
        }
    });
});

async fn ask(page: &Unserved, text: &str) {
    let mut lines = text.lines();
    let (method, path) = lines
        .next()
        .and_then(|line| line.split_once(' '))
        .unwrap_or_default();
    let mut headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    if headers
        .iter()
        .all(|(name, _)| !name.eq_ignore_ascii_case("host"))
    {
        headers.push(HOST);
    }
    if let Some((status, body)) = page.ask(method, path, &headers).await {
        check(method, path, status, &body);
    }
}

/// What is not to be had is said with 503; every other fault would be ours.
fn check(method: &str, path: &str, status: u16, body: &[u8]) {
    let is_no_fault = status < 500 || (status == 503 && (method == "HEAD" || !body.is_empty()));
    assert!(
        is_no_fault,
        "{method} {path}: {status} {}",
        String::from_utf8_lossy(body)
    );
}

/// A new one each time: what was read before is not looked at again.
fn page() -> Unserved {
    let location = Location::parse(".", &STORE).expect("it is a directory");
    let store = Store::open(&location).expect("it is a directory");
    Unserved::new(View::new(store, Shown::default(), 8 << 20, 1)).expect("there are random numbers")
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(text).expect("it goes to memory");
    gzip.finish().expect("it goes to memory")
}
