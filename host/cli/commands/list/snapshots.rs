//! `taskscope list --snapshots`: one line a snapshot, of all nodes of an attempt in the order in which they were taken.

use model::{SnapshotId, Timestamp, Trigger};
use serde::Serialize;
use store::{Entry, Key, Location, Place, Since, Store, StoreError, Timeline, TimelineNode};

use super::ListArgs;
use crate::clocks;
use crate::page::{self, table};
use crate::root;
use crate::ui::{self, Progress};

/// Of more nodes the clocks are not told one by one.
const FEW_NODES: usize = 8;
/// So many snapshots that no index lists are opened, the newest.
const MOST_OPENED: usize = 64;

/// One snapshot.
#[derive(Serialize)]
struct Row {
    /// When it was taken, as the clock of the first node shows it; where it is not known how the clocks stand, as its own does.
    at: Timestamp,
    bytes: Option<u64>,
    /// How far the clock of its node is ahead of the first one's.
    clock: Bounds,
    id: SnapshotId,
    node: String,
    processes: Option<u64>,
    /// Why nothing more is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// When it was taken, by the clock of its node.
    started_at: Timestamp,
    trigger: Option<Trigger>,
}

/// Microseconds; what is not known is absent.
#[derive(Clone, Copy, Serialize)]
struct Bounds {
    at_least_us: Option<i64>,
    at_most_us: Option<i64>,
}

/// Lists the snapshots of one attempt.
pub(super) async fn list(
    args: &ListArgs,
    store: &Store,
    location: &Location,
) -> anyhow::Result<()> {
    let source = root::source(store, location, args.wanted()).await?;
    let (first, others) = source.newest_place(store).await?;
    let others = match &args.node {
        Some(_) => Vec::new(),
        None => others,
    };
    let node = |node: String| Place {
        node,
        ..first.clone()
    };
    let places: Vec<Place> = std::iter::once(first.clone())
        .chain(others.into_iter().map(node))
        .collect();
    let since = args
        .since
        .map_or(Since::Recent, |time| Since::Time(time.before(root::AROUND)));
    let progress = Progress::new("nodes", places.len());
    let read = store.timeline(places, since, args.since, |done| {
        progress.show(done);
    });
    let timeline = read.await;
    progress.end();
    let timeline = timeline?;
    let mut rows = rows(&timeline, args);
    ask_the_unlisted(store, &first, &mut rows).await;
    if args.json {
        ui::data(&(serde_json::to_string(&rows)? + "\n"))?;
    } else if rows.is_empty() {
        ui::say(&format!("{first} has no snapshot of that time"));
    } else {
        ui::data(&page(&rows))?;
    }
    say_what_is_not_listed(&timeline, args.since);
    if let Some(words) = clock_words(&timeline) {
        ui::say(&words);
    }
    Ok(())
}

impl Row {
    /// What caused it, or why that is not known.
    fn cause(&self) -> String {
        let trigger = self.trigger.map(page::trigger_words);
        match (trigger, &self.reason) {
            (Some(words), _) => words.to_owned(),
            (None, Some(reason)) => page::safe(reason),
            (None, None) => "-".to_owned(),
        }
    }
}

fn rows(timeline: &Timeline, args: &ListArgs) -> Vec<Row> {
    let ordered = timeline.in_order().into_iter();
    let rows = ordered.map(|(node, entry)| row(&timeline.nodes[node], &entry));
    let is_wanted = |row: &Row| {
        args.since.is_none_or(|since| row.at >= since)
            && args.until.is_none_or(|until| row.at <= until)
    };
    rows.filter(is_wanted).collect()
}

fn row(node: &TimelineNode, entry: &Entry) -> Row {
    let (clock, facts) = (node.clock, entry.listed);
    Row {
        at: Timestamp::from_microseconds(clock.common(entry.at())).unwrap_or(entry.at()),
        bytes: facts.map(|it| it.size_bytes),
        clock: Bounds {
            at_least_us: clock.offset.least,
            at_most_us: clock.offset.most,
        },
        id: entry.id,
        node: node.place.node.clone(),
        processes: facts.map(|it| it.process_count),
        reason: None,
        started_at: entry.at(),
        trigger: facts.and_then(|it| it.trigger),
    }
}

/// Asks the newest of the snapshots that no index lists what an index would say of them; of the others it is said that none does.
async fn ask_the_unlisted(store: &Store, first: &Place, rows: &mut [Row]) {
    let unlisted = rows.iter_mut().filter(|row| row.bytes.is_none());
    let mut unlisted: Vec<&mut Row> = unlisted.collect();
    let older = unlisted.len().saturating_sub(MOST_OPENED);
    for row in unlisted.drain(..older) {
        row.reason = Some("not in the index yet".to_owned());
    }
    let key = |row: &&mut Row| Key {
        id: row.id,
        place: Place {
            node: row.node.clone(),
            ..first.clone()
        },
    };
    let told = store.own_facts(unlisted.iter().map(key).collect()).await;
    for (row, told) in unlisted.into_iter().zip(told) {
        match told {
            Ok(facts) => {
                row.bytes = Some(facts.size_bytes);
                row.processes = Some(facts.process_count);
                row.trigger = facts.trigger;
            }
            Err(StoreError::NotFound { .. }) => row.reason = Some("deleted meanwhile".to_owned()),
            Err(error) => row.reason = Some(format!("{:#}", anyhow::Error::new(error))),
        }
    }
}

fn say_what_is_not_listed(timeline: &Timeline, since: Option<Timestamp>) {
    let older: u64 = timeline.nodes.iter().map(|it| it.history.older).sum();
    if older > 0 && since.is_none() {
        let older = page::count(older, "older snapshot", "older snapshots");
        ui::say(&format!(
            "{older} not listed; `--since TIME` goes further back"
        ));
    }
}

/// Says how the clocks of several nodes stand: of few each, of many how many are known.
fn clock_words(timeline: &Timeline) -> Option<String> {
    let (first, others) = timeline.nodes.split_first()?;
    let first = page::safe(&first.place.node);
    let unknown = others
        .iter()
        .filter(|it| it.clock.offset.is_unknown())
        .count();
    let shown = match others.len() {
        0 => return None,
        1..=FEW_NODES => {
            let of_node = |it: &TimelineNode| {
                let name = page::safe(&it.place.node);
                format!("\n  {name}: {}", clocks::words(it.clock.offset))
            };
            others.iter().map(of_node).collect()
        }
        _ if unknown == 0 => String::new(),
        all => format!(
            "; of {unknown} of the {all} other nodes it is not known how their clocks stand: \
             their times are as they say"
        ),
    };
    Some(format!(
        "times are as the clock of node {first} shows them{shown}"
    ))
}

fn page(rows: &[Row]) -> String {
    let dash = || "-".to_owned();
    let mut lines =
        vec![["TAKEN (UTC)", "NODE", "ID", "PROCESSES", "SIZE", "CAUSE"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            row.at.human(),
            page::safe(&row.node),
            row.id.to_string(),
            row.processes.map_or_else(dash, |it| it.to_string()),
            row.bytes.map_or_else(dash, table::bytes),
            row.cause(),
        ]
    }));
    table::align(&lines)
}
