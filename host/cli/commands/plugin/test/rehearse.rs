//! A sink on stored snapshots, with nothing outside.

use anyhow::bail;
use helper::Register;
use model::SnapshotId;
use plugin::{Entry, Rehearsal, Rehearsed};
use serde::Serialize;

use super::{Sources, TestArgs, about, milliseconds};
use crate::config::Loaded;
use crate::enrichers::compiler;
use crate::outcome::Outcome;
use crate::page::{table, text};
use crate::ui;

/// What a sink did with one snapshot; without one, at the end.
#[derive(Serialize)]
struct Done {
    #[serde(flatten)]
    rehearsed: Rehearsed,
    snapshot: Option<SnapshotId>,
}

/// Opens the sink, gives it all snapshots in their order, flushes and closes it.
pub(super) async fn run(
    args: &TestArgs,
    entry: &Entry,
    loaded: &Loaded,
) -> anyhow::Result<Outcome> {
    let (task, node) = (args.task.as_deref(), args.node.as_deref());
    let mut sources = Sources::open(&args.on, task, node, loaded).await?;
    let mut all = Vec::new();
    let mut sink: Option<Rehearsal> = None;
    while let Some(snapshot) = sources.next().await? {
        let rehearsal = match &mut sink {
            Some(rehearsal) => rehearsal,
            None => sink.insert(begin(entry, loaded, &snapshot.task)?),
        };
        let id = snapshot.capture.id;
        let rehearsed = rehearsal.write(snapshot).await;
        let is_over = rehearsed.is_over;
        keep(args, &mut all, Some(id), rehearsed)?;
        if is_over {
            sink = None;
            break;
        }
    }
    if let Some(rehearsal) = sink {
        let closed = rehearsal.close().await;
        keep(args, &mut all, None, closed)?;
    }
    if args.json {
        ui::data(&(serde_json::to_string(&all)? + "\n"))?;
    }
    conclude(&all)
}

fn begin(entry: &Entry, loaded: &Loaded, task: &model::Task) -> anyhow::Result<Rehearsal> {
    let compiler = compiler(loaded, Register::default());
    Rehearsal::load(entry.clone(), about(task), compiler).map_err(anyhow::Error::msg)
}

fn keep(
    args: &TestArgs,
    all: &mut Vec<Done>,
    snapshot: Option<SnapshotId>,
    rehearsed: Rehearsed,
) -> anyhow::Result<()> {
    let done = Done {
        rehearsed,
        snapshot,
    };
    if !args.json {
        ui::data(&page(&done))?;
    }
    all.push(done);
    Ok(())
}

fn page(done: &Done) -> String {
    let Done {
        rehearsed,
        snapshot,
    } = done;
    let outcome = &rehearsed.outcome;
    let mut head = match snapshot {
        Some(id) => vec![
            id.to_string(),
            format!("{} delivered", rehearsed.delivered),
            format!("{} skipped", rehearsed.skipped),
        ],
        None => vec!["flush and close".to_owned()],
    };
    head.extend(outcome.duration_us.map(milliseconds));
    head.extend(outcome.memory_bytes.map(table::bytes));
    let mut lines = vec![head.join("  ")];
    for request in &rehearsed.kept_back {
        lines.push(format!("  not sent: {}", text::safe(request)));
    }
    if let Some(message) = &outcome.message {
        lines.push(format!("  {:?}: {}", outcome.outcome, text::safe(message)));
    }
    lines.join("\n") + "\n"
}

/// Sums up on stderr; a call that failed for another reason than that nothing is sent is an error.
fn conclude(all: &[Done]) -> anyhow::Result<Outcome> {
    let count = all.iter().filter(|done| done.snapshot.is_some()).count();
    let requests: usize = all.iter().map(|done| done.rehearsed.kept_back.len()).sum();
    ui::say(&format!(
        "{}: {} not sent, because this is a test",
        text::count(count, "snapshot", "snapshots"),
        text::count(requests, "request", "requests"),
    ));
    for done in all {
        if let Some(reason) = done.rehearsed.failure() {
            match &done.snapshot {
                Some(id) => bail!("{id} was not taken: {reason}"),
                None => bail!("it did not flush: {reason}"),
            }
        }
    }
    Ok(Outcome::Well)
}
