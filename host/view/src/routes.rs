//! Which address gives what. All of them are below the token; to whoever does not know it, nothing is there.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::access::{self, Reach, Token};
use crate::answer::{Answer, Trouble};
use crate::query::Query;
use crate::view::View;
use crate::{api, assets, docs, events, pages};

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_mins(1);

/// Returns the routes of the page of `view`.
pub(crate) fn router(token: &Token, reach: Reach, view: Arc<View>) -> Router {
    let at = |path: &str| format!("/{token}{path}");
    let home = at("/");
    let to_home = async move || axum::response::Redirect::permanent(&home);
    let index = at("/docs/index.html");
    let to_docs = async move || axum::response::Redirect::permanent(&index);
    Router::new()
        .route(&at(""), get(to_home))
        .route(&at("/"), get(run))
        .route(&at("/runs"), get(runs))
        .route(&at("/process"), get(process))
        .route(&at("/value"), get(value))
        .route(&at("/part/{name}"), get(part))
        .route(&at("/events"), get(told))
        .route(&at("/api/v1/{name}"), get(document))
        .route(&at("/assets/{name}"), get(asset))
        .route(&at("/docs/{name}"), get(docs))
        .route(&at("/docs"), get(to_docs.clone()))
        .route(&at("/docs/"), get(to_docs))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(reach, guarded))
        .with_state(view)
}

/// Lets in who may come in, and sees to what every answer has.
async fn guarded(State(reach): State<Reach>, request: Request, next: Next) -> Response {
    let mut response = if let Some((status, words)) = access::refusal(request.headers(), reach) {
        (status, words).into_response()
    } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allowed = [(header::ALLOW, "GET, HEAD")];
        (
            StatusCode::METHOD_NOT_ALLOWED,
            allowed,
            "this page is only read",
        )
            .into_response()
    } else {
        match tokio::time::timeout(ANSWER_TIME, next.run(request)).await {
            Ok(response) => response,
            Err(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the store did not answer in time; try again",
            )
                .into_response(),
        }
    };
    access::guard(response.headers_mut());
    response
}

async fn nothing() -> Response {
    let words =
        "nothing is here; open the whole address that taskscope has printed, token included";
    (StatusCode::NOT_FOUND, words).into_response()
}

async fn run(State(view): State<Arc<View>>, uri: Uri, headers: HeaderMap) -> Response {
    page(&uri, &headers, async |query| {
        let made = pages::run(&view, &query).await;
        Arc::clone(&view).look_later(query);
        made
    })
    .await
}

async fn runs(State(view): State<Arc<View>>, uri: Uri, headers: HeaderMap) -> Response {
    page(&uri, &headers, async |_| pages::runs(&view).await).await
}

async fn process(State(view): State<Arc<View>>, uri: Uri, headers: HeaderMap) -> Response {
    page(&uri, &headers, async |query| {
        pages::process(&view, &query).await
    })
    .await
}

async fn docs(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match docs::document(&name) {
        Some(answer) => answer.respond(&headers),
        None => nothing().await,
    }
}

async fn value(State(view): State<Arc<View>>, uri: Uri, headers: HeaderMap) -> Response {
    page(&uri, &headers, async |query| {
        pages::value(&view, &query).await
    })
    .await
}

async fn told(State(view): State<Arc<View>>, uri: Uri, headers: HeaderMap) -> Response {
    let listened = async {
        let query = Query::parse(uri.query().unwrap_or_default())?;
        events::events(view, &query).await
    };
    listened
        .await
        .unwrap_or_else(|trouble| refused(&trouble).respond(&headers))
}

async fn part(
    State(view): State<Arc<View>>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let made = async {
        let query = Query::parse(uri.query().unwrap_or_default())?;
        pages::part(&view, &name, &query).await
    };
    let answer = made.await.map_or_else(
        |trouble| Answer {
            status: trouble.status,
            ..Answer::html(pages::trouble_part(&trouble))
        },
        Answer::html,
    );
    answer.respond(&headers)
}

async fn document(
    State(view): State<Arc<View>>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let made = async {
        let query = Query::parse(uri.query().unwrap_or_default())?;
        api::document(&view, &name, &query).await
    };
    let answer = made.await.unwrap_or_else(|trouble| refused(&trouble));
    answer.respond(&headers)
}

/// What a program is told of a trouble.
fn refused(trouble: &Trouble) -> Answer {
    Answer {
        status: trouble.status,
        ..Answer::json(trouble)
    }
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match assets::asset(&name) {
        Some(answer) => answer.respond(&headers),
        None => nothing().await,
    }
}

/// Answers with a whole page, or with one that says why there is none.
async fn page<F>(uri: &Uri, headers: &HeaderMap, make: impl FnOnce(Query) -> F) -> Response
where
    F: Future<Output = Result<maud::Markup, Trouble>>,
{
    let made = match Query::parse(uri.query().unwrap_or_default()) {
        Ok(query) => make(query).await,
        Err(trouble) => Err(trouble),
    };
    let answer = made.map_or_else(
        |trouble| Answer {
            status: trouble.status,
            ..Answer::html(pages::trouble(&trouble))
        },
        Answer::html,
    );
    answer.respond(headers)
}
