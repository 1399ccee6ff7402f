//! Episodes: what is wrong begins once, is told once, ends once it was not seen for a while, and can begin anew. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Target, Timestamp};

/// A part of [`Duration`] that snapshots which are a little early do not make up.
const EARLY: f64 = 0.8;
/// An episode has ended when this is reached: by healthy sights, each of which counts [`GONE`], or by unclear ones.
const ENDED: u32 = 6;
const GONE: u32 = 3;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// A lower-case dashed name.
    pub(super) kind: String,
    /// What it is about, so that two of one kind are told apart.
    pub(super) subject: String,
    /// One sentence.
    pub(super) message: String,
    pub(super) target: Target,
    /// Snapshot, pointer into it, and value.
    pub(super) evidence: Vec<(String, String, String)>,
}

/// What one snapshot shows.
#[derive(Clone, Debug)]
pub(super) enum Sight {
    /// This is wrong.
    Holds(Claim),
    /// Nothing is.
    Gone,
    /// That cannot be told.
    Unclear,
}

/// What to do after a sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing.
    None,
    /// It was seen for the first time: make sure.
    Suspected,
    /// It is established, and was so since then: tell it.
    Told(Timestamp),
}

/// The hang that goes on, if one does.
#[derive(Clone, Debug, Default)]
pub(super) enum Episode {
    /// All is well.
    #[default]
    Quiet,
    /// It was seen: its kind and subject, and since when nothing moves.
    Suspected(String, String, Timestamp),
    /// It was told; so much speaks for its end.
    Told(u32),
}

impl Episode {
    /// Goes on to the next sight, of what was so `since` then. It is established when two sights in a row show the same, after
    /// `patience` without progress.
    pub(super) fn see(
        &mut self,
        sight: &Sight,
        since: Timestamp,
        (now, patience): (Timestamp, Duration),
    ) -> News {
        match (&mut *self, sight) {
            (Self::Told(ending), sight) => {
                *ending = match sight {
                    Sight::Holds(_) => 0,
                    Sight::Gone => *ending + GONE,
                    Sight::Unclear => *ending + 1,
                };
                if *ending >= ENDED {
                    *self = Self::Quiet;
                }
                News::None
            }
            (Self::Suspected(kind, subject, from), Sight::Holds(claim))
                if *kind == claim.kind && *subject == claim.subject =>
            {
                let from = (*from).min(since);
                if now.since(from) < patience.mul_f64(EARLY) {
                    return News::None;
                }
                *self = Self::Told(0);
                News::Told(from)
            }
            (_, Sight::Holds(claim)) => {
                *self = Self::Suspected(claim.kind.clone(), claim.subject.clone(), since);
                News::Suspected
            }
            (_, Sight::Gone | Sight::Unclear) => {
                *self = Self::Quiet;
                News::None
            }
        }
    }
}

/// Limits that are near, by kind and subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Episodes {
    of: BTreeMap<(String, String), Near>,
}

#[derive(Clone, Copy, Debug)]
struct Near {
    sights: u32,
    absent: u32,
}

impl Episodes {
    /// Whether this was told and has not ended.
    pub(super) fn is_told(&self, kind: &str, subject: &str) -> bool {
        let key = (kind.to_owned(), subject.to_owned());
        self.of.get(&key).is_some_and(|near| near.sights > 1)
    }

    /// Goes on to the claims of the next snapshot; returns those that are to be told: seen twice in a row, not told before.
    pub(super) fn see(&mut self, claims: Vec<Claim>) -> Vec<Claim> {
        for near in self.of.values_mut() {
            near.absent += 1;
        }
        let mut told = Vec::new();
        for claim in claims {
            let key = (claim.kind.clone(), claim.subject.clone());
            let near = self.of.entry(key).or_insert(Near {
                sights: 0,
                absent: 0,
            });
            near.sights = near.sights.saturating_add(1);
            near.absent = 0;
            if near.sights == 2 {
                told.push(claim);
            }
        }
        self.of.retain(|_, near| match near.sights {
            1 => near.absent == 0,
            _ => near.absent < ENDED / GONE,
        });
        told
    }
}
