//! Connections: who holds the other end, of the same node or of another, and who could accept one.

use model::Endpoint;

use super::{Edge, EdgeKind, owners};
use crate::case::Case;
use crate::verdict::Evidence;

/// What somebody waits for at one end of a connection: those who hold the other end, here or on another node.
pub(super) fn socket(
    case: &Case<'_>,
    actor: usize,
    index: usize,
    endpoint: &Endpoint,
    writes: bool,
) -> Option<Edge> {
    let node = case.actors[actor].node;
    let mut evidence: Vec<Evidence> = Vec::new();
    let (wakers, outside) = match &endpoint.peer {
        Some(peer) => {
            let (_, other) = case.nodes[node].endpoint(peer)?;
            evidence.extend(case.cite_newest(node, &format!("/ipc/endpoints/{index}/peer")));
            let is_unread = case.nodes[node].has_unread("fd");
            (owners(case, node, other, None), is_unread)
        }
        // Elsewhere, or not accepted yet: then who listens there could.
        None => match elsewhere(case, node, endpoint) {
            Some((wakers, shown)) => {
                evidence.extend(shown);
                (wakers, false)
            }
            None => listeners(case, node, endpoint)
                .map_or_else(|| (Vec::new(), true), |wakers| (wakers, false)),
        },
    };
    if endpoint.tcp.is_some() {
        let remote = format!("/ipc/endpoints/{index}/tcp/remote");
        evidence.splice(0..0, case.cite_newest(node, &remote));
    }
    Some(Edge {
        kind: if writes {
            EdgeKind::SocketWrite
        } else {
            EdgeKind::SocketRead
        },
        wakers,
        outside,
        evidence,
    })
}

/// Who holds the other end of a TCP connection on another node, and what shows that there.
fn elsewhere(
    case: &Case<'_>,
    node: usize,
    endpoint: &Endpoint,
) -> Option<(Vec<usize>, Vec<Evidence>)> {
    let tcp = endpoint.tcp.as_ref()?;
    // Every node has the same ones.
    let is_loopback = |address: &str| {
        let address = address.parse::<std::net::SocketAddr>();
        address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
    };
    if is_loopback(&tcp.local) || is_loopback(&tcp.remote) {
        return None;
    }
    for (other, it) in case
        .nodes
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != node)
    {
        let mut endpoints = it.newest().ipc.endpoints.iter().enumerate();
        let peer = endpoints.find(|(_, peer)| {
            let peer = peer.tcp.as_ref();
            peer.is_some_and(|peer| peer.local == tcp.remote && peer.remote == tcp.local)
        });
        if let Some((index, peer)) = peer {
            let shown = ["tcp/local", "owners"].iter().filter_map(|key| {
                case.cite_newest(other, &format!("/ipc/endpoints/{index}/{key}"))
            });
            return Some((owners(case, other, peer, None), shown.collect()));
        }
    }
    None
}

/// Who of the same node listens where a TCP socket wants to be connected.
fn listeners(case: &Case<'_>, node: usize, endpoint: &Endpoint) -> Option<Vec<usize>> {
    let remote = endpoint.tcp.as_ref()?.remote.as_str();
    let (_, port) = remote.rsplit_once(':')?;
    let endpoints = case.nodes[node].newest().ipc.endpoints.iter();
    let mut listening = endpoints.filter(|other| {
        let other = other.tcp.as_ref();
        other.is_some_and(|other| {
            let anywhere = ["0.0.0.0", "[::]"]
                .iter()
                .any(|any| other.local == format!("{any}:{port}"));
            other.state == "listen" && (other.local == remote || anywhere)
        })
    });
    listening
        .next()
        .map(|listener| owners(case, node, listener, None))
}

/// A connection that is asked for: whoever listens there could accept it.
pub(super) fn connection(case: &Case<'_>, actor: usize, target: &str) -> Option<Edge> {
    let node = case.actors[actor].node;
    let (index, endpoint) = case.nodes[node].endpoint(target)?;
    let mut evidence = Vec::new();
    let mut wakers = Vec::new();
    if endpoint.tcp.is_some() {
        for key in ["tcp/state", "tcp/remote"] {
            evidence.extend(case.cite_newest(node, &format!("/ipc/endpoints/{index}/{key}")));
        }
        wakers = listeners(case, node, endpoint).unwrap_or_default();
    }
    Some(Edge {
        kind: EdgeKind::Connect,
        outside: wakers.is_empty(),
        wakers,
        evidence,
    })
}
