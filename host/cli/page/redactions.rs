//! What was replaced by `[redacted]` before anything of a snapshot was kept, and by which rule.

use model::{ProcessId, Snapshot};
use serde::Serialize;

use super::table;
use super::text::{cut, safe};

/// The widest that a command may be.
const COMMAND_WIDTH: usize = 60;

/// One text that was replaced.
#[derive(Debug, Serialize)]
pub(crate) struct Replaced<'a> {
    /// As it was kept, which is without what was replaced.
    command: &'a str,
    place: &'a str,
    process: ProcessId,
    rule: &'a str,
}

/// Returns what was replaced in `snapshot`, by process; of `pid` alone where one is given.
pub(crate) fn redactions(snapshot: &Snapshot, pid: Option<i32>) -> Vec<Replaced<'_>> {
    let processes = snapshot.processes.iter();
    let wanted = processes.filter(|process| pid.is_none_or(|pid| process.pid == pid));
    let replaced = wanted.flat_map(|process| {
        process.redactions.iter().map(|redaction| Replaced {
            command: &process.command,
            place: &redaction.place,
            process: process.identity,
            rule: &redaction.pattern,
        })
    });
    replaced.collect()
}

/// Returns them as a table.
pub(crate) fn page(replaced: &[Replaced<'_>]) -> String {
    if replaced.is_empty() {
        return "Nothing was replaced.\n".to_owned();
    }
    let mut rows = vec![["PID", "WHERE", "RULE", "COMMAND"].map(str::to_owned)];
    rows.extend(replaced.iter().map(|one| {
        [
            one.process.pid.to_string(),
            safe(one.place),
            safe(one.rule),
            cut(&safe(one.command), COMMAND_WIDTH),
        ]
    }));
    table::align(&rows)
}
