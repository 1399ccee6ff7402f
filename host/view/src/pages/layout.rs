//! What every page has around its content.

use maud::{DOCTYPE, Markup, html};

/// Returns a page. `scripts` are names of assets.
pub(crate) fn layout(title: &str, scripts: &[&str], content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · taskscope" }
                link rel="icon" type="image/svg+xml" href="assets/icon.svg";
                link rel="stylesheet" href="assets/page.css";
                @for script in scripts {
                    script type="module" src={ "assets/" (script) } {}
                }
            }
            body {
                a.skip href="#content" { "skip to the content" }
                header.top {
                    a.name href="./" { "taskscope" }
                    nav aria-label="pages" {
                        a href="runs" { "runs" }
                    }
                }
                main #content tabindex="-1" { (content) }
            }
        }
    }
}
