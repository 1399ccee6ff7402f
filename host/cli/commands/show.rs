//! `taskscope show`

mod merged;

use std::num::NonZeroUsize;

use clap::{ArgGroup, Args};
use diagnose::RankSet;
use model::{Process, Snapshot};
use store::Store;

use crate::args::StoredArgs;
use crate::clocks;
use crate::commands::World;
use crate::config;
use crate::merged::MergeArgs;
use crate::outcome::Outcome;
use crate::page;
use crate::root::{self, At};
use crate::ui;

/// Show a stored snapshot: ranks and processes as a tree, what each is doing, and what could not be seen
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("stacks").args(["merged"]))]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// Which snapshot: an id, a UTC time, or latest
    #[arg(long, value_name = "ID|TIME|latest", default_value = "latest")]
    at: At,

    /// One process in full: every thread with its stack, descriptors, environment
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,

    /// The Python stacks of all ranks and threads as one tree, with who is where
    #[arg(long, conflicts_with_all = ["pid", "redactions"])]
    merged: bool,

    /// With --merged, over time: the newest N snapshots up to --at
    #[arg(long, value_name = "N", requires = "stacks", conflicts_with = "since")]
    last: Option<NonZeroUsize>,

    /// With --merged, over time: the snapshots from this id or UTC time on, up to --at
    #[arg(long, value_name = "ID|TIME", requires = "stacks")]
    since: Option<At>,

    /// With --merged, only these ranks, such as 0-2,5
    #[arg(long, value_name = "RANKS", requires = "stacks")]
    ranks: Option<RankSet>,

    #[command(flatten)]
    merge: MergeArgs,

    /// What was replaced before anything was kept, and by which rule
    #[arg(long)]
    redactions: bool,

    /// Print the stored document as JSON; with --pid, that process of it; with --redactions, those
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ShowArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.stored.root.as_deref(), &loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if args.merged {
        runtime.block_on(merged::show(args, &location, world.ui))?;
        return Ok(Outcome::Well);
    }
    let is_overview = args.pid.is_none() && !args.json && !args.redactions;
    let (chosen, snapshot, earlier, clocks) = runtime.block_on(async {
        let store = Store::open(&location)?;
        let source = root::source(&store, &location, args.stored.wanted()).await?;
        let chosen = source.find(&store, args.at).await?;
        let snapshot = store.load(&chosen.key).await?;
        let has_steps = snapshot.processes.iter().any(|it| !it.steps.is_empty());
        // Rates are a help: without the other snapshot the page stands all the same.
        let earlier = match &chosen.earlier {
            Some(key) if has_steps && !args.json => store.load(key).await.ok(),
            _ => None,
        };
        let clocks = if is_overview {
            clocks::offsets(&store, &chosen.key, &chosen.other_nodes).await
        } else {
            Vec::new()
        };
        anyhow::Ok((chosen, snapshot, earlier, clocks))
    })?;
    let heading = page::Heading {
        position: Some((chosen.position, chosen.total)),
        other_nodes: chosen.other_nodes,
        clocks: clocks
            .into_iter()
            .map(|(node, offset)| (node, clocks::words(offset)))
            .collect(),
        earlier: earlier.as_ref(),
    };
    if args.redactions {
        let found = page::redactions(&snapshot, args.pid);
        let text = if args.json {
            store::encode_json(&found)? + "\n"
        } else {
            page::redactions_page(&found)
        };
        ui::data(&text)?;
        return Ok(Outcome::Well);
    }
    let text = match (args.pid, args.json) {
        (None, true) => store::encode_json(&snapshot)? + "\n",
        (None, false) => page::overview(&snapshot, &heading, world.ui),
        (Some(pid), json) => {
            let process = process(&snapshot, pid)?;
            if json {
                store::encode_json(process)? + "\n"
            } else {
                page::process(&snapshot, process, earlier.as_ref(), world.ui)
            }
        }
    };
    ui::data(&text)?;
    Ok(Outcome::Well)
}

/// Finds the process `pid`; where it is not there, the error says which are.
fn process(snapshot: &Snapshot, pid: i32) -> anyhow::Result<&Process> {
    let processes = &snapshot.processes;
    let found = processes.iter().find(|process| process.pid == pid);
    found.ok_or_else(|| {
        let known: Vec<String> = processes.iter().map(|it| it.pid.to_string()).collect();
        let (id, known) = (&snapshot.capture.id, known.join(", "));
        anyhow::anyhow!("snapshot {id} has no process {pid}; it has {known}")
    })
}
