//! One value of a snapshot, or of a record beside the snapshots: what a piece of evidence points at.

use std::str::FromStr;
use std::sync::Arc;

use maud::{Markup, html};
use model::SnapshotId;
use serde_json::Value;
use store::{Place, RecordKey, StoreError};

use super::layout::{Depth, layout, to_run};
use crate::answer::Trouble;
use crate::digest::short;
use crate::query::Query;
use crate::runs::words;
use crate::view::View;
use crate::work::Work;

/// Characters of the value that are shown; the snapshot itself has all.
const SHOWN: usize = 200_000;

/// Returns the page of the value that the query points at.
pub(crate) async fn value(view: &View, query: &Query) -> Result<Markup, Trouble> {
    let pointer = query.pointer.as_deref().unwrap_or_default();
    let (text, origin) = match query.record.as_deref() {
        Some(name) => in_record(view, query, name, pointer).await?,
        None => in_snapshot(view, query, pointer).await?,
    };
    let content = html! {
        h1 { code { (pointer) } }
        p.quiet { (origin.words) " · " (to_run(&origin.place, origin.at)) }
        pre tabindex="0" { (text.shown) }
        @if !text.is_whole { p.quiet { "the rest is not shown" } }
    };
    Ok(layout("a value", Depth::Top, &[], &content))
}

/// A value, as it is shown.
struct Text {
    is_whole: bool,
    shown: String,
}

impl Text {
    fn of(value: &Value) -> Self {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        let shown: String = text.chars().take(SHOWN).collect();
        Self {
            is_whole: shown.len() == text.len(),
            shown,
        }
    }
}

/// Where a value is from.
struct Origin {
    at: Option<SnapshotId>,
    place: Place,
    words: String,
}

/// Returns a value of a snapshot, and where it is from.
async fn in_snapshot(view: &View, query: &Query, pointer: &str) -> Result<(Text, Origin), Trouble> {
    let snapshot = view.snapshot_of(query).await?;
    let (looked_at, asked) = (Arc::clone(&snapshot), pointer.to_owned());
    let draw = move || diagnose::resolve(&looked_at, &asked).map(|value| Text::of(&value));
    let text = view.drawn(Work::is_large([&*snapshot]), draw).await?;
    let text =
        text.ok_or_else(|| nothing(&format!("snapshot {}", snapshot.capture.id), pointer))?;
    let words = format!(
        "in snapshot {} of node {}, taken {} UTC",
        snapshot.capture.id,
        snapshot.task.node,
        snapshot.capture.started_at.human()
    );
    let origin = Origin {
        at: Some(snapshot.capture.id),
        place: Place::of(&snapshot.task),
        words,
    };
    Ok((text, origin))
}

/// Returns a value of a record beside the snapshots of a node, and where it is from.
async fn in_record(
    view: &View,
    query: &Query,
    name: &str,
    pointer: &str,
) -> Result<(Text, Origin), Trouble> {
    let run = view.run_of(query).await?;
    let node = view.node_of(&run, query)?;
    let key = RecordKey::from_str(&format!("{}/{name}", node.place)).map_err(|_| {
        Trouble::usage(format!(
            "`record` is `{}`, which is no name such as obituaries/20261129T144054.169782Z-00c0ffee.json.gz",
            short(name)
        ))
    })?;
    let document: Value = view.store.record(&key).await.map_err(|error| match error {
        StoreError::NotFound { .. } => {
            Trouble::missing(words(&error), "retention may have deleted it")
        }
        _ => Trouble::unavailable(words(&error)),
    })?;
    let asked = pointer.to_owned();
    let draw = move || document.pointer(&asked).map(Text::of);
    let text = view.drawn(false, draw).await?;
    let text = text.ok_or_else(|| nothing(&format!("record {name}"), pointer))?;
    let origin = Origin {
        at: None,
        place: node.place.clone(),
        words: format!("in {name} of node {}", node.place.node),
    };
    Ok((text, origin))
}

fn nothing(place: &str, pointer: &str) -> Trouble {
    Trouble::missing(
        format!("{place} has nothing at `{}`", short(pointer)),
        "an RFC 6901 pointer, such as /capture/started_at, says where",
    )
}
