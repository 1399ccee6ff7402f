//! One value of a snapshot: what a piece of evidence points at.

use maud::{Markup, html};

use super::layout::{Depth, layout};
use crate::answer::Trouble;
use crate::query::Query;
use crate::view::View;

/// Characters of the value that are shown; the snapshot itself has all.
const SHOWN: usize = 200_000;

/// Returns the page of the value that the query points at.
pub(crate) async fn value(view: &View, query: &Query) -> Result<Markup, Trouble> {
    let pointer = query.pointer.as_deref().unwrap_or_default();
    let snapshot = view.snapshot_of(query).await?;
    let value = diagnose::resolve(&snapshot, pointer).ok_or_else(|| {
        Trouble::missing(
            format!(
                "snapshot {} has nothing at `{pointer}`",
                snapshot.capture.id
            ),
            "an RFC 6901 pointer, such as /capture/started_at, says where",
        )
    })?;
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    let shown: String = text.chars().take(SHOWN).collect();
    let content = html! {
        h1 { code { (pointer) } }
        p.quiet {
            "in snapshot " (snapshot.capture.id) " of node " (snapshot.task.node) ", taken "
            (snapshot.capture.started_at.human()) " UTC"
        }
        pre tabindex="0" { (shown) }
        @if shown.len() < text.len() { p.quiet { "the rest is not shown" } }
    };
    Ok(layout("a value", Depth::Top, &[], &content))
}
