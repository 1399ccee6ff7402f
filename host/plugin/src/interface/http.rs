//! `http`: requests of a sink. What may be sent, and where to, is decided in `sink/client.rs`.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use wasmtime::component::{HasData, Linker};

use super::error;
use super::storage::{Source, resolve};
use crate::bindings::sink::taskscope::plugin::http::{
    self, AnsweredHeader, Method as Verb, Request, Response,
};
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::call::Allowance;
use crate::guest::Guest;
use crate::limits;
use crate::sink::{Asked, Filled, Outside};

/// What a request is made of.
struct View<'a> {
    allowance: &'a mut Allowance,
    outside: Option<Arc<Outside>>,
    source: Source<'a>,
}

struct Views;

impl HasData for Views {
    type Data<'a> = View<'a>;
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    http::add_to_linker::<_, Views>(linker, |guest| View {
        allowance: &mut guest.allowance,
        outside: guest.outside.clone(),
        source: Source {
            document: guest.document.as_ref(),
            grants: &guest.grants,
        },
    })
}

impl http::Host for View<'_> {
    async fn send(&mut self, request: Request) -> Result<Response, Error> {
        self.allowance.requests = self.allowance.requests.saturating_add(1);
        if self.allowance.requests > limits::REQUESTS {
            let message = format!("more than {} requests in one call", limits::REQUESTS);
            return Err(error(ErrorKind::Limit, message));
        }
        let Some(outside) = &self.outside else {
            return Err(error(ErrorKind::Denied, "nothing is granted"));
        };
        let body = request.body.map(|content| resolve(content, &self.source));
        let most = self.allowance.patience();
        let wanted = request
            .timeout_ms
            .map(|wanted| Duration::from_millis(wanted.into()));
        let headers = request.headers.into_iter();
        let asked = Asked {
            body: body.transpose()?,
            headers: headers
                .map(|header| (header.name, filled(header.value)))
                .collect(),
            method: method(request.method),
            timeout: wanted.map_or(most, |wanted| wanted.min(most)),
            url: filled(request.url),
        };
        let answer = outside.send(asked).await?;
        let headers = answer.headers.into_iter();
        Ok(Response {
            status: answer.status,
            headers: headers
                .map(|(name, value)| AnsweredHeader { name, value })
                .collect(),
            body: answer.body,
        })
    }
}

fn filled(text: http::Filled) -> Filled {
    match text {
        http::Filled::Text(text) => Filled::Text(text),
        http::Filled::Template(template) => Filled::Template(template),
    }
}

fn method(verb: Verb) -> Method {
    match verb {
        Verb::Get => Method::GET,
        Verb::Head => Method::HEAD,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete => Method::DELETE,
    }
}
