//! Plugins that want all the time, memory or words that there are: each costs its own outcome, and nothing else.

use std::time::{Duration, Instant};

use model::OutcomeKind::{self, OutOfTime, OverLimit, Trapped};
use taskscope_plugin::Entry;

use crate::{PATIENCE, assert_only_added, guest, load, machine, outcome, ranks, said};

/// What is done, how it ends, and in which words; `*` stands for a place in the guest's source.
const CASES: [(&str, OutcomeKind, &str); 9] = [
    ("loop", OutOfTime, "no answer within 1s"),
    ("sleep", OutOfTime, "no answer within 1s"),
    ("flood", OutOfTime, "no answer within 1s"),
    (
        "grow",
        OverLimit,
        "it wanted more than 16 MiB of memory (panicked at testing/src/hostile.rs:*: no 4 GiB for me)",
    ),
    ("eat", OverLimit, "it wanted more than 16 MiB of memory (*)"),
    (
        "recurse",
        Trapped,
        "its calls went deeper than the stack of 1 MiB",
    ),
    ("not-utf8", Trapped, "it handed over text that is not UTF-8"),
    (
        "pour",
        OverLimit,
        "it handed over more than 16 MiB in one call",
    ),
    (
        "huge",
        OverLimit,
        "it wanted more than 16 MiB of memory (*)",
    ),
];

fn hostile(what: &str, kind: OutcomeKind) -> Entry {
    let deadline = match kind {
        OutOfTime => Duration::from_secs(1),
        _ => PATIENCE,
    };
    Entry {
        deadline,
        instance: what.to_owned(),
        memory_bytes: 16 << 20,
        ..guest(what)
    }
}

#[tokio::test]
async fn whatever_a_plugin_does_the_rest_is_as_it_is_without_it_and_the_next_snapshot_comes() {
    let entries = CASES.iter().map(|&(what, kind, _)| hostile(what, kind));
    let mut plugins = load(entries.chain([ranks()]).collect());
    plugins.ready(PATIENCE).await; // so that only calls count, and no compiler
    let before = machine::snapshot(2);
    for _ in 0..2 {
        let begun = Instant::now();
        let snapshot = plugins.enrich(before.clone(), PATIENCE).await;
        // Three deadlines of a second; on a busy machine the other calls take a while, too.
        assert!(begun.elapsed() < Duration::from_mins(2));
        assert_only_added(&snapshot, &before);
        assert_eq!(
            said(&snapshot, "rank"),
            [(200, "0".to_owned()), (201, "1".to_owned())]
        );
        assert_eq!(outcome(&snapshot, "ranks").outcome, OutcomeKind::Ok);
        for (what, kind, expected) in CASES {
            let outcome = outcome(&snapshot, what);
            let message = outcome.message.as_deref().unwrap_or_default();
            let (first, rest) = match outcome.outcome {
                OutcomeKind::BackedOff => (kind, message.split_once(": ").unwrap().1),
                other => (other, message),
            };
            assert_eq!(first, kind, "{what}: {message}");
            let (start, end) = expected.split_once('*').unwrap_or((expected, expected));
            assert!(
                rest.starts_with(start) && rest.ends_with(end),
                "{what}: {message}"
            );
        }
    }
}

#[tokio::test]
async fn an_instance_that_has_grown_to_four_times_its_size_is_made_anew() {
    let mut plugins = load(vec![guest("hoard")]);
    for _ in 0..12 {
        let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
        let outcome = outcome(&snapshot, "odd");
        assert_eq!(outcome.outcome, OutcomeKind::Ok, "{outcome:?}");
        let memory = outcome.memory_bytes.unwrap();
        // It starts with little over 1 MiB and keeps 2 MiB more of each call.
        assert!(memory < 10 << 20, "{memory}");
    }
}
