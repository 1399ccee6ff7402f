//! How the clocks of the nodes of a run stand to that of the first, told by what the nodes saw together. It takes some snapshots
//! of each node, so nobody waits for it: until it is known, clocks are taken as they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Clock, Since, Store};
use tokio::time::Instant;

use crate::runs::{Run, RunId};

/// Of more nodes than this, clocks are not compared: it would take longer than a look at the page.
const MOST_NODES: usize = 64;
/// How long what was found is taken to be so: clocks drift, and are set.
const AGAIN: Duration = Duration::from_mins(1);
/// Runs whose clocks are remembered.
const REMEMBERED: usize = 8;

/// The clocks of the runs that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Clocks(Arc<Mutex<HashMap<RunId, Known>>>);

#[derive(Debug)]
struct Known {
    /// By node.
    clocks: BTreeMap<String, Clock>,
    asked: Instant,
}

impl Clocks {
    /// Puts what is known into the nodes of `run`, and has it found out where it is not.
    pub(crate) fn tell(&self, store: &Store, run: &mut Run) {
        if !(2..=MOST_NODES).contains(&run.nodes.len()) {
            return;
        }
        let mut clocks = lock(&self.0);
        let known = clocks.get_mut(&run.id);
        let is_due = known.as_ref().is_none_or(|it| it.asked.elapsed() > AGAIN);
        if let Some(known) = known {
            if is_due {
                known.asked = Instant::now();
            }
            for (place, node) in run.nodes.iter_mut().enumerate() {
                let clock = known.clocks.get(&node.place.node).copied();
                node.ahead = clock.map_or(0, |it| it.ahead);
                let is_known = clock.is_some_and(|it| !it.offset.is_unknown());
                node.is_clock_compared = place == 0 || is_known;
            }
        } else {
            if clocks.len() >= REMEMBERED {
                clocks.clear();
            }
            let known = Known {
                clocks: BTreeMap::new(),
                asked: Instant::now(),
            };
            clocks.insert(run.id.clone(), known);
        }
        drop(clocks);
        if is_due {
            tokio::spawn(ask(Arc::clone(&self.0), store.clone(), run.clone()));
        }
    }
}

async fn ask(clocks: Arc<Mutex<HashMap<RunId, Known>>>, store: Store, run: Run) {
    let places = run.nodes.into_iter().map(|node| node.place);
    // A node that cannot be read has its trouble elsewhere.
    let Ok(timeline) = store
        .timeline(places.collect(), Since::Recent, None, |_| {})
        .await
    else {
        return;
    };
    let nodes = timeline.nodes.into_iter();
    let found = nodes.map(|node| (node.place.node, node.clock));
    let found = found.collect();
    if let Some(known) = lock(&clocks).get_mut(&run.id) {
        known.clocks = found;
    }
}

fn lock(clocks: &Mutex<HashMap<RunId, Known>>) -> MutexGuard<'_, HashMap<RunId, Known>> {
    clocks.lock().unwrap_or_else(PoisonError::into_inner)
}
