//! Glue between the `sink` world and the rule in [`rule`]: hands over findings, and posts what it decides to tell.

mod bindings {
    #![expect(clippy::pedantic, reason = "generated")]
    wit_bindgen::generate!({ world: "sink", path: "../../wit" });
}
mod rule;
mod settings;
mod template;

use std::cell::RefCell;

use bindings::exports::taskscope::plugin::deliver::{CloseReason, Guest as Deliver, Receipt};
use bindings::exports::taskscope::plugin::plugin::{Context, Description, Guest as Plugin, Needs};
use bindings::taskscope::plugin::http::{self, Filled, Header, Method, Request, Response};
use bindings::taskscope::plugin::storage::Content;
use bindings::taskscope::plugin::types::{Error, ErrorKind, Finding, Process, Severity, Target};
use bindings::taskscope::plugin::{snapshot, state};

use rule::{Fact, Head, Later, Memory};
use settings::Settings;

/// Where the episodes are remembered.
const MEMORY: &str = "episodes";
/// Bytes of a refusal's body that are told.
const TOLD_BYTES: usize = 200;

struct Webhook;

thread_local! {
    static SETTINGS: RefCell<Option<Settings>> = const { RefCell::new(None) };
}

impl Plugin for Webhook {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            needs: Needs::PROCESSES | Needs::FINDINGS,
            config_schema: Some(include_str!("../config.schema.json").to_owned()),
            requires: vec!["http = [\"https://…\"]".to_owned()],
        }
    }

    fn init(context: Context) -> Result<(), Error> {
        let settings = Settings::parse(&context.config);
        SETTINGS.set(Some(
            settings.map_err(|message| error(ErrorKind::Config, message))?,
        ));
        Ok(())
    }
}

impl Deliver for Webhook {
    fn open() -> Result<(), Error> {
        Ok(())
    }

    fn write() -> Result<Receipt, Error> {
        SETTINGS.with_borrow(|settings| {
            let settings = settings
                .as_ref()
                .ok_or_else(|| error(ErrorKind::Internal, "no settings".to_owned()))?;
            deliver(settings)
        })
    }

    fn flush() -> Result<(), Error> {
        Ok(()) // nothing is kept back
    }

    fn close(_reason: CloseReason) {}
}

/// Tells of the findings whose episodes begin. The memory is kept once they are told, so whatever goes wrong before is
/// tried again with the next call.
fn deliver(settings: &Settings) -> Result<Receipt, Error> {
    let facts = facts(snapshot::findings());
    let memory = state::get(MEMORY)
        .map(|bytes| Memory::parse(&bytes))
        .unwrap_or_default();
    let decision = memory.decide(&facts, settings);
    if !decision.news.is_empty() {
        let about = snapshot::about();
        let head = Head {
            captured_at_ms: about.captured_at_ms,
            node: about.node,
            sequence: about.sequence,
            task: about.task,
        };
        post(settings, rule::body(&head, &decision.news, settings))?;
    }
    if decision.memory != memory {
        state::set(MEMORY, &decision.memory.bytes())?;
    }
    Ok(Receipt {
        delivered: u32::from(!decision.news.is_empty()),
        skipped: u32::try_from(decision.told_before).unwrap_or(u32::MAX),
    })
}

fn post(settings: &Settings, body: String) -> Result<(), Error> {
    let header = |name: &str, value: Filled| Header {
        name: name.to_owned(),
        value,
    };
    let mut headers = vec![header(
        "content-type",
        Filled::Text("application/json".to_owned()),
    )];
    for (name, value) in &settings.headers {
        headers.push(header(name, Filled::Template(value.clone())));
    }
    let response = http::send(&Request {
        method: Method::Post,
        url: Filled::Template(settings.url.clone()),
        headers,
        body: Some(Content::Bytes(body.into_bytes())),
        timeout_ms: None,
    })?;
    match rule::judge(response.status) {
        None => Ok(()),
        Some(Later::Perhaps) => {
            let wait = response
                .headers
                .iter()
                .find(|header| header.name == "retry-after");
            Err(Error {
                kind: ErrorKind::Unavailable,
                message: refusal(&response),
                retry_after_ms: wait.and_then(|header| rule::retry_after_ms(&header.value)),
            })
        }
        Some(Later::No) => Err(error(ErrorKind::Rejected, refusal(&response))),
    }
}

fn refusal(response: &Response) -> String {
    let body = String::from_utf8_lossy(&response.body);
    let body = body.trim();
    let status = response.status;
    if body.is_empty() {
        return format!("the service answered {status}");
    }
    format!(
        "the service answered {status}: {}",
        &body[..body.floor_char_boundary(TOLD_BYTES)]
    )
}

fn error(kind: ErrorKind, message: String) -> Error {
    Error {
        kind,
        message,
        retry_after_ms: None,
    }
}

/// Findings with the names of what they are about.
fn facts(findings: Vec<Finding>) -> Vec<Fact> {
    let is_of_one =
        |finding: &Finding| matches!(finding.target, Target::Process(_) | Target::Thread(_));
    // All processes, for those few whose start time is needed: only where there is such a finding.
    let processes = if findings.iter().any(is_of_one) {
        snapshot::processes()
    } else {
        Vec::new()
    };
    let fact = |finding: Finding| {
        let (about, target) = names(&finding.target, &processes);
        Fact {
            about,
            kind: finding.kind,
            message: finding.message,
            severity: match finding.severity {
                Severity::Info => settings::Severity::Info,
                Severity::Warning => settings::Severity::Warning,
                Severity::Error => settings::Severity::Error,
            },
            target,
        }
    };
    findings.into_iter().map(fact).collect()
}

/// What a finding is about: for the memory, the same over snapshots, and for a person.
fn names(target: &Target, processes: &[Process]) -> (String, String) {
    let process = |pid: u32| {
        let found = processes.iter().find(|process| process.pid == pid);
        let start = found.map(|process| process.start_ticks).unwrap_or_default();
        let name = found
            .map(|process| format!(" ({})", process.name))
            .unwrap_or_default();
        (
            format!("process {pid}:{start}"),
            format!("process {pid}{name}"),
        )
    };
    match target {
        Target::Snapshot => ("task".to_owned(), "the task".to_owned()),
        Target::Process(pid) => process(*pid),
        Target::Thread((pid, tid)) => {
            let (about, target) = process(*pid);
            (
                format!("{about} thread {tid}"),
                format!("thread {tid} of {target}"),
            )
        }
        // Their numbers are those of one snapshot.
        Target::Stack(_) => ("stack".to_owned(), "a stack".to_owned()),
        Target::Frame(_) => ("frame".to_owned(), "a frame".to_owned()),
        Target::Group(name) => (format!("group {name}"), format!("group {name}")),
    }
}

bindings::export!(Webhook with_types_in bindings);
