//! Glue between the `enricher` world and the rule in [`rule`]: hands over settings, stacks and threads, and takes scores.

mod bindings {
    #![expect(clippy::pedantic, reason = "generated")]
    wit_bindgen::generate!({ world: "enricher", path: "../../wit" });
}
mod focus;
mod rule;

use std::cell::RefCell;

use bindings::exports::taskscope::plugin::enrich::{Enrichment, Guest as Enrich};
use bindings::exports::taskscope::plugin::plugin::{Context, Description, Guest as Plugin, Needs};
use bindings::taskscope::plugin::snapshot;
use bindings::taskscope::plugin::types::{
    self, Annotation, Error, ErrorKind, RunState, StackTable, StackedThread, Value,
};

use focus::Focus;
use rule::{Frame, Score, Table, Target, Thread};

struct FocusFiles;

thread_local! {
    static FOCUS: RefCell<Focus> = RefCell::default();
}

impl Plugin for FocusFiles {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            needs: Needs::STACKS | Needs::THREADS,
            config_schema: Some(include_str!("../config.schema.json").to_owned()),
            requires: Vec::new(),
        }
    }

    fn init(context: Context) -> Result<(), Error> {
        let focus = Focus::parse(&context.config).map_err(|message| Error {
            kind: ErrorKind::Config,
            message,
            retry_after_ms: None,
        })?;
        FOCUS.set(focus);
        Ok(())
    }
}

impl Enrich for FocusFiles {
    fn run() -> Result<Enrichment, Error> {
        let annotations = FOCUS.with_borrow(|focus| {
            if focus.is_empty() {
                return Vec::new();
            }
            let table = table(snapshot::stacks());
            let threads = snapshot::stacked_threads();
            let threads: Vec<Thread> = threads.iter().map(thread).collect();
            let scores = rule::judge(focus, &table, &threads);
            scores.into_iter().map(annotation).collect()
        });
        Ok(Enrichment {
            annotations,
            findings: Vec::new(),
        })
    }
}

fn table(table: StackTable) -> Table {
    let frame = |frame: &types::Frame| Frame {
        file: frame.file as usize,
        function: frame.function as usize,
        line: frame.line,
    };
    Table {
        frame_ids: table.frame_ids,
        frames: table.frames.iter().map(frame).collect(),
        offsets: table.offsets,
        strings: table.strings,
    }
}

fn thread(thread: &StackedThread) -> Thread {
    Thread {
        pid: thread.pid,
        running: thread.state == RunState::Running,
        stack: thread.stack,
    }
}

fn annotation(score: Score) -> Annotation {
    let (target, key, value) = match score {
        Score::Number(Target::Frame(frame), number) => {
            (types::Target::Frame(frame), "score", Value::Number(number))
        }
        Score::Number(Target::Stack(stack), number) => {
            (types::Target::Stack(stack), "score", Value::Number(number))
        }
        Score::HottestLine(pid, line) => (
            types::Target::Process(pid),
            "hottest-line",
            Value::Text(line),
        ),
    };
    Annotation {
        target,
        key: key.to_owned(),
        value,
    }
}

bindings::export!(FocusFiles with_types_in bindings);
