//! The list of runs.

use maud::{Markup, html};

use super::layout::{Depth, layout};
use crate::aged::AsOf;
use crate::answer::Trouble;
use crate::query::written;
use crate::view::View;

/// Returns the page with every task of the store, the newest first.
pub(crate) async fn runs(view: &View) -> Result<Markup, Trouble> {
    let list = view.runs.list(&view.store, AsOf::Now).await?;
    let content = html! {
        h1 { "Runs" }
        p.quiet { "in " (view.store.location()) }
        @if list.is_empty() {
            p { "There are none yet. " code { "taskscope run -- COMMAND" } " makes one." }
        } @else {
            div.wide tabindex="0" {
                table {
                    thead { tr { th { "task" } th { "attempts" } th { "newest snapshot (UTC)" } } }
                    tbody {
                        @for entry in list.iter() {
                            tr {
                                td { a href=(address(entry.task.as_str(), None)) { (entry.task) } }
                                td {
                                    @for attempt in &entry.attempts {
                                        a href=(address(entry.task.as_str(), Some(*attempt))) { (attempt) } " "
                                    }
                                }
                                td { (entry.newest.map_or_else(|| "none".to_owned(), model::Timestamp::human)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(layout("runs", Depth::Top, &[], &content))
}

fn address(task: &str, attempt: Option<u32>) -> String {
    let task = std::iter::once(("task", task.to_owned()));
    let attempt = attempt.map(|attempt| ("attempt", attempt.to_string()));
    format!("./?{}", written(task.chain(attempt)))
}
