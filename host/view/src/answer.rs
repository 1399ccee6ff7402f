//! Answers: their type, their tag, and what is said instead of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What an answer is made of.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

/// An answer that is in memory whole.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: &'static str,
    pub(crate) status: StatusCode,
}

/// Why there is no such answer, in words that say what to do.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Trouble {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// What is the matter.
    pub(crate) error: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Trouble {
    /// What was asked for in a way that is not understood.
    pub(crate) fn usage(error: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error: error.into(),
            hint: None,
        }
    }

    /// What is not there.
    pub(crate) fn missing(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            error: error.into(),
            hint: Some(hint.into()),
        }
    }

    /// What is there and cannot be had now.
    pub(crate) fn unavailable(error: impl Into<String>) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            error: error.into(),
            hint: None,
        }
    }
}

impl Answer {
    pub(crate) fn html(markup: maud::Markup) -> Self {
        Self {
            bytes: markup.into_string().into_bytes(),
            content_type: HTML,
            status: StatusCode::OK,
        }
    }

    pub(crate) fn json(value: &impl Serialize) -> Self {
        let (bytes, status) = match serde_json::to_vec(value) {
            Ok(bytes) => (bytes, StatusCode::OK),
            // No document of ours has keys that are no texts, the one thing that JSON cannot say.
            Err(_) => (
                b"{\"error\":\"the answer is no JSON\"}".to_vec(),
                StatusCode::SERVICE_UNAVAILABLE,
            ),
        };
        Self {
            bytes,
            content_type: JSON,
            status,
        }
    }

    /// Answers a request with these headers: with nothing where the asker has the same already.
    pub(crate) fn respond(self, asked: &HeaderMap) -> Response {
        let tag = tag(&self.bytes);
        let known = asked.get_all(header::IF_NONE_MATCH).iter();
        let is_known = known
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|value| value.trim().trim_start_matches("W/"))
            .any(|value| value == tag || value == "*");
        let is_same = is_known && self.status == StatusCode::OK;
        let mut response = if is_same {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            (self.status, Body::from(self.bytes)).into_response()
        };
        let headers = response.headers_mut();
        if !is_same {
            headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static(self.content_type),
            );
        }
        if self.status == StatusCode::OK
            && let Ok(tag) = HeaderValue::from_str(&tag)
        {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

/// Returns the tag of a content: the same for the same bytes, whichever process serves them.
fn tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
