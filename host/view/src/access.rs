//! Who may see the page: one that knows the token and that this machine itself asks for, not some page of the network in
//! the same browser.
//!
//! The token is the first segment of every path. A page elsewhere that lets its own name lead here (DNS rebinding) is known by
//! `Host`, one that asks from within a browser by `Origin` and `Sec-Fetch-Site`.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::ViewError;

/// Where random numbers come from (`random(4)`).
const RANDOM: &str = "/dev/urandom";

/// Bytes of a token.
const TOKEN_BYTES: usize = 24;

/// What one has to know to see the page. Displays as 48 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// Returns a new token that nobody can guess.
    pub fn random() -> Result<Self, ViewError> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open(RANDOM)
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(|source| ViewError::Random {
                path: RANDOM,
                source,
            })?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// From which names and addresses the page may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// This machine alone: `localhost`, and loopback addresses.
    Loopback,
    /// Whoever reaches the address: any address, but no name, which could be led here.
    Network,
}

/// What the one style within a page is known by. Where there are no random numbers nothing is served.
static NONCE: LazyLock<String> =
    LazyLock::new(|| Token::random().map_or_else(|_| "none".to_owned(), |it| it.to_string()));

/// Allows what comes from here and nothing else, and within a page no script and one style, ours.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'nonce-{}'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        *NONCE
    );
    policy.try_into().ok()
});

/// Returns the nonce of the style of this process's pages.
pub(crate) fn nonce() -> &'static str {
    &NONCE
}

/// Headers of every answer, beside the policy.
const ALWAYS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "private, no-cache"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Puts the headers of every answer among `headers`.
pub(crate) fn guard(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(policy) = &*POLICY {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    }
}

/// Returns why a request with these headers is refused, if it is.
pub(crate) fn refusal(headers: &HeaderMap, reach: Reach) -> Option<(StatusCode, &'static str)> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Some((StatusCode::BAD_REQUEST, "a request names one host"));
    };
    let host = host.to_str().unwrap_or_default();
    if !is_ours(host, reach) {
        return Some((
            StatusCode::FORBIDDEN,
            "this page is not served under that name; ask for it by its address, as it was printed",
        ));
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let ours = format!("http://{host}");
        if !origin.as_bytes().eq_ignore_ascii_case(ours.as_bytes()) {
            return Some((StatusCode::FORBIDDEN, "other pages may not ask here"));
        }
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let from_elsewhere = matches!(
        text("sec-fetch-site"),
        Some("cross-site" | "same-site") // another port of this machine is another's as well
    );
    // A link that a person follows is no harm: it has to have the token.
    if from_elsewhere && text("sec-fetch-mode") != Some("navigate") {
        return Some((StatusCode::FORBIDDEN, "other pages may not ask here"));
    }
    None
}

/// Whether a `Host` header names us: `localhost` or an address, with or without a port. The port is not compared, because a
/// tunnel (`ssh -L`) may have another; that a name leads here says nothing, an address cannot be led.
fn is_ours(host: &str, reach: Reach) -> bool {
    let name = without_port(host);
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    match address.parse::<IpAddr>() {
        Ok(address) => reach == Reach::Network || address.is_loopback(),
        Err(_) => false,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(lines: &[(&str, &str)], reach: Reach) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        refusal(&headers, reach).is_some()
    }

    #[test]
    fn only_this_machine_is_let_in_by_its_own_names() {
        for host in [
            "127.0.0.1:8080",
            "localhost:1",
            "LOCALHOST",
            "[::1]:80",
            "127.9.9.9",
        ] {
            assert!(!refused(&[("host", host)], Reach::Loopback), "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1:8080",
            "",
            "[::1",
            "127.0.0.1:80:90",
            "a@127.0.0.1:80",
        ] {
            assert!(refused(&[("host", host)], Reach::Loopback), "{host}");
        }
        assert!(!refused(&[("host", "10.0.0.1:8080")], Reach::Network));
        assert!(refused(&[("host", "evil.example")], Reach::Network));
        assert!(refused(&[], Reach::Network));
        assert!(refused(
            &[("host", "localhost"), ("host", "localhost")],
            Reach::Loopback
        ));
    }

    #[test]
    fn other_pages_are_not_let_in() {
        let with = |name, value| {
            refused(
                &[("host", "127.0.0.1:8080"), (name, value)],
                Reach::Loopback,
            )
        };
        assert!(!with("origin", "http://127.0.0.1:8080"));
        for origin in [
            "http://127.0.0.1:8081",
            "https://127.0.0.1:8080",
            "null",
            "http://evil.example",
        ] {
            assert!(with("origin", origin), "{origin}");
        }
        assert!(with("sec-fetch-site", "cross-site"));
        assert!(with("sec-fetch-site", "same-site"));
        assert!(!with("sec-fetch-site", "same-origin"));
        assert!(!with("sec-fetch-site", "none"));
        let navigates = [
            ("host", "127.0.0.1:8080"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert!(!refused(&navigates, Reach::Loopback));
    }

    #[test]
    fn tokens_differ_and_are_not_written_into_logs() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.to_string().len(), 48);
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
