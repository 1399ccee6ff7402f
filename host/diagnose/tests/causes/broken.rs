//! Snapshots that are cut, empty or mad: an answer, never a panic.

use proptest::prelude::*;
use serde_json::Value;
use taskscope_diagnose::{History, State, judge};

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_snapshots_are_judged_without_a_panic_and_every_pointer_resolves(
        picks in proptest::collection::vec((0_usize..6, 0_usize..4000, 0_usize..6), 1..12),
    ) {
        let values = [Value::Null, Value::from(0), Value::from(-1), Value::from(u64::MAX), Value::from("x"), Value::from(21)];
        let mut documents: Vec<Value> = job().iter().map(|it| serde_json::to_value(it).unwrap()).collect();
        for (snapshot, pick, by) in picks {
            let mut damaged = documents[snapshot].clone();
            damage(&mut damaged, pick, &values[by]);
            // What is no snapshot any more is not read at all.
            if serde_json::from_value::<model::Snapshot>(damaged.clone()).is_ok() {
                documents[snapshot] = damaged;
            }
        }
        let snapshots: Vec<model::Snapshot> = documents.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
        let history = History { snapshots: snapshots.iter().collect(), ends: Vec::new() };
        let verdict = judge(&[history]).verdict;
        for evidence in &verdict.evidence {
            let found = snapshots.iter().any(|it| {
                serde_json::to_value(it).unwrap().pointer(&evidence.path) == Some(&evidence.value)
            });
            prop_assert!(found, "{}", evidence.path);
        }
    }
}
