//! What a process listens to: sockets that others may connect to, and connections that it reads from.

use std::time::Duration;

use model::Thread;

use super::Case;
use crate::graph::{target_of, watched};
use crate::wait::{self, Wait};

impl Case<'_> {
    /// Whether a process has a socket that listens.
    pub(crate) fn listens(&self, actor: usize) -> bool {
        let it = &self.actors[actor];
        let endpoints = self.nodes[it.node].newest().ipc.endpoints.iter();
        let mut listening = endpoints.filter(|endpoint| {
            let tcp = endpoint.tcp.as_ref().map(|it| it.state.as_str());
            let unix = endpoint.unix.as_ref().map(|it| it.state.as_str());
            tcp.or(unix) == Some("listen")
        });
        listening.any(|endpoint| {
            let mut owners = endpoint.owners.iter();
            owners.any(|owner| owner.identity == it.process.identity)
        })
    }

    /// Whether a process has read from a connection for longer than most answers take: since it came there, or since something
    /// went over that connection.
    pub(crate) fn is_long_unanswered(&self, actor: usize) -> bool {
        let it = &self.actors[actor];
        let tcp = match &it.wait {
            Wait::Read { target, .. } => self.nodes[it.node].endpoint(target),
            _ => None,
        };
        let tcp = tcp.and_then(|(_, endpoint)| endpoint.tcp.as_ref());
        let has_heard = tcp.is_some_and(|tcp| tcp.bytes_received.is_some_and(|count| count > 0));
        let heard = tcp
            .and_then(|tcp| tcp.last_received_ms)
            .filter(|_| has_heard);
        let said = tcp.and_then(|tcp| tcp.last_sent_ms);
        let quiet = heard.into_iter().chain(said).min();
        let quiet = quiet.map(|ago| Duration::from_millis(ago.into()));
        it.seen
            .is_some_and(|seen| seen.is_long_unanswered(quiet.unwrap_or(seen.main_still)))
    }

    /// Whether `other` reads from one of a pair of sockets without a name, whose other one its ancestor `actor` holds: by such
    /// pairs processes give work to those that they start (`socketpair(2)`, `multiprocessing.Pipe`).
    pub(crate) fn is_given_work(&self, actor: usize, other: usize) -> bool {
        let it = &self.actors[other];
        let Wait::Read { target, .. } = &it.wait else {
            return false;
        };
        let endpoint = |target: &str| self.nodes[it.node].endpoint(target).map(|(_, it)| it);
        let is_nameless = |endpoint: &model::Endpoint| {
            let unix = endpoint.unix.as_ref();
            unix.is_some_and(|unix| unix.path.is_none())
        };
        let own = endpoint(target).filter(|own| is_nameless(own));
        let peer = own.and_then(|own| endpoint(own.peer.as_deref()?));
        peer.is_some_and(is_nameless) && self.descendants(actor).contains(&other)
    }

    /// Whether a thread of `actor` reads from, or watches, the connection that `other` waits for an answer over.
    pub(crate) fn attends(&self, actor: usize, other: usize) -> bool {
        let node = self.actors[other].node;
        let target = match &self.actors[other].wait {
            Wait::Read { target, .. } => Some(target.clone()),
            Wait::Poll { fds, .. } => fds.first().and_then(|fd| target_of(self, other, *fd)),
            _ => None,
        };
        let peer = target.and_then(|target| self.nodes[node].endpoint(&target)?.1.peer.clone());
        let Some(peer) = peer else {
            return false;
        };
        let is_peer = |fd: &i32| target_of(self, actor, *fd).as_deref() == Some(peer.as_str());
        let attends = |thread: &Thread| match wait::of(thread) {
            Wait::Read { target, .. } => target == peer,
            // Which descriptors a `select` watches is not known.
            Wait::Poll { fds, .. } => fds.is_empty() || fds.iter().any(is_peer),
            Wait::Epoll { fd, .. } => {
                watched(self, actor, fd).is_none_or(|(fds, _)| fds.iter().any(is_peer))
            }
            _ => false,
        };
        self.actors[actor].process.proc.threads.iter().any(attends)
    }
}
