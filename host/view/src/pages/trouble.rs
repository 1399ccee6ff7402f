//! Pages and parts that say why there is nothing to show.

use axum::http::StatusCode;
use maud::{Markup, html};

use super::layout::{Depth, layout};
use crate::answer::Trouble;
use crate::shelf::Loaded;

/// Snapshots that are named where several cannot be read.
const FEW: usize = 3;

/// Returns a whole page that says what is the matter, and is loaded anew once what is asked for is there.
pub(crate) fn trouble(trouble: &Trouble) -> Markup {
    let can_pass = trouble.status != StatusCode::BAD_REQUEST;
    let scripts: &[&str] = if can_pass { &["wait.js"] } else { &[] };
    layout(
        "nothing to show",
        Depth::Top,
        scripts,
        &trouble_part(trouble),
    )
}

/// Returns a part that says what is the matter.
pub(crate) fn trouble_part(trouble: &Trouble) -> Markup {
    html! {
        div.trouble role="status" {
            p { strong { (trouble.error) } }
            @if let Some(hint) = &trouble.hint {
                p { (hint) }
            }
        }
    }
}

/// Returns a line for each snapshot that could not be read, a few of them.
pub(crate) fn gaps(loaded: &[Loaded]) -> Markup {
    let troubles: Vec<&str> = loaded
        .iter()
        .filter_map(|loaded| loaded.as_ref().err().map(|words| &**words))
        .collect();
    html! {
        @for words in troubles.iter().take(FEW) { p.gap { "not read: " (words) } }
        @if troubles.len() > FEW { p.gap { "and " (troubles.len() - FEW) " more snapshots" } }
    }
}
