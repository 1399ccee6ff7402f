//! The snapshots of several nodes on one line: in the order in which they were taken, and those of one instant, whatever
//! the clocks of the nodes say.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use model::{SnapshotId, TcpFacts, Timestamp};
use serde::Deserialize;

use crate::alignment::Sightings;
use crate::clocks::{Clock, clocks};
use crate::history::key;
use crate::together::Together;
use crate::{Entry, History, Key, Place, Since, Store, StoreError, format};

/// How many snapshots of a node are asked for what they say of connections; of many nodes, fewer.
const LOOKED_AT: usize = 4;
const LOOKED_AT_OF_MANY: usize = 2;
const MANY_NODES: usize = 16;
/// How often a node is looked at again. The second look is of the right time wherever two nodes share a connection; along a chain
/// of nodes it may take more.
const LOOKS: usize = 4;

/// The snapshots of several nodes, and how the clocks of these stand to each other.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// In the order of the places that were asked for; times are seen from the clock of the first.
    pub nodes: Vec<TimelineNode>,
}

/// One node of a [`Timeline`].
#[derive(Clone, Debug)]
pub struct TimelineNode {
    /// How its clock stands to that of the first node.
    pub clock: Clock,
    /// Its snapshots.
    pub history: History,
    /// The node.
    pub place: Place,
}

/// What of a snapshot tells how clocks stand; the rest is not formed.
#[derive(Deserialize)]
struct Seen {
    capture: SeenCapture,
    #[serde(default)]
    ipc: SeenIpc,
}

#[derive(Deserialize)]
struct SeenCapture {
    completed_at: Timestamp,
    started_at: Timestamp,
}

#[derive(Default, Deserialize)]
struct SeenIpc {
    #[serde(default)]
    endpoints: Vec<SeenEndpoint>,
}

#[derive(Deserialize)]
struct SeenEndpoint {
    target: String,
    #[serde(default)]
    tcp: Option<TcpFacts>,
}

impl Store {
    /// Returns the snapshots of `places` since a time, and how the clocks of their nodes stand around `instant` by the first
    /// one's clock: at the newest where none is given. For the clocks up to 4 snapshots of each node are looked at, and again
    /// of a node whose clock turns out to be so wrong that they were of another time; of more than 16 nodes, half as many.
    /// Snapshots that cannot be read tell nothing of clocks. `progress` is called with how many nodes are done.
    pub async fn timeline(
        &self,
        places: Vec<Place>,
        since: Since,
        instant: Option<Timestamp>,
        progress: impl FnMut(usize),
    ) -> Result<Timeline, StoreError> {
        let looked_at = looked_at(places.len());
        let works = places
            .into_iter()
            .map(|place| Looked::at(self.clone(), place, since, instant, looked_at));
        let mut nodes = together(works, progress).await?;
        let mut clocks = Looked::clocks(&nodes);
        for _ in 0..LOOKS {
            let Some(instant) = instant else { break };
            let before: Vec<Vec<SnapshotId>> = nodes.iter().map(|it| it.ids.clone()).collect();
            let works = nodes
                .into_iter()
                .zip(clocks)
                .map(|(node, clock)| node.again(self.clone(), clock, instant, looked_at));
            nodes = together(works, |_| {}).await?;
            clocks = Looked::clocks(&nodes);
            if nodes.iter().map(|it| &it.ids).eq(&before) {
                break;
            }
        }
        let nodes = nodes.into_iter().zip(clocks);
        let nodes = nodes.map(|(looked, clock)| TimelineNode {
            clock,
            history: looked.history,
            place: looked.place,
        });
        Ok(Timeline {
            nodes: nodes.collect(),
        })
    }
}

/// Does `works` several at a time; returns what they give, in their order.
async fn together<W>(
    works: impl Iterator<Item = W>,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Looked>, StoreError>
where
    W: Future<Output = Result<Looked, StoreError>> + Send + 'static,
{
    let mut doing = Together::default();
    let mut done = Vec::new();
    for (position, work) in works.enumerate() {
        if let Some(ended) = doing.add(async move { (position, work.await) }).await {
            done.push(ended);
            progress(done.len());
        }
    }
    while let Some(ended) = doing.next().await {
        done.push(ended);
        progress(done.len());
    }
    done.sort_by_key(|(position, _)| *position);
    done.into_iter().map(|(_, looked)| looked).collect()
}

impl Timeline {
    /// Returns every snapshot with the index of its node, first to last: those of one node by sequence number, those of
    /// different nodes by what both saw, and by their clocks where they saw nothing together.
    pub fn in_order(&self) -> Vec<(usize, Entry)> {
        let mut heads = BinaryHeap::new();
        let mut latest = vec![i64::MIN; self.nodes.len()];
        let mut push = |heads: &mut BinaryHeap<_>, node: usize, position: usize| {
            let found: &TimelineNode = &self.nodes[node];
            if let Some(entry) = found.history.entries.get(position) {
                // A clock that was set back does not put a later snapshot before an earlier one.
                latest[node] = latest[node].max(found.clock.common(entry.at()));
                heads.push(Reverse((latest[node], node, position)));
            }
        };
        for node in 0..self.nodes.len() {
            push(&mut heads, node, 0);
        }
        let mut ordered = Vec::new();
        while let Some(Reverse((_, node, position))) = heads.pop() {
            ordered.push((node, self.nodes[node].history.entries[position]));
            push(&mut heads, node, position + 1);
        }
        ordered
    }

    /// Returns for each node its newest snapshot; `None` where it has none. Whatever its clock says: it may have been set back.
    pub fn at_the_end(&self) -> Vec<Option<Key>> {
        let nodes = self.nodes.iter();
        nodes
            .map(|node| Some(key(&node.place, node.history.entries.last()?.id)))
            .collect()
    }

    /// Returns for each node the snapshot that was taken nearest to `instant` by the clock of the first node; `None` where it
    /// has none. Nodes that take a snapshot at the same moments are so seen at one moment.
    pub fn at(&self, instant: Timestamp) -> Vec<Option<Key>> {
        let instant = instant.as_microseconds();
        let nodes = self.nodes.iter();
        nodes
            .map(|node| {
                let distance = |entry: &&Entry| node.clock.common(entry.at()).abs_diff(instant);
                // Of several at the same distance, the first.
                let nearest = node.history.entries.iter().min_by_key(distance)?;
                Some(key(&node.place, nearest.id))
            })
            .collect()
    }
}

/// One node while its clock is being found out.
struct Looked {
    history: History,
    /// The snapshots that were looked at last.
    ids: Vec<SnapshotId>,
    place: Place,
    sightings: Sightings,
}

impl Looked {
    async fn at(
        store: Store,
        place: Place,
        since: Since,
        instant: Option<Timestamp>,
        looked_at: usize,
    ) -> Result<Self, StoreError> {
        let history = match store.history(&place, since).await {
            // A folder without anything in it.
            Err(StoreError::NotFound { .. }) => History {
                entries: Vec::new(),
                older: 0,
                retired: None,
            },
            history => history?,
        };
        let window = around(&history.entries, instant, looked_at);
        let ids = history.entries[window].iter().map(|it| it.id).collect();
        let mut looked = Self {
            history,
            ids: Vec::new(),
            place,
            sightings: Sightings::default(),
        };
        looked.look(&store, ids).await?;
        Ok(looked)
    }

    /// Looks at the snapshots of `instant` where others were looked at, because the clock turned out to be wrong.
    async fn again(
        mut self,
        store: Store,
        clock: Clock,
        instant: Timestamp,
        looked_at: usize,
    ) -> Result<Self, StoreError> {
        let micros = instant.as_microseconds().saturating_add(clock.ahead);
        let Some(instant) = Timestamp::from_microseconds(micros).filter(|_| clock.ahead != 0)
        else {
            return Ok(self);
        };
        let is_later = |first: &Entry| first.at() > instant;
        if self.history.older > 0 && self.history.entries.first().is_none_or(is_later) {
            self.history = store.history(&self.place, Since::Time(instant)).await?;
        }
        let entries = &self.history.entries;
        let window = around(entries, Some(instant), looked_at);
        let ids: Vec<SnapshotId> = entries[window].iter().map(|it| it.id).collect();
        if ids != self.ids {
            self.look(&store, ids).await?;
        }
        Ok(self)
    }

    async fn look(&mut self, store: &Store, ids: Vec<SnapshotId>) -> Result<(), StoreError> {
        self.ids = ids;
        for id in &self.ids {
            let key = key(&self.place, *id);
            let bytes = match store.fetch(&key.to_string()).await {
                // Retention was quicker.
                Err(StoreError::NotFound { .. }) => continue,
                bytes => bytes?,
            };
            let seen = match store
                .aside(move || format::decompress::<Seen>(&bytes))
                .await?
            {
                Ok(seen) => seen,
                Err(error) => {
                    tracing::debug!(%key, %error, "A snapshot cannot be read; it tells nothing of clocks.");
                    continue;
                }
            };
            let span = (seen.capture.started_at, seen.capture.completed_at);
            for endpoint in seen.ipc.endpoints {
                if let Some(facts) = &endpoint.tcp {
                    self.sightings.add(span, &endpoint.target, facts);
                }
            }
        }
        Ok(())
    }

    fn clocks(nodes: &[Self]) -> Vec<Clock> {
        clocks(&nodes.iter().map(|it| &it.sightings).collect::<Vec<_>>())
    }
}

fn looked_at(nodes: usize) -> usize {
    match nodes {
        // Nobody to compare a clock with.
        0 | 1 => 0,
        2..=MANY_NODES => LOOKED_AT,
        _ => LOOKED_AT_OF_MANY,
    }
}

/// Returns which `count` of `entries` are the nearest to `instant`, the last where there is none.
fn around(entries: &[Entry], instant: Option<Timestamp>, count: usize) -> Range<usize> {
    let past = instant.and_then(|instant| entries.iter().position(|it| it.at() > instant));
    let end = past.map_or(entries.len(), |past| past + count / 2);
    let end = end.max(count).min(entries.len());
    end.saturating_sub(count)..end
}
