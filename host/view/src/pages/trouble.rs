//! Pages and parts that say why there is nothing to show.

use maud::{Markup, html};

use super::layout::layout;
use crate::answer::Trouble;

/// Returns a whole page that says what is the matter.
pub(crate) fn trouble(trouble: &Trouble) -> Markup {
    layout("nothing to show", &[], &trouble_part(trouble))
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
