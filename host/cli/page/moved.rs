//! Which ranks left which place for which between two instants, in words.

use std::fmt::Write as _;

use diagnose::{Move, Moves};

use super::merged::fitting;
use super::people::{self, Looked};
use super::text::{count, safe, yellow};
use crate::ui::Ui;

/// Moves of a kind that are told; `--json` has all.
const MOST: usize = 24;
/// Frames of a place that are named, the innermost first.
const FRAMES: usize = 4;

/// A heading, and which moves stand below it.
type Kind = (&'static str, fn(&Move) -> bool);

/// Returns the page.
pub(crate) fn page(moves: &Moves, before: &Looked, after: &Looked, ui: Ui) -> String {
    let mut page = format!("{}\n-> {}\n", before.title(ui), after.when());
    page.push_str(&people::unread(&moves.unread));
    let kinds: [Kind; 4] = [
        ("Moved", |it| {
            !it.is_none() && it.from.is_some() && it.to.is_some()
        }),
        ("Where they were", Move::is_none),
        ("Not there any more", |it| it.to.is_none()),
        ("New", |it| it.from.is_none()),
    ];
    for (heading, is_kind) in kinds {
        let of_kind: Vec<&Move> = moves.moves.iter().filter(|it| is_kind(it)).collect();
        if of_kind.is_empty() {
            continue;
        }
        _ = writeln!(page, "\n{}", yellow(heading, ui.color));
        for it in of_kind.iter().take(MOST) {
            tell(&mut page, it, ui);
        }
        if let Some(more @ 1..) = of_kind.len().checked_sub(MOST) {
            _ = writeln!(page, "  and {}: --json", count(more, "more", "more"));
        }
    }
    if moves.moves.is_empty() {
        page.push_str("\nNo Python stack was read at both instants.\n");
    }
    page
}

fn tell(page: &mut String, it: &Move, ui: Ui) {
    let of = (it.ranks.as_str(), it.rank_count);
    let who = people::who(of, &it.others, it.threads, ui.color);
    let mut line = |words: String| {
        page.push_str(&fitting(&words, ui));
        page.push('\n');
    };
    match (&it.from, &it.to) {
        (Some(from), Some(to)) if !it.is_none() => {
            let below = it.common.checked_sub(1).map(|last| safe(&to[last]));
            let below = below.map_or_else(String::new, |frame| format!(", below {frame}"));
            line(format!("  {who}{below}"));
            line(format!("    from  {}", place(from, it.common)));
            line(format!("    to    {}", place(to, it.common)));
        }
        (Some(place_), _) | (None, Some(place_)) => {
            line(format!("  {who}"));
            line(format!("    {}", place(place_, 0)));
        }
        (None, None) => {}
    }
}

/// The innermost frames of a place beyond the outermost `common` ones.
fn place(frames: &[String], common: usize) -> String {
    let beyond = frames.get(common..).unwrap_or_default();
    let shown: Vec<String> = beyond
        .iter()
        .rev()
        .take(FRAMES)
        .map(|it| safe(it))
        .collect();
    match (shown.is_empty(), beyond.len() > FRAMES) {
        (true, _) => "no further".to_owned(),
        (false, more) => shown.join(" < ") + if more { " < …" } else { "" },
    }
}

#[cfg(test)]
mod tests;
