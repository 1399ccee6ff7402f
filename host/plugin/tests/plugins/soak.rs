//! Many snapshots: memory stays as it is.

use model::OutcomeKind;

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

#[tokio::test]
async fn after_two_thousand_snapshots_memory_is_what_it_was() {
    let mut plugins = load(vec![ranks(), guest("age")]);
    let (mut before, mut oldest) = (0, 0);
    let (mut guest_before, mut guest_most) = (0, 0);
    for count in 1..=SNAPSHOTS {
        let snapshot = plugins.enrich(machine::snapshot(4), PATIENCE).await;
        let outcome = outcome(&snapshot, "ranks");
        assert_eq!(outcome.outcome, OutcomeKind::Ok, "{outcome:?}");
        let memory = outcome.memory_bytes.unwrap();
        if count == WARM {
            (before, guest_before) = (resident(), memory);
        }
        guest_most = guest_most.max(memory);
        let age: usize = said(&snapshot, "odd/age")[0].1.parse().unwrap();
        oldest = oldest.max(age);
    }
    assert_eq!(guest_most, guest_before);
    assert_eq!(
        oldest, 1_000,
        "after so many calls an instance is made anew"
    );
    // Other tests run beside this one, in the same process.
    let grown = resident().saturating_sub(before) >> 20;
    assert!(grown < 64, "{grown} MiB more");
}
