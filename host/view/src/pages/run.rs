//! The page of a run: what is wrong, then time, ranks, and the rest, which follow the chosen instant.

use std::time::Duration;

use maud::{Markup, html};
use store::At;

use super::layout::{Depth, layout};
use super::verdict::{pending, verdict};
use crate::aged::AsOf;
use crate::answer::Trouble;
use crate::moment::Moment;
use crate::query::{Query, written};
use crate::view::View;

/// How long a page waits for a verdict where there is none yet; it comes after the page then.
const PATIENCE: Duration = Duration::from_millis(40);

/// Returns the page, of what is known of the run: nothing is asked of the store before the page is painted but what nobody has asked for
/// lately. What has come since, the page asks for itself.
pub(crate) async fn run(view: &View, query: &Query) -> Result<Markup, Trouble> {
    let moment = moment(view, query).await?;
    let judged = view.judge_soon(&moment, PATIENCE).await;
    let is_late = judged.as_ref().is_none_or(|(_, is_fresh)| !is_fresh);
    let node = view.node_of(&moment.run, query)?;
    let content = html! {
        (heading(&moment, query))
        section.verdict #verdict aria-label="what is wrong" data-part="verdict" data-late[is_late] {
            @match &judged {
                Some((judged, _)) => (verdict(judged, &moment)),
                None => (pending()),
            }
        }
        p.sight #said aria-live="polite" {}
        (time(&moment, &node.place.node))
        (ranks())
        (stacks())
        (part("processes", "Processes"))
        (part("ipc", "Who waits for whom"))
    };
    let title = format!("{} · attempt {}", moment.run.id.task, moment.run.id.attempt);
    Ok(layout(&title, Depth::Top, &["page.js"], &content))
}

/// Returns the newest instant that was known lately; any other, and where none was known, as of now.
async fn moment(view: &View, query: &Query) -> Result<Moment, Trouble> {
    if query.at == At::Latest
        && let Ok(run) = view.run_as_of(query, AsOf::Lately).await
        && let Ok(moment) = View::moment(&run, query.at, None)
    {
        return Ok(moment);
    }
    let run = view.run_of(query).await?;
    View::moment(&run, query.at, query.node.as_deref())
}

fn heading(moment: &Moment, query: &Query) -> Markup {
    let id = &moment.run.id;
    let nodes = moment.run.nodes.len();
    html! {
        div.heading data-run=(written([("task", id.task.to_string()), ("attempt", id.attempt.to_string())])) {
            h1 { (id.task) }
            p.quiet {
                "attempt " (id.attempt) " · "
                (nodes) @if nodes == 1 { " node" } @else { " nodes" } " · "
                span #snapshots { (moment.run.snapshots()) } " snapshots · as of "
                time #as-of datetime=(moment.at) { (moment.at.human()) " UTC" }
                span #live hidden[query.at != At::Latest] { ", the newest" }
            }
        }
    }
}

fn time(moment: &Moment, node: &str) -> Markup {
    let nodes = moment.run.nodes.iter();
    let nodes: Vec<&str> = nodes.map(|it| it.place.node.as_str()).collect();
    html! {
        section aria-labelledby="time-title" {
            div.bar {
                h2 #time-title { "Time" }
                time #instant-at datetime=(moment.at) { (moment.at.human()) " UTC" }
                @if nodes.len() > 1 {
                    label { "node "
                        select #node {
                            @for name in &nodes {
                                option value=(name) selected[*name == node] { (name) }
                            }
                        }
                    }
                }
                div.buttons {
                    button type="button" #earlier title="one snapshot earlier (left arrow)" { "◀ earlier" }
                    button type="button" #later title="one snapshot later (right arrow)" { "later ▶" }
                    button type="button" #newest title="follow the newest (End)" { "newest" }
                }
            }
            label.sight for="instant" { "instant" }
            input #instant type="range" min="0" max="0" value="0" step="1" disabled;
            div #timeline data-node=(node) { p.quiet { "reading…" } }
        }
    }
}

fn stacks() -> Markup {
    html! {
        section aria-labelledby="stacks-title" {
            div.bar {
                h2 #stacks-title { "Stacks" }
                label { "compared with "
                    select #with {
                        option value="" selected { "nothing" }
                        option value="before" { "the snapshot before" }
                        option value="first" { "the first snapshot" }
                    }
                }
                label { "ranks "
                    input #ranks-of type="text" size="8" placeholder="0-2,5" title="compare the stacks of these ranks with those of others";
                }
                label { "against "
                    input #ranks-against type="text" size="8" placeholder="all others";
                }
            }
            div data-part="stacks" data-late { p.quiet { "reading…" } }
        }
    }
}

/// A part that is asked for when the page is there.
fn part(name: &str, title: &str) -> Markup {
    html! {
        section aria-label=(title) {
            h2 { (title) }
            div data-part=(name) data-late { p.quiet { "reading…" } }
        }
    }
}

fn ranks() -> Markup {
    html! {
        section aria-labelledby="ranks-title" {
            div.bar {
                h2 #ranks-title { "Ranks" }
                label { "by "
                    select #shape {
                        option value="time" selected { "time" }
                        option value="node" { "node, at the instant" }
                    }
                }
                label { "coloured by "
                    select #colour {
                        option value="place" selected { "place" }
                        option value="progress" { "progress" }
                    }
                }
            }
            div #ranks { p.quiet { "reading…" } }
        }
    }
}
