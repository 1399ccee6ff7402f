//! The page in a headless Chromium: nothing on its console, nothing asked elsewhere, nothing that axe finds serious, in a wide
//! window that is light and a narrow one that is dark. Pictures of both are left in `target/tmp/page` for people to look at.

use std::path::Path;
use std::process::Command;

use crate::client::Page;
use crate::job::{self, Job};

/// Where distributions put it.
const CHROMIUM: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];
const REQUIREMENTS: [&str; 2] = ["playwright==1.65.2", "axe-playwright-python==0.1.8"];

#[test]
fn a_thousand_ranks_are_a_page_that_a_browser_finds_no_fault_with() {
    let Some(chromium) = CHROMIUM.iter().find(|path| Path::new(path).exists()) else {
        eprintln!("SKIPPED: there is no Chromium; `apt-get install chromium` brings it");
        return;
    };
    let Some(python) = testkit::venv(testkit::newest_python(), &REQUIREMENTS) else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        nodes: 16,
        ranks: 64,
        snapshots: 7,
        stuck: Some(517),
    };
    job::write(root.path(), job);
    let page = Page::of(root.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/browser.py");
    let shots = concat!(env!("CARGO_TARGET_TMPDIR"), "/page");
    std::fs::create_dir_all(shots).unwrap();
    let looked = Command::new(python)
        .args([script, &page.url(), chromium, shots])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&looked.stdout);
    let complaint = String::from_utf8_lossy(&looked.stderr);
    assert!(looked.status.success(), "{said}\n{complaint}");
}
