//! Which hosts a sink may talk to, and to which addresses a name may lead it.
//!
//! A name is granted by whoever writes the settings, but where it leads to is up to whoever runs its DNS. So an address
//! of this machine, of its link or of a private network is reached only where the settings name that very address:
//! otherwise a name could be pointed at the metadata service of a cloud, or at a database that trusts its neighbours.
//! `localhost` says by itself where it leads.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use reqwest::Url;

/// One host that may be talked to: `https://hooks.example.com`, `*.corp.example:8443`, `http://127.0.0.1:9000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGrant {
    host: Host,
    port: u16,
    scheme: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// Every name that ends so; begins with a dot.
    Below(String),
    Name(String),
}

/// A text that grants no host.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no host; write \"https://hooks.example.com\", \"*.corp.example:8443\" or \"http://127.0.0.1:9000\", \
     without a path"
)]
pub struct ParseGrantError(String);

impl HttpGrant {
    fn covers(&self, url: &Url) -> bool {
        self.scheme == url.scheme()
            && Some(self.port) == url.port_or_known_default()
            && host(url).is_some_and(|host| match (&self.host, &host) {
                (Host::Below(end), Host::Name(name)) => {
                    name.len() > end.len() && name.ends_with(end)
                }
                (granted, asked) => granted == asked,
            })
    }
}

/// Tells whether one of `grants` covers `url`.
pub(super) fn covers(grants: &[HttpGrant], url: &Url) -> bool {
    grants.iter().any(|grant| grant.covers(url))
}

/// Tells whether `name`, which is granted, may lead to `address`.
pub(super) fn may_lead_to(grants: &[HttpGrant], name: &str, address: IpAddr) -> bool {
    let address = address.to_canonical();
    if !is_inner(address) {
        return true;
    }
    let is_localhost = name == "localhost" && address.is_loopback();
    grants.iter().any(|grant| match &grant.host {
        Host::Address(granted) => *granted == address,
        Host::Name(granted) => is_localhost && granted == name,
        Host::Below(_) => false,
    })
}

/// Tells whether `address` is one of this machine, its link or a private network, or none of a single machine.
fn is_inner(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_inner_v4(address),
        IpAddr::V6(address) => {
            let parts = address.segments();
            let embedded = match parts {
                // NAT64 and 6to4 carry an address of version 4, as do the compatible ones of old.
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => {
                    Some((high, low))
                }
                [0x2002, high, low, ..] => Some((high, low)),
                _ => None,
            };
            let is_local = parts[0] & 0xfe00 == 0xfc00 || parts[0] & 0xffc0 == 0xfe80;
            is_local
                || address.is_multicast()
                || address == Ipv6Addr::LOCALHOST
                || embedded.is_some_and(|(high, low)| {
                    is_inner_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
                })
        }
    }
}

fn is_inner_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || matches!(
            (first, second),
            (0 | 224.., _) | (100, 64..128) | (192, 0) | (198, 18..20)
        )
}

/// Returns the host of `url`, in the form in which grants have it.
fn host(url: &Url) -> Option<Host> {
    let text = url.host_str()?;
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    Some(match bare.parse::<IpAddr>() {
        Ok(address) => Host::Address(address.to_canonical()),
        Err(_) => Host::Name(text.to_owned()),
    })
}

impl FromStr for HttpGrant {
    type Err = ParseGrantError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseGrantError(text.to_owned());
        let (scheme, rest) = match text.split_once("://") {
            Some(("https", rest)) => ("https", rest),
            Some(("http", rest)) => ("http", rest),
            Some(_) => return Err(refused()),
            None => ("https", text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (is_below, bare) = match rest.strip_prefix("*.") {
            Some(bare) => (true, bare),
            None => (false, rest),
        };
        if bare.is_empty() || bare.contains(['/', '\\', '?', '#', '@', '*', '{']) {
            return Err(refused());
        }
        let url = Url::parse(&format!("{scheme}://{bare}")).map_err(|_| refused())?;
        let host = match (host(&url).ok_or_else(refused)?, is_below) {
            (Host::Name(name), true) => Host::Below(format!(".{name}")),
            (_, true) => return Err(refused()),
            (host, false) => host,
        };
        let port = url.port_or_known_default().ok_or_else(refused)?;
        Ok(Self { host, port, scheme })
    }
}

impl fmt::Display for HttpGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, scheme } = self;
        match host {
            Host::Address(IpAddr::V6(address)) => {
                write!(formatter, "{scheme}://[{address}]:{port}")
            }
            Host::Address(address) => write!(formatter, "{scheme}://{address}:{port}"),
            Host::Below(end) => write!(formatter, "{scheme}://*{end}:{port}"),
            Host::Name(name) => write!(formatter, "{scheme}://{name}:{port}"),
        }
    }
}

/// Returns what of `url` a grant would have to say, for a message.
pub(super) fn origin(url: &Url) -> String {
    let port = url.port_or_known_default();
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!(
        "{}://{}{port}",
        url.scheme(),
        url.host_str().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests;
