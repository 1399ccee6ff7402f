//! `taskscope why`

use clap::Args;
use diagnose::{Judgement, State, Twin};
use model::Snapshot;
use serde_json::Value;
use store::Store;

use crate::args::StoredArgs;
use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;
use crate::root::{self, At};
use crate::ui;
use crate::why::{self, Sight};

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
    let (sight, records) = runtime.block_on(async {
        let store = Store::open(&location)?;
        let source = root::source(&store, &location, args.stored.wanted()).await?;
        let chosen = source.find(&store, args.at).await?;
        let sight = why::read(&store, chosen, args.at, args.stored.node.is_some()).await?;
        let records = why::read_ends(&store, &sight.nodes).await?;
        anyhow::Ok((sight, records))
    })?;
    let histories: Vec<diagnose::History<'_>> = sight
        .nodes
        .iter()
        .enumerate()
        .map(|(node, snapshots)| {
            // What came after an instant that was asked for does not count.
            let newest = snapshots.last();
            let until = newest.and_then(|newest| sight.until(args.at, newest));
            diagnose::History {
                snapshots: snapshots.iter().collect(),
                ends: why::ends(records.get(node), until),
            }
        })
        .collect();
    let judgement = diagnose::judge(&histories);
    let twin = diagnose::twin(&histories, &judgement.verdict);
    let text = match (args.json, args.explain) {
        (true, explain) => json(&judgement, twin.as_ref(), &sight, explain)?,
        (false, explain) => {
            let stands = histories.iter().filter_map(diagnose::stand);
            let stands: Vec<&Snapshot> = stands.collect();
            let mut text = why::page(&judgement.verdict, twin.as_ref(), &sight, &stands, world.ui);
            if explain {
                text += &why::explanation(&judgement.tried, world.ui);
            }
            text
        }
    };
    ui::data(&text)?;
    let is_open = !matches!(judgement.verdict.verdict, State::Finished | State::Failed)
        && !histories.iter().any(diagnose::is_over);
    if let Some(old) =
        why::age(&sight, world.clock.now()).filter(|_| is_open && args.at == At::Latest)
    {
        ui::say(&format!(
            "the newest snapshot is {old} old: nothing has been stored since, so how the task is now is not seen"
        ));
    }
    Ok(Outcome::Well)
}

/// Returns the verdict, with `twin`, `silent`, `unreadable` and `without_snapshot` beside its own fields where there is something to say; with `explain` as one
/// field of what also has the rules that were tried.
fn json(
    judgement: &Judgement,
    twin: Option<&Twin>,
    sight: &Sight,
    explain: bool,
) -> anyhow::Result<String> {
    let mut document = if explain {
        serde_json::to_value(judgement)?
    } else {
        serde_json::to_value(&judgement.verdict)?
    };
    let at = if explain {
        document.get_mut("verdict")
    } else {
        Some(&mut document)
    };
    if let Some(Value::Object(fields)) = at {
        if let Some(twin) = twin {
            fields.insert("twin".to_owned(), serde_json::to_value(twin)?);
        }
        if !sight.silent.is_empty() {
            fields.insert("silent".to_owned(), serde_json::to_value(&sight.silent)?);
        }
        let missing = [
            ("unreadable", &sight.unreadable),
            ("without_snapshot", &sight.without_snapshot),
        ];
        for (key, names) in missing {
            if !names.is_empty() {
                fields.insert(key.to_owned(), serde_json::to_value(names)?);
            }
        }
    }
    Ok(serde_json::to_string(&document)? + "\n")
}
