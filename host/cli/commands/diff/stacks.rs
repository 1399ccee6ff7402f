//! `taskscope diff --merged` and `--ranks`: the Python stacks of all ranks at two instants, or of two sets of ranks at one.

use anyhow::bail;
use diagnose::{Both, Comparison, Merged, Move, Moves, RankSet, TwoSets, Unread};
use model::{Snapshot, Timestamp};
use serde::Serialize;
use store::{Location, Store};

use super::{DiffArgs, is_later};
use crate::merged;
use crate::page::{self, Looked};
use crate::root::{self, At};
use crate::ui::{self, Ui};

/// The document of `--ranks --json`: one tree, each frame of which has who of either set is there.
#[derive(Serialize)]
struct OfRanks<'a> {
    /// The ranks that are `other` in the tree.
    against: String,
    looked: &'a Looked,
    /// The ranks that are `one` in the tree.
    ranks: String,
    tree: &'a [Both],
    unread: &'a [Unread],
}

/// The document of `--merged --json`.
#[derive(Serialize)]
struct OfInstants<'a> {
    from: &'a Looked,
    moves: &'a [Move],
    to: &'a Looked,
    /// Both instants laid over each other: the earlier is `one`, the later is `other`.
    tree: &'a [Both],
    unread: &'a [Unread],
}

/// Compares two sets of ranks at one instant.
pub(super) async fn of_ranks(
    args: &DiffArgs,
    ranks: &RankSet,
    location: &Location,
    ui: Ui,
) -> anyhow::Result<()> {
    let store = Store::open(location)?;
    let source = root::source(&store, location, args.stored.wanted()).await?;
    let one = args.stored.node.is_some();
    let snapshots = merged::at(&store, &source, args.at, one).await?;
    let snapshots: Vec<&Snapshot> = snapshots.iter().collect();
    let sets = TwoSets::of(&snapshots, ranks, args.against.as_ref());
    merged::are_there(Some(ranks), &sets.there)?;
    merged::are_there(args.against.as_ref(), &sets.there)?;
    if sets.other.is_empty() {
        bail!("there is no other rank to compare {ranks} with");
    }
    let comparison = sets.compared(&snapshots, &args.merge.selection(None));
    let named = |ranks: &[u64]| (diagnose::ranges(ranks.iter().copied()), ranks.len());
    let ((ranks, how_many), (against, of_them)) = (named(&sets.one), named(&sets.other));
    let looked = looked(&snapshots);
    let text = if args.json {
        store::encode_json(&OfRanks {
            against,
            looked: &looked,
            ranks,
            tree: &comparison.tree,
            unread: &comparison.unread,
        })? + "\n"
    } else {
        let name = |ranks: &str, how_many| page::ranks(ranks, how_many).unwrap_or_default();
        let names = (name(&ranks, how_many), name(&against, of_them));
        page::compared(&comparison, &looked, (&names.0, &names.1), ui)
    };
    ui::data(&text)?;
    Ok(())
}

/// Compares two instants.
pub(super) async fn of_instants(
    args: &DiffArgs,
    from: At,
    location: &Location,
    ui: Ui,
) -> anyhow::Result<()> {
    let store = Store::open(location)?;
    let source = root::source(&store, location, args.stored.wanted()).await?;
    let one = args.stored.node.is_some();
    let mut from = merged::at(&store, &source, from, one).await?;
    let mut to = merged::at(&store, &source, args.to, one).await?;
    if is_later(&from[0], &to[0]) {
        std::mem::swap(&mut from, &mut to);
    }
    let (from, to): (Vec<&Snapshot>, Vec<&Snapshot>) = (from.iter().collect(), to.iter().collect());
    let selection = args.merge.selection(None);
    let moves = Moves::between(&from, &to, &selection);
    let (before, after) = (looked(&from), looked(&to));
    let text = if args.json {
        let (one, other) = (Merged::of(&from, &selection), Merged::of(&to, &selection));
        store::encode_json(&OfInstants {
            from: &before,
            moves: &moves.moves,
            to: &after,
            tree: &Comparison::of(&one, &other).tree,
            unread: &moves.unread,
        })? + "\n"
    } else {
        page::moved(&moves, &before, &after, ui)
    };
    ui::data(&text)?;
    Ok(())
}

/// Snapshots of one instant: the time is that of the first.
fn looked(snapshots: &[&Snapshot]) -> Looked {
    let mut looked = Looked::default();
    let instant: Option<Timestamp> = snapshots.first().map(|it| it.capture.started_at);
    for (snapshot, at) in snapshots.iter().zip(instant.into_iter().cycle()) {
        looked.add(snapshot, at);
    }
    looked
}
