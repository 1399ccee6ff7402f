//! `taskscope list`

mod snapshots;

use clap::Args;
use model::Timestamp;
use serde::Serialize;
use store::{Location, NodeSummary, Store};

use crate::args::parse_timestamp;
use crate::commands::World;
use crate::config;
use crate::growth;
use crate::outcome::Outcome;
use crate::page::table;
use crate::root::{self, Wanted};
use crate::ui::{self, Progress};

/// List the tasks, attempts and nodes that a store holds, the newest task first
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// A directory or a URL, such as `s3://BUCKET/PREFIX` [default: the `store` setting, else .taskscope]
    #[arg(value_name = "ROOT")]
    root: Option<String>,

    /// Only this task [default: all; of snapshots, the newest]
    #[arg(long, value_name = "PATH")]
    task: Option<String>,

    /// Only this attempt [default: all; of snapshots, the newest]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,

    /// Only this node [default: all]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// List the snapshots of one attempt instead, of all its nodes in the order in which they were taken
    #[arg(long)]
    snapshots: bool,

    /// Only snapshots from this UTC time on, however old [default: the newest, a hundred or more of each node]
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "snapshots")]
    since: Option<Timestamp>,

    /// Only snapshots up to this UTC time
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "snapshots")]
    until: Option<Timestamp>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One node of one attempt of one task.
#[derive(Serialize)]
struct Row {
    attempt: u32,
    bytes: u64,
    /// By how much it grows; absent where it has stopped growing.
    bytes_per_day: Option<u64>,
    deleted: u64,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
    node: String,
    processes: Option<u64>,
    snapshots: u64,
    task: String,
}

impl ListArgs {
    fn is_narrowed(&self) -> bool {
        self.task.is_some() || self.attempt.is_some() || self.node.is_some()
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            attempt: self.attempt,
            node: self.node.as_deref(),
            task: self.task.as_deref(),
        }
    }
}

pub(crate) fn run(args: &ListArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.root.as_deref(), &loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if args.snapshots {
        let store = Store::open(&location)?;
        runtime.block_on(snapshots::list(args, &store, &location))?;
        return Ok(Outcome::Well);
    }
    let (summaries, outcome) =
        runtime.block_on(async { summaries(args, &Store::open(&location)?, &location).await })?;
    let now = world.clock.now();
    let rows: Vec<Row> = summaries.iter().map(|it| row(it, now)).collect();
    if args.json {
        ui::data(&(serde_json::to_string(&rows)? + "\n"))?;
    } else if rows.is_empty() && args.is_narrowed() {
        ui::say(&format!(
            "{location} holds nothing of that; `taskscope list` shows what it holds"
        ));
    } else if rows.is_empty() {
        ui::say(&format!(
            "{location} holds no snapshots; `taskscope run -- COMMAND` makes some"
        ));
    } else {
        ui::data(&page(&rows))?;
    }
    let growth = rows.iter().filter_map(|row| row.bytes_per_day).sum();
    if let Some(words) = location
        .directory()
        .and_then(|it| growth::words(it, growth))
    {
        ui::say(&words);
    }
    Ok(outcome)
}

/// Returns what there is of every node, the newest task first. A node that cannot be read is said and holds up no other.
async fn summaries(
    args: &ListArgs,
    store: &Store,
    location: &Location,
) -> anyhow::Result<(Vec<NodeSummary>, Outcome)> {
    let mut places = Vec::new();
    let is_wanted = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted == name);
    for (task, attempts) in root::tasks(store, location).await? {
        if !is_wanted(args.task.as_deref(), &task.to_string()) {
            continue;
        }
        for attempt in attempts {
            if args.attempt.is_none_or(|wanted| wanted == attempt) {
                places.extend(store.places(&task, attempt).await?);
            }
        }
    }
    places.retain(|place| is_wanted(args.node.as_deref(), &place.node));
    let progress = Progress::new("nodes", places.len());
    let asked = store.summaries(places, |done| progress.show(done)).await;
    progress.end();
    let mut outcome = Outcome::Well;
    let mut summaries = Vec::new();
    for summary in asked {
        match summary {
            Ok(summary) => summaries.push(summary),
            Err(error) => {
                outcome = Outcome::Setbacks;
                ui::say(&format!("warning: {:#}", anyhow::Error::new(error)));
            }
        }
    }
    let newest = newest_of_tasks(&summaries);
    summaries.sort_by(|a, b| {
        let key = |it: &NodeSummary| newest.get(&it.place.task).copied().flatten();
        let place = |it: &NodeSummary| it.place.clone();
        key(b).cmp(&key(a)).then_with(|| place(a).cmp(&place(b)))
    });
    Ok((summaries, outcome))
}

type NewestOfTasks = std::collections::BTreeMap<model::TaskPath, Option<Timestamp>>;

/// Returns when the newest snapshot of each task was taken.
fn newest_of_tasks(summaries: &[NodeSummary]) -> NewestOfTasks {
    let mut newest = NewestOfTasks::new();
    for summary in summaries {
        let of_task = newest.entry(summary.place.task.clone()).or_default();
        *of_task = (*of_task).max(summary.last_at);
    }
    newest
}

fn row(summary: &NodeSummary, now: Timestamp) -> Row {
    Row {
        attempt: summary.place.attempt,
        bytes: summary.size_bytes,
        bytes_per_day: growth::bytes_per_day(summary, now),
        deleted: summary.retired.map_or(0, |retired| retired.snapshots),
        first_at: summary.first_at,
        last_at: summary.last_at,
        node: summary.place.node.clone(),
        processes: summary.processes,
        snapshots: summary.snapshots,
        task: summary.place.task.to_string(),
    }
}

fn page(rows: &[Row]) -> String {
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), Timestamp::human);
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
        let deleted = match row.deleted {
            0 => String::new(),
            deleted => format!(" ({deleted} deleted)"),
        };
        [
            row.task.clone(),
            row.attempt.to_string(),
            row.node.clone(),
            format!("{}{deleted}", row.snapshots),
            row.processes
                .map_or_else(|| "-".to_owned(), |count| count.to_string()),
            table::bytes(row.bytes),
            time(row.first_at),
            time(row.last_at),
        ]
    }));
    table::align(&lines)
}
