//! `taskscope diff`

mod stacks;

use anyhow::Context;
use clap::{ArgGroup, Args};
use diagnose::RankSet;
use model::Snapshot;
use store::Store;

use crate::args::StoredArgs;
use crate::commands::World;
use crate::config;
use crate::diff;
use crate::merged::MergeArgs;
use crate::outcome::Outcome;
use crate::root::{self, At};
use crate::ui;

/// Say what changed between two stored snapshots: processes, stacks, waits, memory, progress, limits; or what differs between two
/// sets of ranks
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("stacks").args(["merged", "ranks"]))]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// The earlier snapshot: an id, or a UTC time
    #[arg(
        long,
        value_name = "ID|TIME",
        required_unless_present = "ranks",
        conflicts_with = "ranks"
    )]
    from: Option<At>,

    /// The later snapshot: an id, a UTC time, or latest
    #[arg(
        long,
        value_name = "ID|TIME|latest",
        default_value = "latest",
        conflicts_with = "ranks"
    )]
    to: At,

    /// Compare the Python stacks of all ranks and threads of all nodes instead: who left which place for which
    #[arg(long)]
    merged: bool,

    /// Compare the stacks of these ranks, such as 0-2,5, with those of others in one snapshot
    #[arg(long, value_name = "RANKS")]
    ranks: Option<RankSet>,

    /// The ranks that those of --ranks are compared with [default: all others]
    #[arg(long, value_name = "RANKS", requires = "ranks")]
    against: Option<RankSet>,

    /// With --ranks, in which snapshot: an id, a UTC time, or latest
    #[arg(
        long,
        value_name = "ID|TIME|latest",
        default_value = "latest",
        requires = "ranks"
    )]
    at: At,

    #[command(flatten)]
    merge: MergeArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DiffArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.stored.root.as_deref(), &loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if let Some(ranks) = &args.ranks {
        runtime.block_on(stacks::of_ranks(args, ranks, &location, world.ui))?;
        return Ok(Outcome::Well);
    }
    let at = args.from.context("--from is missing")?;
    if args.merged {
        runtime.block_on(stacks::of_instants(args, at, &location, world.ui))?;
        return Ok(Outcome::Well);
    }
    let (mut from, mut to, other_nodes) = runtime.block_on(async {
        let store = Store::open(&location)?;
        let source = root::source(&store, &location, args.stored.wanted()).await?;
        let from = source.find(&store, at).await?;
        let to = source.find(&store, args.to).await?;
        let others = to.other_nodes;
        let (from, to) = tokio::join!(store.load(&from.key), store.load(&to.key));
        anyhow::Ok((from?, to?, others))
    })?;
    if args.stored.node.is_none() && !other_nodes.is_empty() {
        let (node, others) = (&to.task.node, root::few(&other_nodes));
        ui::say(&format!(
            "this is node {node}; --node compares another: {others}"
        ));
    }
    if is_later(&from, &to) {
        std::mem::swap(&mut from, &mut to);
    }
    let diff = diff::compare(&from, &to);
    let text = if args.json {
        serde_json::to_string(&diff)? + "\n"
    } else {
        diff::page(&diff, world.ui)
    };
    ui::data(&text)?;
    Ok(Outcome::Well)
}

/// Returns whether the snapshot that was named as the earlier one is the later one; then it is said.
fn is_later(from: &Snapshot, to: &Snapshot) -> bool {
    let order = |it: &Snapshot| {
        let capture = &it.capture;
        (it.task.attempt, capture.sequence, capture.started_at)
    };
    let is_later = order(from) > order(to);
    if is_later {
        ui::say("--from is the later one; they are compared the other way round");
    }
    is_later
}
