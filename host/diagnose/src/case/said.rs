//! What plugins and the environment say of a process: its rank and its group.

use std::collections::HashMap;

use model::{Process, ProcessId, Snapshot, Target, Value};

use crate::ending::{End, is_of_rank};

pub(crate) struct Said {
    pub(crate) rank: Option<u64>,
    pub(crate) group: Option<String>,
}

/// Rank and group of each process, as plugins said last.
pub(crate) fn notes<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> HashMap<ProcessId, Said> {
    let mut notes: HashMap<ProcessId, Said> = HashMap::new();
    for annotation in snapshots.flat_map(|snapshot| &snapshot.annotations) {
        let Target::Process(identity) = annotation.target else {
            continue;
        };
        let said = notes.entry(identity).or_insert(Said {
            rank: None,
            group: None,
        });
        match (annotation.key.as_str(), &annotation.value) {
            ("rank", Value::Number(number)) if *number >= 0.0 => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "ranks are small whole numbers"
                )]
                let rank = *number as u64;
                said.rank = Some(rank);
            }
            ("group", value) => said.group = Some(value.to_string()),
            _ => {}
        }
    }
    notes
}

pub(crate) fn number(process: &Process, variable: &str) -> Option<u64> {
    process.distributed_environment.get(variable)?.parse().ok()
}

/// The rank of a process: as plugins said, else as its environment; of one that ended before a look could show that, as its obituary.
pub(super) fn rank(said: Option<&Said>, process: &Process, end: Option<End<'_>>) -> Option<u64> {
    let of_end = end.map(|end| end.obituary).filter(|it| is_of_rank(it));
    said.and_then(|said| said.rank)
        .or_else(|| number(process, "RANK"))
        .or_else(|| of_end.and_then(|it| it.rank))
}
