//! What lies beside the snapshots: ends of processes, stages, samples; on the axis of time, and as evidence.

use serde_json::{Value, json};

use crate::client::Page;
use crate::job::{self, Job};

const ENDED: Job = Job {
    nodes: 1,
    ranks: 4,
    snapshots: 8,
    stuck: Some(1),
};

fn page() -> (tempfile::TempDir, Page) {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), ENDED);
    job::put_records(root.path(), ENDED);
    let page = Page::of(root.path());
    (root, page)
}

/// The first of a list whose field is this.
fn with<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|it| it[field] == value).unwrap_or(&Value::Null)
}

#[test]
fn ends_stages_samples_gpus_and_findings_are_on_the_axis_of_time() {
    let (_root, page) = page();
    let time = page.whole("api/v1/timeline");
    let end = with(&time["events"], "kind", "end");
    assert!(
        end["words"].as_str().unwrap().contains("train.py"),
        "{time}"
    );
    assert_eq!(end["at"], time["to"], "the end is at the last instant");
    let stage = with(&time["events"], "kind", "stage");
    assert_eq!(
        (&stage["words"], &stage["until"]),
        (&json!("fit"), &Value::Null)
    );
    let from = time["from"].as_i64().unwrap();
    assert_eq!(stage["at"], from + 2_000_000);
    assert_eq!(time["curve"]["tree_rss_bytes"], json!([1 << 20, 1 << 20]));
    assert_eq!(time["looks"]["gpu_percent"], json!(vec![97.0; 8]));
    // They began at the fourth of the snapshots, each a second after the one before.
    assert_eq!(time["found"], json!([[from + 3_000_000, from + 7_000_000]]));
    assert_eq!(time["looks"]["findings"][2], json!([]));
    assert_eq!(time["looks"]["findings"][3][0]["kind"], "missing-ranks");
    assert_eq!(time["troubles"], json!([]));
}

#[test]
fn what_an_obituary_shows_is_a_link_that_leads_to_its_value() {
    let (_root, page) = page();
    let why = page.json("api/v1/why");
    assert_eq!(why["why"]["verdict"], "failed", "{why}");
    let text = page.get("part/verdict").text();
    let mut links = text
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next());
    let link = links
        .find(|link| link.contains("record=obituaries"))
        .unwrap();
    let value = page.get(&link.replace("&amp;", "&"));
    assert_eq!(value.status, 200, "{link}: {}", value.text());
    assert!(
        value.text().contains("&quot;signal&quot;: 11"),
        "{}",
        value.text()
    );
    // Before it happened nobody knows of it.
    let early = page.json("api/v1/why?at=2026-11-30T00:53:25Z");
    assert_ne!(early["why"]["verdict"], "failed", "{early}");
}

#[test]
fn a_record_is_named_and_no_path() {
    let (_root, page) = page();
    for name in [
        "obituaries/..%2f..%2fx",
        "..%2freport.json",
        "obituaries/x.json.gz",
        "%2fetc%2fpasswd",
        "",
    ] {
        let reply = page.get(&format!("value?pointer=/a&record={name}"));
        assert_eq!(reply.status, 400, "{name}: {}", reply.text());
    }
    let gone = "obituaries/20261129T144054.169782Z-00c0ffee.json.gz";
    assert_eq!(
        page.get(&format!("value?pointer=/a&record={gone}")).status,
        404
    );
    assert_eq!(
        page.get("value?pointer=/stages/0/name&record=report.json")
            .status,
        200
    );
}
