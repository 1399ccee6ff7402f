//! `taskscope show`

use clap::Args;
use model::{Process, Snapshot};
use store::Store;

use crate::args::StoredArgs;
use crate::clocks;
use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;
use crate::page;
use crate::root::{self, At};
use crate::ui;

/// Show a stored snapshot: ranks and processes as a tree, what each is doing, and what could not be seen
#[derive(Args, Debug)]
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
        let nodes = runtime.block_on(of_one_instant(args, &location))?;
        return print_merged(&nodes, args.json, world);
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

/// The snapshot that was chosen, and that of each other node at the same instant unless one node was asked for.
async fn of_one_instant(
    args: &ShowArgs,
    location: &store::Location,
) -> anyhow::Result<Vec<Snapshot>> {
    let store = Store::open(location)?;
    let source = root::source(&store, location, args.stored.wanted()).await?;
    let chosen = source.find(&store, args.at).await?;
    let mut snapshots = vec![store.load(&chosen.key).await?];
    if args.stored.node.is_none() {
        let others = &chosen.other_nodes;
        for key in clocks::others_at(&store, &chosen.key, others).await? {
            snapshots.push(store.load(&key).await?);
        }
    }
    Ok(snapshots)
}

fn print_merged(nodes: &[Snapshot], json: bool, world: &World) -> anyhow::Result<Outcome> {
    let nodes: Vec<&Snapshot> = nodes.iter().collect();
    let merged = diagnose::Merged::of(&nodes, diagnose::Level::Function);
    let text = if json {
        store::encode_json(&merged)? + "\n"
    } else {
        page::merged(&merged, world.ui)
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
