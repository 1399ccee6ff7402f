//! `taskscope list`

use clap::Args;
use serde::Serialize;
use store::{Location, Place, Store};

use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;
use crate::page::table;
use crate::root;
use crate::ui;

/// List the tasks, attempts and nodes that a store holds, the newest task first
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// A directory or a URL, such as `s3://BUCKET/PREFIX` [default: the `store` setting, else .taskscope]
    #[arg(value_name = "ROOT")]
    root: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One node of one attempt of one task.
#[derive(Serialize)]
struct Row {
    attempt: u32,
    bytes: u64,
    first_at: Option<model::Timestamp>,
    last_at: Option<model::Timestamp>,
    node: String,
    processes: Option<u64>,
    snapshots: usize,
    task: String,
}

pub(crate) fn run(args: &ListArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.root.as_deref(), &loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let rows = runtime.block_on(async { rows(&Store::open(&location)?, &location).await })?;
    if args.json {
        ui::data(&(serde_json::to_string(&rows)? + "\n"))?;
    } else if rows.is_empty() {
        crate::ui::say(&format!(
            "{location} holds no snapshots; `taskscope run -- COMMAND` makes some"
        ));
    } else {
        ui::data(&page(&rows))?;
    }
    Ok(Outcome::Well)
}

async fn rows(store: &Store, location: &Location) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for entry in root::tasks(store, location).await? {
        for &attempt in &entry.attempts {
            for node in store.nodes(&entry.task, attempt).await? {
                let place = Place {
                    task: entry.task.clone(),
                    attempt,
                    node: node.clone(),
                };
                let index = store.index(&place).await?;
                rows.push(Row {
                    attempt,
                    bytes: index.snapshots.iter().map(|entry| entry.size_bytes).sum(),
                    first_at: index.snapshots.first().map(|entry| entry.started_at),
                    last_at: index.snapshots.last().map(|entry| entry.started_at),
                    node,
                    processes: index.snapshots.last().map(|entry| entry.process_count),
                    snapshots: index.snapshots.len(),
                    task: entry.task.to_string(),
                });
            }
        }
    }
    Ok(rows)
}

fn page(rows: &[Row]) -> String {
    let time =
        |at: Option<model::Timestamp>| at.map_or_else(|| "-".to_owned(), model::Timestamp::human);
    let mut lines = vec![
        [
            "TASK",
            "ATTEMPT",
            "NODE",
            "SNAPSHOTS",
            "PROCESSES",
            "SIZE",
            "FIRST (UTC)",
            "LAST (UTC)",
        ]
        .map(str::to_owned),
    ];
    lines.extend(rows.iter().map(|row| {
        [
            row.task.clone(),
            row.attempt.to_string(),
            row.node.clone(),
            row.snapshots.to_string(),
            row.processes
                .map_or_else(|| "-".to_owned(), |count| count.to_string()),
            table::bytes(row.bytes),
            time(row.first_at),
            time(row.last_at),
        ]
    }));
    table::align(&lines)
}
