//! Many snapshots: memory stays as it is.

use model::OutcomeKind;
use taskscope_plugin::{ComponentSource, Entry};

use crate::{PATIENCE, guest, load, machine, outcome, ranks, said};

const SNAPSHOTS: usize = 2_000;
/// After so many everything has its size.
const WARM: usize = 200;

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * u64::try_from(rustix::param::page_size()).unwrap()
}

fn builtin(name: &str, instance: &str, config_json: &str) -> Entry {
    Entry {
        component: ComponentSource::Builtin(name.to_owned()),
        config_json: config_json.to_owned(),
        instance: instance.to_owned(),
        ..ranks()
    }
}

fn tags() -> Entry {
    let rules = r#"{"rules":[{"tag":"reader","name":"."}]}"#;
    builtin("process-tags", "tags", rules)
}

fn focus() -> Entry {
    builtin("focus-files", "focus", r#"{"focus-files":["**"]}"#)
}

#[tokio::test]
async fn after_two_thousand_snapshots_memory_is_what_it_was() {
    if !testkit::alone("soak::after_two_thousand_snapshots_memory_is_what_it_was") {
        return;
    }
    let builtins = ["ranks", "tags", "focus"];
    let mut plugins = load(vec![ranks(), tags(), focus(), guest("age")]);
    let (mut before, mut oldest) = (0, 0);
    let (mut guests_before, mut guests_most) = ([0; 3], [0; 3]);
    for count in 1..=SNAPSHOTS {
        let snapshot = plugins.enrich(machine::snapshot(4), PATIENCE).await;
        let memory = builtins.map(|instance| {
            let outcome = outcome(&snapshot, instance);
            assert_eq!(outcome.outcome, OutcomeKind::Ok, "{outcome:?}");
            assert!(outcome.annotations > 0, "{outcome:?}");
            outcome.memory_bytes.unwrap()
        });
        if count == WARM {
            (before, guests_before) = (resident(), memory);
        }
        for (most, memory) in guests_most.iter_mut().zip(memory) {
            *most = memory.max(*most);
        }
        let age: usize = said(&snapshot, "odd/age")[0].1.parse().unwrap();
        oldest = oldest.max(age);
        // Kept when an instance is made anew.
        assert_eq!(said(&snapshot, "odd/total")[0].1, count.to_string());
    }
    assert_eq!(guests_most, guests_before);
    assert_eq!(
        oldest, 1_000,
        "after so many calls an instance is made anew"
    );
    let grown = resident().saturating_sub(before) >> 20;
    assert!(grown < 16, "{grown} MiB more");
}
