//! What every page has around its content.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::SnapshotId;
use store::Place;

use crate::access;
use crate::assets::STYLE;
use crate::query::written;

/// Where a page lies: how its links lead to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Beside `runs`.
    Top,
    /// In a folder: the documentation.
    Folder,
}

/// Returns the way from what is of one node to the page of its run, at the instant of a snapshot where one is named.
pub(crate) fn to_run(place: &Place, at: Option<SnapshotId>) -> Markup {
    let run = [
        ("task", place.task.to_string()),
        ("attempt", place.attempt.to_string()),
        ("node", place.node.clone()),
    ];
    let is_at = at.is_some();
    let at = at.map(|id| ("at", id.to_string()));
    html! {
        a href={ "./?" (written(run.into_iter().chain(at))) } {
            "the run" @if is_at { " at this instant" }
        }
    }
}

/// Returns a page. `scripts` are names of assets.
pub(crate) fn layout(title: &str, depth: Depth, scripts: &[&str], content: &Markup) -> Markup {
    let up = match depth {
        Depth::Top => "",
        Depth::Folder => "../",
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · taskscope" }
                link rel="icon" type="image/svg+xml" href={ (up) "assets/icon.svg" };
                style nonce=(access::nonce()) { (PreEscaped(STYLE)) }
                @for script in scripts {
                    script type="module" src={ (up) "assets/" (script) } {}
                }
            }
            body {
                a.skip href="#content" { "skip to the content" }
                header.top {
                    a.name href={ (up) "./" } { "taskscope" }
                    nav aria-label="pages" {
                        a href={ (up) "runs" } { "runs" }
                        a href={ (up) "docs/index.html" } { "docs" }
                    }
                }
                main #content tabindex="-1" { (content) }
            }
        }
    }
}
