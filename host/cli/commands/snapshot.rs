//! `taskscope snapshot`

use std::ffi::OsString;

use clap::Args;
use model::Trigger;
use plugin::Sinks;

use crate::args::{LookArgs, WatchArgs};
use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;
use crate::page;
use crate::pipeline::{Cause, Line};
use crate::session::{LOAD_DEADLINE, Session};
use crate::ui;

/// Take one snapshot of a running process and all that belongs to it
///
/// It goes to stdout, as a page on a terminal and as JSON elsewhere, or with --store into a store.
#[derive(Args, Debug)]
pub(crate) struct SnapshotArgs {
    /// The process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,

    /// Keep it in this store instead of printing it: a directory or an OpenDAL URL
    #[arg(long, value_name = "ROOT")]
    store: Option<String>,

    /// The task's name, or flow/run/step/task
    #[arg(long, value_name = "PATH")]
    name: Option<String>,

    /// Print JSON on a terminal, too
    #[arg(long)]
    json: bool,

    /// Print the page elsewhere than on a terminal, too
    #[arg(long, conflicts_with_all = ["json", "store"])]
    page: bool,

    #[command(flatten)]
    look: LookArgs,
}

/// Why this snapshot is taken.
const REQUESTED: Cause = Cause {
    trigger: Trigger::Requested,
    interval: None,
    missed_cycles: 0,
    paused: None,
    spending: None,
};

pub(crate) fn run(args: &SnapshotArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let watch = WatchArgs {
        store: args.store.clone(),
        name: args.name.clone(),
        look: args.look.clone(),
        interval: None,
        ..WatchArgs::default()
    };
    let program = OsString::from(format!("pid-{}", args.pid));
    let session = Session::new(&watch, loaded, &program, world)?;
    let machine = session.machine();
    let root = machine.identify(args.pid)?;
    let mut eye = session.eye(machine, root, None);
    let mut plugins = session.plugins(eye.machine.helpers());
    let snapshot = eye.look(REQUESTED, world.clock)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        if args.store.is_none() {
            let snapshot = plugins.enrich(snapshot, LOAD_DEADLINE).await;
            let text = if args.page || (world.ui.terminal && !args.json) {
                page::overview(&snapshot, &page::Heading::default(), world.ui)
            } else {
                store::encode_json(&snapshot)? + "\n"
            };
            ui::data(&text)?;
            return Ok(Outcome::Well);
        }
        let (_calm, hurried) = tokio::sync::watch::channel(false);
        let (writer, task, _) = session.writer(&hurried).await;
        let eye = std::sync::Arc::new(std::sync::Mutex::new(eye));
        let mut line = Line {
            judging: crate::judging::Judging::default(),
            eye,
            plugins,
            sinks: Sinks::default(), // of what is watched, not of what is asked for once
            writer,
            task,
            watch: None,
            clock: world.clock,
            ends: None,
            disk: None,
        };
        let id = line.keep(snapshot).await?.id;
        let written = line.writer.close(LOAD_DEADLINE).await;
        ui::say(&format!(
            "snapshot {id} of {} in {}",
            session.names.path, session.location
        ));
        Ok(if written.spooled + written.lost == 0 {
            Outcome::Well
        } else {
            Outcome::Setbacks
        })
    })
}
