//! `taskscope spool`

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use store::{Location, Pushed, Store};

use crate::commands::World;
use crate::config;
use crate::outcome::{Outcome, Refusal};
use crate::{root, storage, ui};

/// Look after snapshots that wait on local disk
#[derive(Args, Debug)]
pub(crate) struct SpoolArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Push(PushArgs),
}

/// Bring what waits in a spool to its store
///
/// What a living collector has in hand is left to it. Ends with 3 when something is left, or was set aside because it can
/// never be stored.
#[derive(Args, Debug)]
struct PushArgs {
    /// The spool: the directory that a warning named, or one with several of them
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The store [default: the one that the spool belongs to]
    #[arg(value_name = "ROOT")]
    root: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints for each spool.
#[derive(Serialize)]
struct Report {
    busy: Vec<String>,
    error: Option<String>,
    left: u64,
    records: u64,
    set_aside: Vec<PathBuf>,
    spool: PathBuf,
    store: String,
    stored: u64,
    strangers: Vec<PathBuf>,
}

pub(crate) fn run(args: &SpoolArgs, world: &World) -> anyhow::Result<Outcome> {
    let Action::Push(args) = &args.action;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut reports = Vec::new();
    for directory in spools(&args.directory)? {
        let location = location(&directory, args.root.as_deref(), world)?;
        let pushed = runtime.block_on(async {
            let store = Store::open(&location)?;
            store::push(&store, &directory).await
        })?;
        reports.push(report(directory, &location, pushed));
    }
    let is_done =
        |report: &Report| report.left == 0 && report.set_aside.is_empty() && report.error.is_none();
    if args.json {
        ui::data(&(serde_json::to_string(&reports)? + "\n"))?;
    } else {
        reports.iter().for_each(say);
    }
    Ok(if reports.iter().all(is_done) {
        Outcome::Well
    } else {
        Outcome::Setbacks
    })
}

/// Returns `directory`, or the spools in it.
fn spools(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read the spool {}", directory.display()))
        .context(Refusal::Settings)?;
    if store::spool_address(directory).is_some() {
        return Ok(vec![directory.to_owned()]);
    }
    let mut inside: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| store::spool_address(path).is_some())
        .collect();
    inside.sort();
    if inside.is_empty() {
        inside.push(directory.to_owned());
    }
    Ok(inside)
}

fn location(directory: &Path, root: Option<&str>, world: &World) -> anyhow::Result<Location> {
    if let Some(root) = root {
        let loaded = config::load(world.config.as_deref())?;
        return root::location(Some(root), &loaded);
    }
    let address = store::spool_address(directory)
        .with_context(|| {
            format!(
                "{} does not say which store its snapshots are for; name it: taskscope spool push DIR ROOT",
                directory.display()
            )
        })
        .context(Refusal::Settings)?;
    let location = Location::parse(&address, Path::new("/")).context(Refusal::Settings)?;
    Ok(storage::with_conventions(location))
}

fn report(spool: PathBuf, location: &Location, pushed: Pushed) -> Report {
    let error = pushed.failure.map(|error| {
        let remedy = error.remedy().map(|remedy| format!("; {remedy}"));
        let error = anyhow::Error::from(error);
        format!("{error:#}{}", remedy.unwrap_or_default())
    });
    Report {
        busy: pushed.busy.iter().map(ToString::to_string).collect(),
        error,
        left: pushed.left,
        records: pushed.records,
        set_aside: pushed.set_aside,
        spool,
        store: location.to_string(),
        stored: pushed.stored,
        strangers: pushed.strangers,
    }
}

fn say(report: &Report) {
    let (spool, store) = (report.spool.display(), &report.store);
    let plural = if report.stored == 1 { "" } else { "s" };
    let records = match report.records {
        0 => String::new(),
        1 => " and 1 record".to_owned(),
        several => format!(" and {several} records"),
    };
    ui::say(&format!(
        "{} snapshot{plural}{records} of {spool} in {store}",
        report.stored
    ));
    if let Some(error) = &report.error {
        ui::say(&format!("warning: {} wait on: {error}", report.left));
    } else if report.left > 0 {
        ui::say(&format!(
            "{} wait on for the collector of {}",
            report.left,
            report.busy.join(", ")
        ));
    }
    for file in &report.set_aside {
        ui::say(&format!(
            "warning: {} can never be stored; it is set aside",
            file.display()
        ));
    }
    for file in &report.strangers {
        ui::say(&format!(
            "{} is no snapshot; it is left alone",
            file.display()
        ));
    }
}
