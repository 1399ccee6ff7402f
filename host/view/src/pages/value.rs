//! One value of a snapshot, or of a record beside the snapshots: what a piece of evidence points at.

use std::str::FromStr;

use maud::{Markup, html};
use serde_json::Value;
use store::{RecordKey, StoreError};

use super::layout::{Depth, layout};
use crate::answer::Trouble;
use crate::digest::short;
use crate::query::Query;
use crate::runs::words;
use crate::view::View;

/// Characters of the value that are shown; the snapshot itself has all.
const SHOWN: usize = 200_000;

/// Returns the page of the value that the query points at.
pub(crate) async fn value(view: &View, query: &Query) -> Result<Markup, Trouble> {
    let pointer = query.pointer.as_deref().unwrap_or_default();
    let (value, origin) = match query.record.as_deref() {
        Some(name) => in_record(view, query, name, pointer).await?,
        None => in_snapshot(view, query, pointer).await?,
    };
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    let shown: String = text.chars().take(SHOWN).collect();
    let content = html! {
        h1 { code { (pointer) } }
        p.quiet { (origin) }
        pre tabindex="0" { (shown) }
        @if shown.len() < text.len() { p.quiet { "the rest is not shown" } }
    };
    Ok(layout("a value", Depth::Top, &[], &content))
}

/// Returns a value of a snapshot, and where it is from.
async fn in_snapshot(
    view: &View,
    query: &Query,
    pointer: &str,
) -> Result<(Value, String), Trouble> {
    let snapshot = view.snapshot_of(query).await?;
    let value = diagnose::resolve(&snapshot, pointer)
        .ok_or_else(|| nothing(&format!("snapshot {}", snapshot.capture.id), pointer))?;
    let origin = format!(
        "in snapshot {} of node {}, taken {} UTC",
        snapshot.capture.id,
        snapshot.task.node,
        snapshot.capture.started_at.human()
    );
    Ok((value, origin))
}

/// Returns a value of a record beside the snapshots of a node, and where it is from.
async fn in_record(
    view: &View,
    query: &Query,
    name: &str,
    pointer: &str,
) -> Result<(Value, String), Trouble> {
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
    let value = document.pointer(pointer).cloned();
    let value = value.ok_or_else(|| nothing(&format!("record {name}"), pointer))?;
    Ok((value, format!("in {name} of node {}", node.place.node)))
}

fn nothing(place: &str, pointer: &str) -> Trouble {
    Trouble::missing(
        format!("{place} has nothing at `{}`", short(pointer)),
        "an RFC 6901 pointer, such as /capture/started_at, says where",
    )
}
