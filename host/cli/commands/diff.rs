//! `taskscope diff`

use clap::Args;
use store::Store;

use crate::args::StoredArgs;
use crate::commands::World;
use crate::config;
use crate::diff;
use crate::outcome::Outcome;
use crate::root::{self, At};
use crate::ui;

/// Say what changed between two stored snapshots: processes, stacks, waits, memory, progress, limits
#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// The earlier snapshot: an id, or a UTC time
    #[arg(long, value_name = "ID|TIME")]
    from: At,

    /// The later snapshot: an id, a UTC time, or latest
    #[arg(long, value_name = "ID|TIME|latest", default_value = "latest")]
    to: At,

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
    let (mut from, mut to, other_nodes) = runtime.block_on(async {
        let store = Store::open(&location)?;
        let source = root::source(&store, &location, args.stored.wanted()).await?;
        let from = source.find(&store, args.from).await?;
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
    let order = |it: &model::Snapshot| {
        let capture = &it.capture;
        (it.task.attempt, capture.sequence, capture.started_at)
    };
    if order(&from) > order(&to) {
        ui::say("--from is the later one; they are compared the other way round");
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
