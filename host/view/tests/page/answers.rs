//! What the page and its documents hold of a recorded run.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use model::Trigger;
use serde_json::{Value, json};
use taskscope_view::Shown;

use crate::client::{DEADLINE, Page};
use crate::job::{self, Job};

const STUCK: Job = Job {
    nodes: 2,
    ranks: 4,
    snapshots: 8,
    stuck: Some(5),
};

fn page(job: Job) -> (tempfile::TempDir, Page) {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), job);
    let page = Page::of(root.path());
    (root, page)
}

/// Runs become the values.
fn spread(runs: &Value) -> Vec<Value> {
    let runs = runs.as_array().unwrap();
    let pairs = runs.chunks(2);
    pairs
        .flat_map(|pair| {
            let many = pair[1].as_f64().unwrap();
            let times = (0..).take_while(move |time| f64::from(*time) < many);
            times.map(|_| pair[0].clone())
        })
        .collect()
}

#[test]
fn the_page_begins_with_what_is_wrong() {
    let (_root, page) = page(STUCK);
    let why = page.json("api/v1/why");
    let reply = page.get("");
    assert_eq!(reply.status, 200);
    let text = reply.text();
    let (verdict, time) = (text.find("id=\"verdict\""), text.find("id=\"timeline\""));
    assert!(verdict.is_some() && verdict < time, "{text}");
    let summary = why["why"]["summary"].as_str().unwrap();
    let escaped = summary.replace('&', "&amp;").replace('<', "&lt;");
    assert!(text.contains(&escaped), "{summary} is not in {text}");
    assert_eq!(why["why"]["culprit"]["rank"], 5, "{why}");
}

#[test]
fn since_when_it_stands_is_said_where_it_has_run_once_more_at_its_end_too() {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), STUCK);
    let mut last = job::snapshot(STUCK, 1, STUCK.snapshots - 1);
    let of_the_stuck = &mut last.processes[1].proc.threads[0];
    let since = of_the_stuck.unchanged_since.take().unwrap();
    last.capture.trigger = Some(Trigger::Signal);
    job::put(root.path(), &last);
    let page = Page::of(root.path());
    page.json("api/v1/why");
    let reply = page.get("");
    let text = reply.text();
    let before = job::snapshot(STUCK, 1, STUCK.snapshots - 2).capture;
    let said = format!(
        "<dt>since</dt><dd><time datetime=\"{since}\">{} UTC</time>, for 6 s then<",
        since.human()
    );
    assert!(text.contains(&said), "{said} is not in {text}");
    // Who follows the links comes to the instant before it was told to end.
    for link in ["href=\"?task=", "href=\"process?"] {
        let mut links = text.split(link).skip(1);
        let there = links
            .next()
            .unwrap_or_default()
            .split('"')
            .next()
            .unwrap_or_default();
        assert!(
            there.contains(&format!("at={}", before.id)),
            "{link}: {there}"
        );
    }
}

#[test]
fn a_stuck_rank_stands_out_in_the_matrix() {
    let (_root, page) = page(STUCK);
    let matrix = page.whole("api/v1/ranks");
    assert_eq!(matrix["ranks"], json!([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(matrix["nodes"], json!(["node-0", "node-1"]));
    assert_eq!(spread(&matrix["node_of"]), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(
        matrix["classes"],
        json!(["all_reduce (train.py:90)", "load_batch (train.py:13)"])
    );
    let columns = matrix["columns"].as_array().unwrap().len();
    assert_eq!(columns, 8);
    for column in 0..columns {
        let mut expected = [0; 8];
        expected[5] = i32::from(column >= 2);
        assert_eq!(spread(&matrix["cells"][column]), expected, "{column}");
    }
    let steps = spread(&matrix["steps"][7]);
    assert_eq!((&steps[4], &steps[5]), (&json!(4.0), &json!(2.0)));
}

#[test]
fn the_time_of_a_node_has_all_its_snapshots() {
    let (_root, page) = page(STUCK);
    let time = page.whole("api/v1/timeline?node=node-1");
    assert_eq!(
        (&time["node"], &time["snapshot_count"]),
        (&json!("node-1"), &json!(8))
    );
    assert_eq!(time["snapshots"].as_array().unwrap().len(), 8);
    assert_eq!(time["snapshots"][1], 1_000_000);
    assert_eq!(time["looks"]["processes"], json!([4, 4, 4, 4, 4, 4, 4, 4]));
    assert_eq!(time["troubles"], json!([]));
    let part = "api/v1/timeline?from=2026-11-30T00:53:22Z&to=2026-11-30T00:53:24Z";
    let part = page.whole(part);
    assert_eq!(part["looks"]["at"].as_array().unwrap().len(), 3, "{part}");
}

#[test]
fn another_instant_and_a_value_can_be_asked_for() {
    let (_root, page) = page(STUCK);
    let first = page.json("api/v1/snapshot?node=node-1&at=2026-11-30T00:53:20Z");
    assert_eq!(first["capture"]["sequence"], 0);
    let id = first["capture"]["id"].as_str().unwrap();
    let same = page.json(&format!("api/v1/snapshot?node=node-1&at={id}"));
    assert_eq!(first, same);
    let value = page.get(&format!(
        "value?node=node-1&at={id}&pointer=/processes/1/pid"
    ));
    assert!(value.text().contains("1005"), "{}", value.text());
    let early = page.get("api/v1/snapshot?at=2020-01-01T00:00:00Z");
    assert_eq!(early.status, 404);
    assert!(
        early.text().contains("16 from 2026-11-30T00:53:20"),
        "{}",
        early.text()
    );
    let part = page.get("part/verdict?at=2026-11-30T00:53:21Z");
    assert_eq!(part.status, 200);
    assert!(part.text().contains("class=\"summary\""));
}

#[test]
fn each_part_of_the_page_follows_the_instant() {
    let (_root, page) = page(STUCK);
    let at = "at=2026-11-30T00:53:27Z";
    let stacks = page.get(&format!("part/stacks?{at}")).text();
    assert!(stacks.contains("8 threads at 2 places"), "{stacks}");
    assert!(stacks.contains("load_batch (train.py:13) [5]"), "{stacks}");
    assert!(stacks.contains("class=\"frame focus\""), "{stacks}");
    let with = "with=2026-11-30T00:53:20Z";
    let compared = page.get(&format!("part/stacks?{at}&{with}")).text();
    assert!(compared.contains("class=\"frame more\""), "{compared}");
    assert!(
        compared.contains("<td class=\"number\">+1</td>"),
        "{compared}"
    );
    let same = page.get("part/stacks?at=2026-11-30T00:53:27Z&with=2026-11-30T00:53:26Z");
    assert!(same.text().contains("Every thread is where it was."));
    let processes = page.get(&format!("part/processes?{at}")).text();
    assert!(processes.contains("rank 5") && processes.contains("waits for a lock or a notice"));
    assert_eq!(page.get(&format!("part/ipc?{at}")).status, 200);
    let one = page.get(&format!("process?node=node-1&process=1005:100&{at}"));
    assert_eq!(one.status, 200);
    let text = one.text();
    for words in [
        "load_batch",
        "futex, FUTEX_WAIT_PRIVATE",
        "RANK",
        "Max cpu time",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let gone = page.get(&format!("process?node=node-1&process=1005:99&{at}"));
    assert_eq!(gone.status, 404);
}

#[test]
fn the_page_of_a_process_has_its_threads_memory_descriptors_limits_environment_and_gaps() {
    let root = tempfile::tempdir().unwrap();
    let mut snapshot = crate::sample::snapshot(0);
    let process = &mut snapshot.processes[0];
    process.pyspy.as_mut().unwrap().traces[0].owns_gil = true;
    job::put(root.path(), &snapshot);
    let page = Page::of(root.path());
    let process = &snapshot.processes[0];
    let text = page.get(&format!("process?process={}", process.identity));
    let text = text.text();
    let (name, value) = process.distributed_environment.iter().next().unwrap();
    for words in [
        "holds the GIL",
        "kernel stack",
        "futex_wait+0x1/0x2",
        "has not run since",
        "system call",
        "proportional (PSS)",
        "its own (USS)",
        &process.proc.file_descriptors[0].target,
        &process.proc.limits[0],
        name,
        value,
        "task/*/stack",
        "denied",
        "EACCES",
        "add CAP_SYS_ADMIN",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let traces = process.pyspy.as_ref().unwrap().traces.iter();
    let frames: usize = traces.map(|trace| trace.frames.len()).sum();
    assert_eq!(text.matches("<li><code>").count(), frames + 1, "{text}");
}

#[test]
fn stacks_of_some_ranks_are_compared_with_those_of_others_at_one_instant() {
    let (_root, page) = page(STUCK);
    let at = "at=2026-11-30T00:53:27Z";
    let apart = page.get(&format!("part/stacks?{at}&ranks=5")).text();
    assert!(apart.contains("rank 5 beside ranks 0-4,6,7"), "{apart}");
    let only = |class: &str, function: &str| {
        let mut branches = apart
            .split("<li class=\"")
            .filter(|it| it.starts_with(class));
        branches.any(|branch| branch.contains(function))
    };
    assert!(only("more", "load_batch (train.py:13)"), "{apart}");
    assert!(only("less", "all_reduce"), "{apart}");
    assert!(!only("more", "all_reduce"), "{apart}");
    let alike = page.get(&format!("part/stacks?{at}&ranks=0-1&against=2"));
    let text = alike.text();
    assert!(text.contains("They are all at the same places."), "{text}");
    for none in ["ranks=99", "ranks=0-7", "ranks=5&against=77"] {
        let reply = page.get(&format!("part/stacks?{at}&{none}"));
        assert_eq!(reply.status, 400, "{none}");
        assert!(reply.text().contains("it has the ranks 0-7"), "{none}");
    }
}

#[test]
fn the_documentation_is_served_and_searched() {
    let (_root, page) = page(STUCK);
    let causes = page.get("docs/causes.html");
    assert_eq!(causes.status, 200);
    assert!(causes.text().contains("<td id=\"rank-behind\">"));
    let sections = page.json("docs/search.json");
    let mut sections = sections.as_array().unwrap().iter();
    assert!(sections.any(|it| it["url"] == "causes.html#causes"));
    assert_eq!(page.get("docs").status, 308);
    assert_eq!(page.get("docs/none.html").status, 404);
}

#[test]
fn processes_are_in_the_order_of_age_where_their_numbers_began_anew() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        nodes: 1,
        ranks: 3,
        snapshots: 1,
        stuck: None,
    };
    let mut snapshot = job::snapshot(job, 0, 0);
    for (process, start) in snapshot.processes.iter_mut().zip([9, 7, 8]) {
        process.start_time_ticks = start;
        process.identity.start_time_ticks = start;
    }
    job::put(root.path(), &snapshot);
    let text = Page::of(root.path()).get("part/processes").text();
    let place = |pid: &str| text.find(&format!("process={pid}")).unwrap();
    assert!(
        place("1001") < place("1002") && place("1002") < place("1000"),
        "{text}"
    );
}

#[test]
fn what_processes_call_themselves_is_no_markup() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        nodes: 1,
        ranks: 1,
        snapshots: 1,
        stuck: None,
    };
    let mut snapshot = job::snapshot(job, 0, 0);
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{0}\u{202e}";
    snapshot.processes[0].command = evil.to_owned();
    snapshot.processes[0].cmdline = vec![evil.to_owned()];
    let stacks = snapshot.processes[0].pyspy.as_mut().unwrap();
    let mut frame = (*stacks.traces[0].frames[0]).clone();
    frame.name = evil.to_owned();
    frame.filename = evil.to_owned();
    stacks.traces[0].frames = vec![frame.into()];
    job::put(root.path(), &snapshot);
    let page = Page::of(root.path());
    for path in [
        "",
        "part/verdict",
        "part/stacks",
        "part/processes",
        "part/ipc",
        "process?process=1000:100",
        "value?pointer=/processes/0",
    ] {
        let reply = page.get(path);
        assert_eq!(reply.status, 200, "{path}");
        let text = reply.text();
        assert!(
            !text.contains("<script>alert") && !text.contains("<img"),
            "{path}: {text}"
        );
    }
}

#[test]
fn an_empty_store_and_none_at_all_say_how_to_fill_it() {
    let root = tempfile::tempdir().unwrap();
    for directory in [root.path().to_owned(), root.path().join("none")] {
        let page = Page::of(&directory);
        let reply = page.get("");
        assert_eq!(reply.status, 404);
        assert!(reply.text().contains("taskscope run"), "{}", reply.text());
        // It shows them as they come.
        assert!(reply.text().contains("src=\"assets/wait.js\""));
        assert_eq!(page.get("assets/wait.js").status, 200);
        assert_eq!(page.json("api/v1/runs"), json!([]));
        assert_eq!(page.get("runs").status, 200);
    }
}

#[test]
fn the_shown_run_comes_first_and_others_by_name() {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), STUCK);
    let shown = Shown {
        node: Some("node-1".to_owned()),
        attempt: Some(0),
        task: Some("Flow/17/train/3".parse().unwrap()),
    };
    let page = Page::shown(root.path(), shown);
    assert_eq!(page.whole("api/v1/timeline")["node"], "node-1");
    let run = page.json("api/v1/run?task=Flow/17/train/3&attempt=0");
    assert_eq!(run["nodes"][0]["snapshots"], 8);
    assert_eq!(page.get("api/v1/run?attempt=7").status, 404);
    let words = page.get("api/v1/timeline?node=node-9").text();
    assert!(words.contains("it has node-0, node-1"), "{words}");
}

#[test]
fn who_listens_is_told_of_a_new_snapshot() {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), STUCK);
    let page = Page::of(root.path());
    let mut stream = TcpStream::connect(page.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!(
        "GET {}events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        page.home
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "content-type: text/event-stream"));
    job::put(root.path(), &job::snapshot(STUCK, 0, 8));
    assert!(lines.any(|line| line == "event: change"));
    let data = lines.next().unwrap();
    let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(data["snapshots"], 17);
}
