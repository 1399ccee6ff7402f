//! Stacks from files, for tests: `PID.json` in py-spy's form.

use std::io::ErrorKind;
use std::path::Path;

use model::{GapCode, ProcessId, StackSourceName, Stacks};

use super::{Reading, gap};

/// Reads the recorded stacks of `process`. No file: there was nobody to read it.
pub(super) fn read(directory: &Path, process: ProcessId) -> Reading {
    let path = directory.join(format!("{}.json", process.pid));
    let refused = |code, error: &dyn std::fmt::Display| {
        Reading::Gap(gap(process, code).with_detail(format!("{}: {error}", path.display())))
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return refused(GapCode::NoReader, &error);
        }
        Err(error) => return refused(GapCode::Failed, &error),
    };
    match serde_json::from_slice(&bytes) {
        Ok(traces) => {
            let stacks = Stacks {
                source: StackSourceName::Recorded,
                traces,
                unchanged_since: None,
                version: None,
            };
            Reading::Stacks(stacks, Vec::new())
        }
        Err(error) => refused(GapCode::Malformed, &error),
    }
}
