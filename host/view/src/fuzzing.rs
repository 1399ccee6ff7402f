//! The page without a connection: what the fuzz target asks.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::access::{Reach, Token};
use crate::{View, ViewError, routes};

/// Bytes of an answer that are read.
const MOST: usize = 1 << 30;

/// A page that answers requests that nobody sent.
#[derive(Debug)]
pub struct Unserved {
    home: String,
    router: axum::Router,
}

impl Unserved {
    /// Returns the page of `view`, at an address of its own.
    pub fn new(view: View) -> Result<Self, ViewError> {
        let token = Token::random()?;
        Ok(Self {
            home: format!("/{token}"),
            router: routes::router(&token, Reach::Loopback, Arc::new(view)),
        })
    }

    /// Answers a request for what is below the token: the status, and the body but for events, which have no end. Nothing where it
    /// is no request.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Option<(u16, Vec<u8>)> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.home));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).ok()?;
        let service = TowerToHyperService::new(self.router.clone());
        let Ok(response) = service.call(request).await;
        let status = response.status().as_u16();
        let kind = response.headers().get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            return Some((status, Vec::new()));
        }
        let body = to_bytes(response.into_body(), MOST).await.ok()?;
        Some((status, body.into()))
    }
}
