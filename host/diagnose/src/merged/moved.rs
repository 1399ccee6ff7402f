//! Which ranks left which place for which, from one instant to another.

use std::collections::{BTreeMap, HashMap};

use model::{GapCode, Snapshot};
use serde::Serialize;

use super::merging::{self, Visit};
use super::{Merging, Others, Selection, Unread};

/// What became of each thread from one instant to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moves {
    /// Those of threads that did the same as one, the largest first.
    pub moves: Vec<Move>,
    /// Those whose stacks were not read at one of the two instants, by the reason: of these nothing can be told.
    pub unread: Vec<Unread>,
}

/// Threads that were at one place and are at another, or still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// How many of the outermost frames both places have in common.
    pub common: usize,
    /// Where they were, outermost first; absent for those who were not there yet.
    pub from: Option<Vec<String>>,
    /// Those who have no rank.
    pub others: Vec<Others>,
    /// How many processes they belong to.
    pub processes: usize,
    /// How many ranks.
    pub rank_count: usize,
    /// The ranks.
    pub ranks: String,
    /// How many threads.
    pub threads: usize,
    /// Where they are; absent for those who are not there any more.
    pub to: Option<Vec<String>>,
}

impl Move {
    /// Returns whether they are where they were. They may have been elsewhere in between.
    pub fn is_none(&self) -> bool {
        self.from == self.to
    }
}

impl Moves {
    /// Compares the snapshots of one instant, one of each node, with those of a later one.
    pub fn between(before: &[&Snapshot], after: &[&Snapshot], selection: &Selection) -> Self {
        let mut merging = Merging::new(selection.clone());
        for snapshot in before {
            merging.add(snapshot, snapshot.capture.started_at);
        }
        let earlier = std::mem::take(&mut merging.visits);
        let unread_before: Vec<Option<GapCode>> = merging.forget_unread();
        for snapshot in after {
            merging.add(snapshot, snapshot.capture.started_at);
        }
        for (process, code) in merging.people.processes.iter_mut().zip(unread_before) {
            process.unread = process.unread.or(code);
        }
        let later = std::mem::take(&mut merging.visits);
        let mut groups: BTreeMap<(Option<u32>, Option<u32>), Vec<u32>> = BTreeMap::new();
        for (thread, places) in places(&earlier, &later) {
            let process = merging.people.threads[thread as usize].process;
            if merging.people.processes[process as usize].unread.is_none() {
                groups.entry(places).or_default().push(process);
            }
        }
        let mut by_number: Vec<&[u32]> = vec![&[]; merging.places.len()];
        for (place, number) in &merging.places {
            by_number[*number as usize] = place;
        }
        let mut moves: Vec<Move> = groups
            .into_iter()
            .map(|((from, to), processes)| {
                let frames = |place: Option<u32>| place.map(|place| by_number[place as usize]);
                one(&merging, (frames(from), frames(to)), processes)
            })
            .collect();
        moves.sort_by(|one, other| {
            (other.threads, &one.from, &one.to).cmp(&(one.threads, &other.from, &other.to))
        });
        Self {
            moves,
            unread: merging::unread(&merging.people),
        }
    }
}

/// Where each thread was and is, by thread.
fn places(earlier: &[Visit], later: &[Visit]) -> HashMap<u32, (Option<u32>, Option<u32>)> {
    let mut places: HashMap<u32, (Option<u32>, Option<u32>)> = HashMap::new();
    for visit in earlier {
        places.entry(visit.thread).or_default().0 = Some(visit.place);
    }
    for visit in later {
        places.entry(visit.thread).or_default().1 = Some(visit.place);
    }
    places
}

/// `processes` has one for each thread.
fn one(
    merging: &Merging,
    (from, to): (Option<&[u32]>, Option<&[u32]>),
    processes: Vec<u32>,
) -> Move {
    let pairs = from
        .iter()
        .copied()
        .flatten()
        .zip(to.iter().copied().flatten());
    let common = pairs.take_while(|(one, other)| one == other).count();
    let threads = processes.len();
    let who = merging.people.name(processes);
    let texts = |place: Option<&[u32]>| place.map(|place| merging.labels.texts(place));
    Move {
        common,
        from: texts(from),
        others: who.others,
        processes: who.processes,
        rank_count: who.rank_count,
        ranks: who.ranks,
        threads,
        to: texts(to),
    }
}
