//! The JSON that others can build on, described in `docs/view.md` and by `openapi.json`. Additions are no new version.

use serde::Serialize;
use store::At;

use crate::aged::AsOf;
use crate::answer::{Answer, JSON, Trouble};
use crate::query::Query;
use crate::runs::Run;
use crate::view::View;
use crate::work::Work;

const OPENAPI: &str = include_str!("../assets/openapi.json");

/// One run of the list.
#[derive(Serialize)]
struct Listed<'a> {
    attempts: &'a [u32],
    newest: Option<model::Timestamp>,
    task: &'a str,
}

/// A run.
#[derive(Serialize)]
pub(crate) struct Overview<'a> {
    attempt: u32,
    first_at: Option<model::Timestamp>,
    last_at: Option<model::Timestamp>,
    nodes: Vec<NodeOverview<'a>>,
    task: &'a str,
}

#[derive(Serialize)]
struct NodeOverview<'a> {
    /// How far its clock is taken to be ahead of that of the first one, microseconds.
    ahead: i64,
    node: &'a str,
    newest: Option<model::SnapshotId>,
    snapshots: usize,
    /// Why its snapshots are not known.
    trouble: Option<&'a str>,
}

/// What is wrong at an instant.
#[derive(Serialize)]
struct Answered<'a> {
    at: model::Timestamp,
    /// Nodes that have stored nothing for a while, which are not judged.
    silent: &'a [diagnose::Silent],
    /// Since when nothing moves; a common time.
    since: Option<model::Timestamp>,
    twin: Option<&'a diagnose::Twin>,
    /// Snapshots that could not be read.
    unread: Vec<&'a str>,
    why: &'a diagnose::Verdict,
    /// Nodes that had stored nothing by then.
    without_snapshot: Vec<&'a str>,
}

/// Returns the document of this name.
pub(crate) async fn document(view: &View, name: &str, query: &Query) -> Result<Answer, Trouble> {
    Ok(match name {
        "openapi.json" => Answer {
            bytes: OPENAPI.as_bytes().to_vec(),
            content_type: JSON,
            status: axum::http::StatusCode::OK,
        },
        "runs" => {
            let list = view.runs.list(&view.store, AsOf::Now).await?;
            let listed = list.iter().map(|entry| Listed {
                attempts: &entry.attempts,
                newest: entry.newest,
                task: entry.task.as_str(),
            });
            Answer::json(&listed.collect::<Vec<_>>())
        }
        "run" => Answer::json(&Overview::of(&*view.run_of(query).await?)),
        "timeline" => {
            let run = view.run_of(query).await?;
            Answer::json(&view.timeline(&run, query).await?)
        }
        "ranks" => {
            let run = view.run_of(query).await?;
            Answer::json(&view.matrix(&run, query).await?)
        }
        "why" => {
            let run = view.run_of(query).await?;
            let moment = View::moment(&run, query.at, query.node.as_deref())?;
            let judged = view.judge(&moment).await;
            Answer::json(&Answered {
                at: moment.at,
                silent: &judged.silent,
                since: judged.since,
                twin: judged.twin.as_ref(),
                unread: judged.unread.iter().map(|words| &**words).collect(),
                why: &judged.judgement.verdict,
                without_snapshot: moment.without_snapshot().collect(),
            })
        }
        "snapshot" => {
            let snapshot = view.snapshot_of(query).await?;
            let is_large = Work::is_large([&*snapshot]);
            view.drawn(is_large, move || Answer::json(&*snapshot))
                .await?
        }
        _ => {
            return Err(Trouble::missing(
                format!("there is no document `{}`", crate::digest::short(name)),
                "openapi.json lists them",
            ));
        }
    })
}

impl<'a> Overview<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        let span = run.span();
        let nodes = run.nodes.iter().map(|node| NodeOverview {
            ahead: node.ahead,
            node: &node.place.node,
            newest: At::Latest
                .position(&node.entries)
                .map(|position| node.entries[position].id),
            snapshots: node.entries.len(),
            trouble: node.trouble.as_deref(),
        });
        Self {
            attempt: run.id.attempt,
            first_at: span.map(|(first, _)| first),
            last_at: span.map(|(_, last)| last),
            nodes: nodes.collect(),
            task: run.id.task.as_str(),
        }
    }
}
