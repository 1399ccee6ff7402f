//! Glue between the `enricher` world and the rule in [`rule`]: asks the host for processes and their distributed
//! environment, and hands back what the rule says.

mod bindings {
    #![expect(clippy::pedantic, reason = "generated")]
    wit_bindgen::generate!({ world: "enricher", path: "../../wit" });
}
mod group;
mod job;
mod ranges;
mod rule;

use std::cell::RefCell;
use std::collections::BTreeMap;

use bindings::exports::taskscope::plugin::enrich::{Enrichment, Guest as Enrich};
use bindings::exports::taskscope::plugin::plugin::{Context, Description, Guest as Plugin, Needs};
use bindings::taskscope::plugin::snapshot;
use bindings::taskscope::plugin::types::{self, Error, RunState, Runtime, Severity};

use rule::{Process, Target, Value};

struct TorchrunRanks;

/// What was looked at last and what the rule said of it: most snapshots have the same processes as the one before.
struct Last {
    processes: Vec<Process>,
    said: Enrichment,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = RefCell::default();
}

impl Plugin for TorchrunRanks {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            needs: Needs::PROCESSES | Needs::ENVIRONMENT,
            config_schema: None,
            requires: vec![job::REQUIRED.to_owned()],
        }
    }

    fn init(_context: Context) -> Result<(), Error> {
        Ok(())
    }
}

impl Enrich for TorchrunRanks {
    fn run() -> Result<Enrichment, Error> {
        let processes = processes();
        LAST.with_borrow_mut(|last| {
            let known = last.take().filter(|last| last.processes == processes);
            let last = last.insert(known.unwrap_or_else(|| Last::of(processes)));
            Ok(last.said.clone())
        })
    }
}

impl Last {
    fn of(processes: Vec<Process>) -> Self {
        let answer = rule::judge(&processes);
        let said = Enrichment {
            annotations: answer.annotations.into_iter().map(annotation).collect(),
            findings: answer.findings.into_iter().map(finding).collect(),
        };
        Self { processes, said }
    }
}

fn processes() -> Vec<Process> {
    let names: Vec<String> = job::VARIABLES.iter().map(|&name| name.to_owned()).collect();
    let mut environments: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    for found in snapshot::environment(&names) {
        let environment = environments.entry(found.pid).or_default();
        environment.insert(found.name, found.value);
    }
    let process = |process: types::Process| Process {
        cmdline: process.cmdline,
        environment: environments.remove(&process.pid).unwrap_or_default(),
        name: process.name,
        pid: process.pid,
        ppid: process.ppid,
        python: process.runtime == Runtime::Python,
        start_ticks: process.start_ticks,
        zombie: process.state == RunState::Zombie,
    };
    snapshot::processes().into_iter().map(process).collect()
}

fn annotation(annotation: rule::Annotation) -> types::Annotation {
    types::Annotation {
        target: target(annotation.target),
        key: annotation.key.to_owned(),
        value: match annotation.value {
            Value::Text(text) => types::Value::Text(text),
            Value::Number(number) => types::Value::Number(f64::from(number)),
        },
    }
}

fn finding(finding: rule::Finding) -> types::Finding {
    types::Finding {
        kind: finding.kind.to_owned(),
        severity: Severity::Warning,
        message: finding.message,
        target: target(Target::Group(finding.group)),
        evidence: finding
            .evidence
            .into_iter()
            .map(|(pointer, value)| types::Evidence { pointer, value })
            .collect(),
    }
}

fn target(target: Target) -> types::Target {
    match target {
        Target::Process(pid) => types::Target::Process(pid),
        Target::Group(name) => types::Target::Group(name),
    }
}

bindings::export!(TorchrunRanks with_types_in bindings);
