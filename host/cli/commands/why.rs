//! `taskscope why`

use clap::Args;
use store::Store;

use crate::args::StoredArgs;
use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;
use crate::root::{self, At};
use crate::ui;
use crate::why;

/// Say what is wrong with a task, who is to blame, who merely waits, and what shows it
#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// As of which snapshot: an id, a UTC time, or latest
    #[arg(long, value_name = "ID|TIME|latest", default_value = "latest")]
    at: At,

    /// Print which rules were tried, what each needs and proves, and why it did or did not hold
    #[arg(long)]
    explain: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &WhyArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.stored.root.as_deref(), &loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (nodes, records) = runtime.block_on(async {
        let store = Store::open(&location)?;
        let source = root::source(&store, &location, args.stored.wanted()).await?;
        let chosen = source.find(&store, args.at).await?;
        let nodes = why::read(&store, chosen, args.stored.node.is_some()).await?;
        // What came after an instant that was asked for does not count.
        let records = match args.at {
            At::Latest => why::read_ends(&store, &nodes).await?,
            At::Id(_) | At::Time(_) => Vec::new(),
        };
        anyhow::Ok((nodes, records))
    })?;
    let histories: Vec<diagnose::History<'_>> = nodes
        .iter()
        .enumerate()
        .map(|(node, snapshots)| diagnose::History {
            snapshots: snapshots.iter().collect(),
            ends: why::ends(records.get(node)),
        })
        .collect();
    let judgement = diagnose::judge(&histories);
    let text = match (args.json, args.explain) {
        (true, false) => serde_json::to_string(&judgement.verdict)? + "\n",
        (true, true) => serde_json::to_string(&judgement)? + "\n",
        (false, explain) => {
            let mut text = why::page(&judgement.verdict, &nodes, world.ui);
            if explain {
                text += &why::explanation(&judgement.tried, world.ui);
            }
            text
        }
    };
    ui::data(&text)?;
    Ok(Outcome::Well)
}
