//! `taskscope view`

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::Args;
use model::TaskPath;
use store::{Location, Store};
use view::{Server, Shown, View};

use crate::args::StoredArgs;
use crate::browser;
use crate::commands::World;
use crate::config;
use crate::outcome::{Outcome, Refusal};
use crate::root;
use crate::session::Session;
use crate::ui;

/// Memory for snapshots that were read, bytes; beside a task it is the task's own that is taken.
const MEMORY: u64 = 256 << 20;
const MEMORY_BESIDE: u64 = 48 << 20;

/// Threads that answer.
const THREADS: usize = 4;

/// Snapshots that are decoded, judged or merged at a time; beside a task, whose processors they are, one by one.
const AT_A_TIME: usize = 2;
const AT_A_TIME_BESIDE: usize = 1;

/// Show a store as a web page on this machine: what is wrong, when, and where each rank is, live while the task runs
///
/// The address is printed to stderr, with a token without which nothing is there. Ends with Ctrl-C.
#[derive(Args, Debug)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    stored: StoredArgs,

    #[command(flatten)]
    listen: ListenArgs,
}

/// Where the page is served.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListenArgs {
    /// The port [default: one that is free]
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    port: u16,

    /// The address to listen at; any but 127.0.0.1 lets others on the network in, who know the token
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,

    /// Open a browser, where there is a person at a terminal
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &ViewArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.stored.root.as_deref(), &loaded)?;
    let wanted = args.stored.wanted();
    let task = wanted.task.map(str::parse).transpose();
    let shown = Shown {
        attempt: wanted.attempt,
        node: wanted.node.map(str::to_owned),
        task: task.context(Refusal::Settings)?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let view = View::new(Store::open(&location)?, shown, MEMORY, AT_A_TIME).reading_ahead();
        let server = Server::bind(SocketAddr::new(args.listen.address, args.listen.port)).await?;
        say(&server);
        if args.listen.open {
            browser::open(&server.url());
        }
        server.serve(view).await;
        anyhow::Ok(())
    })?;
    Ok(Outcome::Well)
}

/// Serves the page of a run that is watched, beside the collector, until this process ends. Trouble is a line.
pub(crate) fn beside(session: &Session) {
    let (location, task) = (session.location.clone(), session.names.path.clone());
    let serve = move || {
        if let Err(error) = serve_beside(&location, task) {
            tracing::warn!("The page of this run cannot be shown: {error:#}.");
        }
    };
    let started = std::thread::Builder::new()
        .name("view".to_owned())
        .spawn(serve);
    if let Err(error) = started {
        tracing::warn!("The page of this run cannot be shown: {error}.");
    }
}

fn serve_beside(location: &Location, task: TaskPath) -> anyhow::Result<()> {
    let shown = Shown {
        task: Some(task),
        ..Shown::default()
    };
    // One thread that answers, so that the task's own processors are left to it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let view = View::new(
            Store::open(location)?,
            shown,
            MEMORY_BESIDE,
            AT_A_TIME_BESIDE,
        );
        let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        say(&server);
        server.serve(view).await;
        Ok(())
    })
}

/// Prints where the page is.
fn say(server: &Server) {
    if server.is_open_to_others() {
        ui::say(
            "warning: whoever reaches this address and knows the token sees what is stored, unencrypted; \
             a tunnel (`ssh -L`) to 127.0.0.1 is safer",
        );
    }
    ui::say(&server.url());
}
