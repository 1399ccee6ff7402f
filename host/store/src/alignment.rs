//! How far the clock of one node is ahead of another's, told by what both saw: bounds, never a guess.
//!
//! What has arrived was sent before. The two ends of a TCP connection count the bytes that they sent and that have
//! arrived (`model::TcpFacts`). Where one end has acknowledged more than the other had received when it was looked at, the
//! other was looked at before; where one end had received more than the other had ever handed over, the other was looked
//! at before. Each such pair of snapshots bounds the difference of the clocks from one side, as a message with a time stamp
//! does in Cristian's algorithm, whatever the clocks say and however long messages take. Many pairs make the bounds narrow:
//! about as wide as snapshots of a connection in use are apart.
//!
//! Loopback addresses are the same on every node and tell nothing. An address with several sockets over time tells nothing
//! either, because its bytes are counted from 0 again.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{Snapshot, TcpFacts, Timestamp};

/// The beginning and the end of a connection count as a byte each at the side that sends them.
const UNCOUNTED: u64 = 2;

/// How far a clock is ahead of another, microseconds; negative where it is behind. A bound that nothing shows is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// At least so far.
    pub least: Option<i64>,
    /// At most so far.
    pub most: Option<i64>,
}

/// One end of a connection in one snapshot.
#[derive(Clone, Copy, Debug)]
struct End {
    /// It was looked at between these two, by the clock of its node.
    begun: i64,
    ended: i64,
    /// Bytes that had arrived here.
    received: u64,
    /// Bytes that had certainly arrived at the other side.
    sent_least: u64,
    /// Bytes that were ever handed over to be sent.
    sent_most: u64,
}

/// The own address of a socket and the other side's.
pub(crate) type Addresses = (SocketAddr, SocketAddr);

/// What one node has seen of its connections in some of its snapshots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sightings(BTreeMap<Addresses, Connection>);

#[derive(Clone, Debug)]
struct Connection {
    /// Each time it was looked at.
    ends: Vec<End>,
    /// Whether the addresses had several sockets.
    is_reused: bool,
    /// The link text of its descriptor.
    socket: String,
}

/// Returns how far the clock of the node of `theirs` is ahead of that of `ours`, by the connections that both show.
/// Snapshots of each node may be in any order. Evidence that contradicts itself, as when a clock was set meanwhile, tells
/// nothing.
pub fn offset(ours: &[Snapshot], theirs: &[Snapshot]) -> Offset {
    Sightings::of(ours).offset(&Sightings::of(theirs))
}

impl Offset {
    /// Returns whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Returns which came first, a snapshot of ours from one time to another by our clock or one of theirs by theirs;
    /// `None` where that cannot be told.
    pub fn order(
        &self,
        ours: (Timestamp, Timestamp),
        theirs: (Timestamp, Timestamp),
    ) -> Option<Ordering> {
        let micros = Timestamp::as_microseconds;
        let ended_before = |most| micros(ours.1).saturating_add(most) < micros(theirs.0);
        let began_after = |least| micros(ours.0).saturating_add(least) > micros(theirs.1);
        if self.most.is_some_and(ended_before) {
            Some(Ordering::Less)
        } else if self.least.is_some_and(began_after) {
            Some(Ordering::Greater)
        } else {
            None
        }
    }

    fn narrow(&mut self, our: &End, their: &End) {
        let their_first = our.sent_least > their.received.saturating_add(UNCOUNTED)
            || our.received > their.sent_most.saturating_add(UNCOUNTED);
        let our_first = their.sent_least > our.received.saturating_add(UNCOUNTED)
            || their.received > our.sent_most.saturating_add(UNCOUNTED);
        if their_first {
            self.least = self.least.max(Some(their.begun - our.ended));
        }
        if our_first {
            let most = their.ended - our.begun;
            self.most = Some(self.most.map_or(most, |known| known.min(most)));
        }
    }
}

impl Sightings {
    fn of(snapshots: &[Snapshot]) -> Self {
        let mut sightings = Self::default();
        for snapshot in snapshots {
            let capture = &snapshot.capture;
            let span = (capture.started_at, capture.completed_at);
            for endpoint in &snapshot.ipc.endpoints {
                if let Some(facts) = &endpoint.tcp {
                    sightings.add(span, &endpoint.target, facts);
                }
            }
        }
        sightings
    }

    /// Adds what a snapshot says of the socket whose descriptor's link text is `socket`; `span` is when it was taken.
    pub(crate) fn add(&mut self, span: (Timestamp, Timestamp), socket: &str, facts: &TcpFacts) {
        let Some((addresses, end)) = end(span, facts) else {
            return;
        };
        let connection = self.0.entry(addresses).or_insert_with(|| Connection {
            ends: Vec::new(),
            is_reused: false,
            socket: socket.to_owned(),
        });
        connection.is_reused |= connection.socket != socket;
        connection.ends.push(end);
    }

    /// Returns the addresses of the connections that tell something.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Addresses> {
        let told = self
            .0
            .iter()
            .filter(|(_, connection)| !connection.is_reused);
        told.map(|(addresses, _)| *addresses)
    }

    /// Returns how far the clock of the node that saw `theirs` is ahead of this one's.
    pub(crate) fn offset(&self, theirs: &Self) -> Offset {
        let mut offset = Offset::default();
        for (local, remote) in self.addresses() {
            for our in self.ends((local, remote)) {
                for their in theirs.ends((remote, local)) {
                    offset.narrow(our, their);
                }
            }
        }
        match (offset.least, offset.most) {
            (Some(least), Some(most)) if least > most => Offset::default(),
            _ => offset,
        }
    }

    /// Sees of one connection what `other` does.
    #[cfg(test)]
    pub(crate) fn replace(&mut self, addresses: Addresses, other: &Self) {
        self.0.insert(addresses, other.0[&addresses].clone());
    }

    fn ends(&self, addresses: Addresses) -> &[End] {
        let connection = self.0.get(&addresses).filter(|it| !it.is_reused);
        connection.map_or(&[], |connection| &connection.ends)
    }
}

fn end(span: (Timestamp, Timestamp), facts: &TcpFacts) -> Option<(Addresses, End)> {
    let local: SocketAddr = facts.local.parse().ok()?;
    let remote: SocketAddr = facts.remote.parse().ok()?;
    if local.ip().is_loopback() || remote.ip().is_loopback() {
        return None;
    }
    let sent_least = facts.bytes_acknowledged?;
    let end = End {
        begun: span.0.as_microseconds(),
        ended: span.1.as_microseconds(),
        received: facts.bytes_received?,
        sent_least,
        sent_most: sent_least.saturating_add(u64::from(facts.send_queue)),
    };
    Some(((local, remote), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Endpoint, EndpointKind};
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000_000;
    const SECOND: i64 = 1_000_000;
    const A: &str = "10.0.0.1:29500";
    const B: &str = "10.0.0.2:40000";

    /// A snapshot at `at` by its node's clock that takes 0.1 s, with one socket.
    fn snapshot(at: i64, socket: u64, local: &str, remote: &str, counted: [u64; 3]) -> Snapshot {
        let [acknowledged, queued, received] = counted;
        let mut snapshot = crate::sample::snapshot(0);
        let time = |micros| Timestamp::from_microseconds(1_796_000_000_000_000 + micros).unwrap();
        snapshot.capture.started_at = time(at);
        snapshot.capture.completed_at = time(at + SECOND / 10);
        snapshot.ipc.endpoints = vec![Endpoint {
            kind: Some(EndpointKind::Tcp),
            target: format!("socket:[{socket}]"),
            tcp: Some(TcpFacts {
                bytes_acknowledged: Some(acknowledged),
                bytes_received: Some(received),
                local: local.to_owned(),
                remote: remote.to_owned(),
                send_queue: u32::try_from(queued).unwrap(),
                ..TcpFacts::default()
            }),
            ..Endpoint::default()
        }];
        snapshot
    }

    /// What two nodes see of a connection on which A sends 1 kB each second; B's clock is ahead by `ahead`. `delay` is what a
    /// message takes. A looks each `ours` seconds, B each `theirs`.
    fn seen(ahead: i64, delay: i64, ours: i64, theirs: i64) -> (Vec<Snapshot>, Vec<Snapshot>) {
        let bytes = |at: i64| u64::try_from(at.max(0) / SECOND * 1000).unwrap();
        let a = (0..20).map(|turn| {
            let at = turn * ours * SECOND;
            let (acknowledged, sent) = (bytes(at - 2 * delay), bytes(at));
            snapshot(at, 1, A, B, [acknowledged, sent - acknowledged, 0])
        });
        let b = (0..20).map(|turn| {
            let at = turn * theirs * SECOND + SECOND / 2;
            snapshot(at + ahead, 2, B, A, [0, 0, bytes(at - delay)])
        });
        (a.collect(), b.collect())
    }

    #[test]
    fn clocks_an_hour_apart_are_seen_through_by_one_connection() {
        let (a, b) = seen(HOUR, SECOND / 10, 10, 10);
        let found = offset(&a, &b);
        let (least, most) = (found.least.unwrap(), found.most.unwrap());
        assert!((least..=most).contains(&HOUR), "{found:?}");
        assert!(most - least <= 21 * SECOND, "{found:?}");
        let span = |it: &Snapshot| (it.capture.started_at, it.capture.completed_at);
        // By the clocks B took all of its snapshots after A's.
        assert_eq!(
            found.order(span(&a[10]), span(&b[2])),
            Some(Ordering::Greater)
        );
        assert_eq!(found.order(span(&a[2]), span(&b[10])), Some(Ordering::Less));
        assert_eq!(found.order(span(&a[5]), span(&b[5])), None);
        let back = offset(&b, &a);
        assert_eq!((back.least, back.most), (Some(-most), Some(-least)));
    }

    #[test]
    fn without_a_shared_connection_nothing_is_known() {
        let unknown = Offset::default();
        let (a, b) = seen(HOUR, 0, 10, 10);
        assert_eq!(offset(&a, &[]), unknown);
        let elsewhere = snapshot(0, 2, B, "10.0.0.3:1", [0, 0, 1 << 20]);
        assert_eq!(offset(&a, &[elsewhere]), unknown);
        let here = |it: &Snapshot| {
            let mut it = it.clone();
            for endpoint in &mut it.ipc.endpoints {
                let tcp = endpoint.tcp.as_mut().unwrap();
                tcp.local = tcp.local.replace("10.0.0", "127.0.0");
                tcp.remote = tcp.remote.replace("10.0.0", "127.0.0");
            }
            it
        };
        let (a_here, b_here): (Vec<_>, Vec<_>) =
            (a.iter().map(here).collect(), b.iter().map(here).collect());
        assert_eq!(offset(&a_here, &b_here), unknown);
        // The address has a second socket, which counts from 0.
        let mut reused = b.clone();
        reused.push(snapshot(HOUR, 3, B, A, [0, 0, 0]));
        assert_eq!(offset(&a, &reused), unknown);
        assert!(offset(&a, &b).most.is_some());
    }

    #[test]
    fn what_contradicts_itself_tells_nothing() {
        let (a, mut b) = seen(0, 0, 10, 10);
        let (_, later) = seen(HOUR, 0, 10, 10);
        b.extend(later);
        assert!(offset(&a, &b).is_unknown());
    }

    proptest! {
        #[test]
        fn the_truth_lies_within_the_bounds(
            ahead in -HOUR..HOUR, delay in 0..30 * SECOND, ours in 1..30_i64, theirs in 1..30_i64,
        ) {
            let (a, b) = seen(ahead, delay, ours, theirs);
            let found = offset(&a, &b);
            prop_assert!(found.least.is_none_or(|least| least <= ahead), "{found:?}");
            prop_assert!(found.most.is_none_or(|most| most >= ahead), "{found:?}");
            // What was acknowledged late was received after the first look, at the least.
            prop_assert!(found.least.is_some() || delay > ours * SECOND, "{found:?}");
        }
    }
}
