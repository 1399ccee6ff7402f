//! Snapshots that are cut, empty or mad: an answer, never a panic.

use std::sync::LazyLock;

use model::Obituary;
use proptest::prelude::*;
use serde_json::Value;
use taskscope_diagnose::{History, Merged, Recent, Selection, State, Tuning, Verdict, judge, twin};

use crate::rules::{self, Job};
use crate::story::{add_thread, ask, futex, on, polls, runs, semaphore, story};

fn job() -> Vec<model::Snapshot> {
    story(6, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3 {
            let doing = if rank == 1 {
                on("read", 4, "pipe:[1]")
            } else {
                futex("0x1")
            };
            shot.rank(
                rank,
                20 + i32::try_from(rank).unwrap(),
                &doing.at(&["all_reduce dist.py 5", "main train.py 3"]),
            );
        }
        let worker = shot.process(30, 21, &semaphore("0xa0").at(&["put data.py 3"]));
        add_thread(worker, 31, &runs(instant).at(&["fill data.py 9"]));
        shot.zombie(32, 21, None, Some(11));
        shot.pipe("pipe:[1]", &[21], &[21, 30], 5);
        shot.unix(("socket:[1]", 20), ("socket:[2]", 22));
        shot.lock("/w/index", 20, &[22]);
        shot.shared("0xa0", &[30], &[21, 30]);
        shot.cgroup();
    })
}

#[test]
fn nothing_at_all_is_unknown() {
    assert_eq!(judge(&[]).verdict.verdict, State::Unknown);
    let history = History {
        snapshots: Vec::new(),
        ends: Vec::new(),
    };
    assert_eq!(judge(&[history]).verdict.verdict, State::Unknown);
    assert_ne!(ask(&story(1, |_, _| {})).verdict, State::Hung);
    assert_ne!(ask(&story(6, |_, _| {})).verdict, State::Hung);
}

/// Takes the value at the `pick`-th place of a document away, or puts another there.
fn damage(value: &mut Value, pick: usize, by: &Value) {
    let mut places = Vec::new();
    collect(value, String::new(), &mut places);
    let place = places[pick % places.len()].clone();
    if let Some((parent, key)) = place.rsplit_once('/') {
        match value.pointer_mut(parent) {
            Some(Value::Object(map)) if by.is_null() => drop(map.remove(key)),
            Some(Value::Object(map)) => drop(map.insert(key.to_owned(), by.clone())),
            Some(Value::Array(list)) => {
                let index: usize = key.parse().unwrap();
                if by.is_null() {
                    drop(list.remove(index));
                } else {
                    list[index] = by.clone();
                }
            }
            _ => {}
        }
    }
}

fn collect(value: &Value, path: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect(value, format!("{path}/{key}"), places);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{path}/{index}"), places);
            }
        }
        _ => {}
    }
    if !path.is_empty() {
        places.push(path);
    }
}

/// As many cases as `PROPTEST_CASES` asks for; where it asks for none, proptest's own number, fewer.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if config.cases == 256 {
        96
    } else {
        config.cases
    };
    ProptestConfig { cases, ..config }
}

/// Jobs of every kind, as documents, with the ends of their processes.
static JOBS: LazyLock<Vec<(Vec<Value>, Vec<Obituary>)>> = LazyLock::new(|| {
    let mut jobs = rules::jobs();
    jobs.push(job().into());
    let documents = |job: &Job| {
        let snapshots = job.snapshots.iter();
        let documents = snapshots.map(|it| serde_json::to_value(it).unwrap());
        documents.collect()
    };
    let jobs = jobs.iter().map(|job| (documents(job), job.ends.clone()));
    jobs.collect()
});

/// Whether each pointer of an answer, and of what was found beside it, leads to the value that it cites.
fn resolves(verdict: &Verdict, documents: &[Value], ends: &[Obituary]) -> bool {
    let records = serde_json::json!({"obituaries": ends});
    let is_there = |evidence: &taskscope_diagnose::Evidence| {
        let of_id = |it: &&Value| it["capture"]["id"] == evidence.snapshot.as_str();
        let mut all = documents.iter().filter(of_id);
        let found = |it: &Value| it.pointer(&evidence.path) == Some(&evidence.value);
        (evidence.snapshot == rules::RECORD && found(&records)) || all.any(found)
    };
    verdict.evidence.iter().all(is_there)
        && verdict
            .findings
            .iter()
            .all(|it| resolves(it, documents, ends))
}

proptest! {
    #![proptest_config(config())]

    /// Values and whole records are taken away or become others, snapshots are missing: whatever comes of that is an answer, of
    /// judging live and of merging as well.
    #[test]
    fn damaged_snapshots_are_judged_without_a_panic_and_every_pointer_resolves(
        which in 0..JOBS.len(),
        picks in proptest::collection::vec((0_usize..16, 0_usize..4000, 0_usize..6), 1..12),
        cut in (0_usize..8, 0_usize..3),
    ) {
        let values = [Value::Null, Value::from(0), Value::from(-1), Value::from(u64::MAX), Value::from("x"), Value::from(21)];
        let (mut documents, ends) = JOBS[which].clone();
        for (snapshot, pick, by) in picks {
            let snapshot = snapshot % documents.len();
            let mut damaged = documents[snapshot].clone();
            damage(&mut damaged, pick, &values[by]);
            // What is no snapshot any more is not read at all.
            if serde_json::from_value::<model::Snapshot>(damaged.clone()).is_ok() {
                documents[snapshot] = damaged;
            }
        }
        let kept = documents.len().saturating_sub(cut.0).max(1);
        documents.truncate(kept);
        documents.drain(..cut.1.min(kept - 1));
        let snapshots = documents.iter().map(|it| serde_json::from_value(it.clone()).unwrap());
        let mut job = Job::from(snapshots.collect::<Vec<model::Snapshot>>());
        job.ends = ends;
        // As it is written again: a number may have become another of the same value.
        let documents: Vec<Value> = job.snapshots.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
        let histories = [job.history()];
        let verdict = judge(&histories).verdict;
        prop_assert!(resolves(&verdict, &documents, &job.ends), "{verdict:#?}");
        prop_assert_eq!(&judge(&histories).verdict, &verdict);
        _ = twin(&histories, &verdict);
        let all: Vec<&model::Snapshot> = job.snapshots.iter().collect();
        _ = Merged::of(&all, &Selection::default());
        let mut recent = Recent::new(Tuning::default());
        for (snapshot, document) in job.snapshots.iter().zip(&documents) {
            for finding in recent.judge(snapshot, &[]).findings {
                for evidence in &finding.evidence {
                    let found = document.pointer(&evidence.pointer).map(Value::to_string);
                    prop_assert_eq!(found.as_ref(), Some(&evidence.value), "{}", evidence.pointer);
                }
            }
        }
    }
}
