//! One request of a sink: checked, filled in, sent, and its answer taken within limits.
//!
//! The client is made with the first request, because its certificates take memory that a sink without one does not need.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url, redirect};

use super::Outside;
use super::grant::{self, HttpGrant};
use super::secrets::{FillError, is_one_place};
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::interface::error;
use crate::limits;
use crate::text::one_line;

/// Headers that say how a message is sent, which is not a plugin's to say.
const HEADERS_OF_THE_HOST: [&str; 7] = [
    "connection",
    "content-length",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Text, or a template with places for secrets.
pub(crate) enum Filled {
    Text(String),
    Template(String),
}

/// A request as a plugin makes it.
pub(crate) struct Asked {
    pub(crate) body: Option<Bytes>,
    pub(crate) headers: Vec<(String, Filled)>,
    pub(crate) method: Method,
    pub(crate) timeout: Duration,
    pub(crate) url: Filled,
}

/// An answer, with secrets taken out.
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) status: u16,
}

/// A name led to where it may not.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` leads to {address}, an address of the inside that is not granted by itself")]
struct Blocked {
    address: std::net::IpAddr,
    name: String,
}

impl Outside {
    /// Sends a request and takes the answer. Never longer than its timeout.
    pub(crate) async fn send(&self, asked: Asked) -> Result<Answer, Error> {
        if self.keep_back(&asked) {
            return Err(error(ErrorKind::Denied, "nothing is sent in a test"));
        }
        let url = self.url(&asked.url)?;
        let headers = self.headers(asked.headers)?;
        let timeout = asked.timeout;
        let mut request = self
            .client()?
            .request(asked.method, url)
            .headers(headers)
            .timeout(timeout);
        if let Some(body) = asked.body {
            request = request.body(body);
        }
        let failed = |error| self.explain(error, timeout);
        let response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = answered_headers(response.headers())?;
        let body = body(response).await.map_err(|error| match error {
            Some(error) => self.explain(error, timeout),
            None => over(&format!("{} MiB of body", limits::ANSWER_BYTES >> 20)),
        })?;
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name, self.secrets.redact_text(&value)));
        Ok(Answer {
            headers: headers.collect(),
            body: self.secrets.redact(body),
            status,
        })
    }

    /// Returns the URL that is asked for, where it is granted. Of one that is a secret as a whole nothing is told.
    fn url(&self, asked: &Filled) -> Result<Url, Error> {
        let (text, shown) = match asked {
            Filled::Text(text) => (text.clone(), None),
            Filled::Template(template) => {
                let filled = self
                    .secrets
                    .fill_url(template)
                    .map_err(|error| refused(&error))?;
                (
                    filled,
                    is_one_place(template).then(|| format!("the URL in {template}")),
                )
            }
        };
        let no_url = |reason: &str| {
            let what = shown.as_deref().unwrap_or("its URL");
            error(ErrorKind::Rejected, format!("{what} {reason}"))
        };
        if text.len() > limits::URL_BYTES {
            return Err(no_url("is longer than 8 KiB"));
        }
        let url = Url::parse(&text).map_err(|error| no_url(&format!("cannot be read: {error}")))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(no_url("is neither https nor http"));
        }
        if !grant::covers(&self.http, &url) {
            let origin = grant::origin(&url);
            let message = match shown {
                Some(what) => format!("{what} leads to a host that is not granted"),
                None => format!(
                    "{origin} is not granted; `http = [\"{origin}\"]` in its permissions would"
                ),
            };
            return Err(error(ErrorKind::Denied, message));
        }
        Ok(url)
    }

    fn headers(&self, asked: Vec<(String, Filled)>) -> Result<HeaderMap, Error> {
        let rejected = |message: String| error(ErrorKind::Rejected, message);
        if asked.len() > limits::HEADERS {
            return Err(rejected(format!("more than {} headers", limits::HEADERS)));
        }
        let mut size_bytes = 0;
        let mut headers = HeaderMap::new();
        for (name, value) in asked {
            let shown = one_line(&name, limits::KEY_BYTES);
            let lower = name.to_ascii_lowercase();
            if HEADERS_OF_THE_HOST.contains(&lower.as_str()) || lower.starts_with("proxy-") {
                return Err(rejected(format!(
                    "the header `{shown}` belongs to taskscope"
                )));
            }
            let (text, is_secret) = match value {
                Filled::Text(text) => (text, false),
                Filled::Template(template) => (
                    self.secrets
                        .fill(&template)
                        .map_err(|error| refused(&error))?,
                    true,
                ),
            };
            size_bytes += name.len() + text.len();
            if size_bytes > limits::HEADER_BYTES {
                return Err(rejected(format!(
                    "more than {} KiB of headers",
                    limits::HEADER_BYTES >> 10
                )));
            }
            let no_header = || {
                rejected(format!(
                    "the header `{shown}` cannot be sent: a name or value that is none"
                ))
            };
            let name = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| no_header())?;
            let mut value = HeaderValue::from_str(&text).map_err(|_| no_header())?;
            value.set_sensitive(is_secret);
            headers.append(name, value);
        }
        Ok(headers)
    }

    fn client(&self) -> Result<&Client, Error> {
        let made = self.client.get_or_init(|| {
            // Another part of this process may have chosen it already; it is the same one.
            let _ = rustls::crypto::ring::default_provider().install_default();
            Client::builder()
                .user_agent(concat!("taskscope/", env!("CARGO_PKG_VERSION")))
                .redirect(redirect::Policy::none())
                .no_proxy()
                // Minutes lie between two requests.
                .pool_max_idle_per_host(0)
                .dns_resolver(Arc::new(Resolver(Arc::clone(&self.http))))
                .build()
                .map_err(|error| root_cause(&error))
        });
        made.as_ref().map_err(|reason| {
            error(
                ErrorKind::Unavailable,
                format!("no connection can be made here: {reason}"),
            )
        })
    }

    /// Says what became of a request that got no answer, without its URL.
    fn explain(&self, failure: reqwest::Error, timeout: Duration) -> Error {
        let failure = failure.without_url();
        if let Some(blocked) = blocked(&failure) {
            return error(ErrorKind::Denied, blocked.to_string());
        }
        let kind = if failure.is_builder() {
            ErrorKind::Rejected
        } else {
            ErrorKind::Unavailable
        };
        let message = if failure.is_timeout() {
            format!("no answer within {:.1} s", timeout.as_secs_f64())
        } else {
            self.secrets.redact_text(&root_cause(&failure))
        };
        error(kind, one_line(&message, limits::KEY_BYTES * 4))
    }
}

/// Looks names up, and leaves out the addresses that are not granted.
struct Resolver(Arc<[HttpGrant]>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let grants = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let granted: Vec<SocketAddr> = found
                .iter()
                .copied()
                .filter(|address| grant::may_lead_to(&grants, name, address.ip()))
                .collect();
            match (granted.is_empty(), found.first()) {
                (true, Some(address)) => Err(Box::new(Blocked {
                    address: address.ip(),
                    name: name.to_owned(),
                }) as Box<dyn StdError + Send + Sync>),
                _ => Ok(Box::new(granted.into_iter()) as Addrs),
            }
        })
    }
}

fn answered_headers(headers: &HeaderMap) -> Result<Vec<(String, String)>, Error> {
    let size_bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if size_bytes > limits::ANSWERED_HEADER_BYTES {
        return Err(over(&format!(
            "{} KiB of headers",
            limits::ANSWERED_HEADER_BYTES >> 10
        )));
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect())
}

/// Returns the body; an error of nothing: it is too long.
async fn body(mut response: Response) -> Result<Vec<u8>, Option<reqwest::Error>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limits::ANSWER_BYTES {
            return Err(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn over(what: &str) -> Error {
    error(ErrorKind::Limit, format!("the answer has more than {what}"))
}

fn refused(reason: &FillError) -> Error {
    let kind = match reason {
        FillError::NotGranted(_) | FillError::Unset(_) => ErrorKind::Denied,
        FillError::Open | FillError::InHost => ErrorKind::Rejected,
    };
    error(kind, reason.to_string())
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn blocked(error: &reqwest::Error) -> Option<&Blocked> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn root_cause(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_looked_up_and_addresses_of_the_inside_are_left_out() {
        let resolve = |grant: &str| {
            let grants: Arc<[HttpGrant]> = [grant.parse().unwrap()].into();
            Resolver(grants).resolve("localhost".parse().unwrap())
        };
        assert!(
            resolve("http://localhost")
                .await
                .unwrap()
                .all(|found| found.ip().is_loopback())
        );
        let error = resolve("https://hooks.example.com").await.err().unwrap();
        let blocked: &Blocked = error.downcast_ref().unwrap();
        assert!(
            blocked.to_string().starts_with("`localhost` leads to "),
            "{blocked}"
        );
    }
}
