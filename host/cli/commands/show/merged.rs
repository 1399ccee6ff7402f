//! `taskscope show --merged`: the Python stacks of all ranks and threads as one tree, of one instant or over time.

use std::collections::BTreeSet;

use diagnose::{Merged, Merging};
use model::{Snapshot, Timestamp, Trigger};
use serde::Serialize;
use store::{Location, Store};

use super::ShowArgs;
use crate::merged::{self, From};
use crate::page;
use crate::root;
use crate::ui::{self, Ui};

/// The document of `--json`: the whole tree, and of what it is.
#[derive(Serialize)]
struct Document<'a> {
    classes: &'a [diagnose::Class],
    level: diagnose::Level,
    looked: &'a page::Looked,
    threads: diagnose::Threads,
    tree: &'a [diagnose::MergedNode],
    unread: &'a [diagnose::Unread],
}

pub(super) async fn show(args: &ShowArgs, location: &Location, ui: Ui) -> anyhow::Result<()> {
    let store = Store::open(location)?;
    let source = root::source(&store, location, args.stored.wanted()).await?;
    let one = args.stored.node.is_some();
    let selection = args.merge.selection(args.ranks.clone());
    let mut merging = Merging::new(selection.clone());
    let mut looked = page::Looked::default();
    let mut ranks = BTreeSet::new();
    let mut look = |snapshot: &Snapshot, at: Timestamp| {
        merging.add(snapshot, at);
        looked.add(snapshot, at);
        ranks.extend(diagnose::ranks_of(snapshot));
    };
    let since = args.since.map(From::Since);
    let last = args.last.map(|count| From::Last(count.get()));
    if let Some(from) = since.or(last) {
        merged::over(&store, &source, (from, args.at), one, look).await?;
    } else {
        let snapshots = merged::at(&store, &source, args.at, one).await?;
        let trigger = snapshots.first().and_then(|it| it.capture.trigger);
        if matches!(trigger, Some(Trigger::Signal | Trigger::Exit)) {
            ui::say("the task was being ended then; `--last 10` shows what it did before");
        }
        let instant = snapshots.first().map(|it| it.capture.started_at);
        for (snapshot, at) in snapshots.iter().zip(instant.into_iter().cycle()) {
            look(snapshot, at);
        }
    }
    merged::are_there(args.ranks.as_ref(), &ranks)?;
    let merged: Merged = merging.finish();
    let text = if args.json {
        store::encode_json(&Document {
            classes: &merged.classes,
            level: selection.level,
            looked: &looked,
            threads: selection.threads,
            tree: &merged.tree,
            unread: &merged.unread,
        })? + "\n"
    } else {
        page::merged(&merged, &looked, ui)
    };
    ui::data(&text)?;
    Ok(())
}
