//! What comes with the page: scripts and its style, in the program itself. They are small and written for this page; there is
//! nothing to build, and nothing to fetch.

use axum::http::StatusCode;

use crate::answer::Answer;

/// The style, which each page has in itself: nothing is painted before it is there.
pub(crate) const STYLE: &str = include_str!("../assets/page.css");

const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

const ALL: [(&str, &str, &str); 8] = [
    ("docs.js", SCRIPT, include_str!("../assets/docs.js")),
    ("page.js", SCRIPT, include_str!("../assets/page.js")),
    ("parts.js", SCRIPT, include_str!("../assets/parts.js")),
    ("timeline.js", SCRIPT, include_str!("../assets/timeline.js")),
    ("matrix.js", SCRIPT, include_str!("../assets/matrix.js")),
    ("nodes.js", SCRIPT, include_str!("../assets/nodes.js")),
    ("wait.js", SCRIPT, include_str!("../assets/wait.js")),
    ("icon.svg", PICTURE, include_str!("../assets/icon.svg")),
];

/// Returns the asset of this name.
pub(crate) fn asset(name: &str) -> Option<Answer> {
    let (_, content_type, text) = ALL.iter().find(|(known, _, _)| *known == name)?;
    Some(Answer {
        bytes: text.as_bytes().to_vec(),
        content_type,
        status: StatusCode::OK,
    })
}
