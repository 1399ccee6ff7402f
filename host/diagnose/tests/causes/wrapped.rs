//! The same story where the kernel gave PIDs and TIDs the other way round, as it does in part when it begins anew at the lowest: the
//! answer is the same.

use model::Snapshot;
use serde_json::Value;
use taskscope_diagnose::{Culprit, History, Verdict, judge};

use super::story::identity;

/// A number is turned to this less the number.
const TURN: i64 = 20_000;

/// The keys of PIDs and TIDs.
const NUMBERS: [&str; 9] = [
    "holder_pid",
    "os_thread_id",
    "owner_tid",
    "pid",
    "ppid",
    "thread_id",
    "tid",
    "waiters",
    "waits_for",
];

/// Asserts that `verdict`, the answer to `nodes`, is the answer to the turned story.
pub(crate) fn is_the_same(verdict: &Verdict, nodes: &[&[Snapshot]]) {
    let turned = nodes.iter().map(|snapshots| snapshots.iter().map(turned));
    let turned: Vec<Vec<Snapshot>> = turned.map(Iterator::collect).collect();
    let histories = turned.iter().map(|snapshots| History {
        snapshots: snapshots.iter().collect(),
        ends: Vec::new(),
    });
    let again = judge(&histories.collect::<Vec<_>>()).verdict;
    let told = |pid: i32| i32::try_from(TURN).unwrap() - pid;
    let kept = |pid: i32| pid;
    assert_eq!(
        in_short(&again, told),
        in_short(verdict, kept),
        "where PIDs are turned: {}\nelse: {}",
        again.summary,
        verdict.summary
    );
}

/// What must not depend on the order of numbers.
fn in_short(verdict: &Verdict, number: impl Fn(i32) -> i32) -> (String, Vec<String>) {
    let culprit = verdict.culprit.as_ref();
    // Of several threads that lock each other up any is right, but the main one comes first.
    let main = |it: &Culprit| it.thread.map(|thread| thread == it.pid);
    let culprit = culprit.map(|it| (&it.node, number(it.pid), main(it)));
    let victims = verdict.victims.iter();
    let victims = victims.map(|it| format!("{} {}", it.node, number(it.pid)));
    let mut victims: Vec<String> = victims.collect();
    victims.sort();
    let (state, cause) = (verdict.verdict, verdict.cause);
    (format!("{state:?} {cause:?} {culprit:?}"), victims)
}

fn turned(snapshot: &Snapshot) -> Snapshot {
    let mut document = serde_json::to_value(snapshot).unwrap();
    turn(&mut document, "");
    let mut snapshot: Snapshot = serde_json::from_value(document).unwrap();
    snapshot.processes.sort_by_key(|process| process.pid);
    for process in &mut snapshot.processes {
        let pid = process.pid;
        let threads = &mut process.proc.threads;
        threads.sort_by_key(|thread| (thread.tid != pid, thread.tid));
    }
    snapshot
}

fn turn(value: &mut Value, key: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| turn(item, key)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, item)| turn(item, key)),
        Value::Number(number) if NUMBERS.contains(&key) => {
            if let Some(known @ 1..) = number.as_i64() {
                *value = (TURN - known).into();
            }
        }
        Value::String(text) => {
            let pid = text.split_once(':').and_then(|(pid, _)| pid.parse().ok());
            if let Some(pid) = pid.filter(|pid| *pid > 0 && identity(*pid).to_string() == *text) {
                let start = identity(pid).start_time_ticks;
                *text = format!("{}:{start}", TURN - i64::from(pid));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
