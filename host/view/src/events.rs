//! Server-sent events: a line when a run has more snapshots, or ends of them were deleted. Nothing else is in it: a page asks for what it
//! shows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use store::At;
use tokio::sync::OwnedSemaphorePermit;

use crate::aged::AsOf;
use crate::answer::Trouble;
use crate::query::Query;
use crate::runs::{Run, RunId};
use crate::view::View;

/// Pages that are told at a time.
pub(crate) const LISTENERS: usize = 64;
/// How often is looked; a store is asked no more often, however many listen.
const LOOK: Duration = Duration::from_secs(1);
/// How often a line says that we are still there.
const ALIVE: Duration = Duration::from_secs(15);

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Change {
    last_at: Option<model::Timestamp>,
    snapshots: usize,
}

struct Listening {
    id: RunId,
    known: Option<Change>,
    view: Arc<View>,
    _place: OwnedSemaphorePermit,
}

/// Answers with events for as long as they are listened to.
pub(crate) async fn events(view: Arc<View>, query: &Query) -> Result<Response, Trouble> {
    let run = view.run_of(query).await?;
    let Ok(place) = Arc::clone(&view.listeners).try_acquire_owned() else {
        let error = format!("{LISTENERS} pages are told of changes already; close some of them");
        return Err(Trouble {
            status: StatusCode::SERVICE_UNAVAILABLE,
            ..Trouble::usage(error)
        });
    };
    // Who names the newest time that it knows is told at once of what came since.
    let known_at = match query.at {
        At::Time(time) => Some(time),
        At::Latest | At::Id(_) => None,
    };
    let known = Change {
        last_at: known_at.or(change(&run).last_at),
        ..change(&run)
    };
    let listening = Listening {
        id: run.id.clone(),
        known: Some(known),
        view,
        _place: place,
    };
    let changes = stream::unfold(listening, async |mut listening| {
        loop {
            tokio::time::sleep(LOOK).await;
            let Listening { id, view, .. } = &listening;
            // A store that does not answer now may do so soon.
            let Ok(run) = view.runs.run(&view.store, id, AsOf::Now).await else {
                continue;
            };
            let change = Some(change(&run));
            if change != listening.known {
                listening.known = change;
                let text = serde_json::to_string(&listening.known).unwrap_or_default();
                let event = Event::default().event("change").data(text);
                return Some((Ok::<_, Infallible>(event), listening));
            }
        }
    });
    let mut response = Sse::new(changes)
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response();
    response.headers_mut().remove(header::CACHE_CONTROL);
    Ok(response)
}

fn change(run: &Run) -> Change {
    Change {
        last_at: run.span().map(|(_, last)| last),
        snapshots: run.snapshots(),
    }
}
