//! `taskscope config`

use std::fmt::Write as _;

use anyhow::Context;
use clap::{Args, Subcommand};
use helper::Register;
use plugin::{About, Plugins, Sinks};

use crate::commands::World;
use crate::config::{self, Loaded};
use crate::enrichers::{compiler, enrichers};
use crate::outcome::{Outcome, Refusal};
use crate::page::table;
use crate::session::LOAD_DEADLINE;
use crate::sinks;
use crate::ui;

/// Check the settings, or show each with its value and where it came from
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check the settings file and load every plugin that it names
    Check,
    /// Show each setting, its value, and where it came from
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &ConfigArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    match args.action {
        Action::Check => check(&loaded),
        Action::Show { json: true } => {
            ui::data(&(serde_json::to_string(&loaded.rows())? + "\n"))?;
            Ok(Outcome::Well)
        }
        Action::Show { json: false } => {
            ui::data(&page(&loaded))?;
            Ok(Outcome::Well)
        }
    }
}

fn check(loaded: &Loaded) -> anyhow::Result<Outcome> {
    crate::root::location(None, loaded)?;
    let entries = enrichers(loaded).context(Refusal::Settings)?;
    let (sinks, _requests) = sinks::sinks(loaded, &entries).context(Refusal::Settings)?;
    let about = About {
        task: "check".to_owned(),
        node: "check".to_owned(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let compiler = compiler(loaded, Register::default());
    let mut plugins = Plugins::load(entries, about.clone(), compiler.clone());
    let sinks = Sinks::load(sinks, about, compiler);
    let mut ready = runtime.block_on(plugins.ready(LOAD_DEADLINE));
    ready.extend(runtime.block_on(sinks.ready(LOAD_DEADLINE)));
    let mut outcome = Outcome::Well;
    for (instance, result) in ready {
        match result {
            Ok(description) => ui::say(&format!(
                "plugin {instance}: {} {}",
                description.name, description.version
            )),
            Err(reason) => {
                ui::say(&format!("error: plugin {instance}: {reason}"));
                outcome = Outcome::Usage;
            }
        }
    }
    if outcome == Outcome::Well {
        let file = loaded.file.as_ref();
        let source = file.map_or_else(
            || "no settings file; the defaults".to_owned(),
            |file| file.display().to_string(),
        );
        ui::say(&format!("{source}: all settings can be used"));
    }
    Ok(outcome)
}

fn page(loaded: &Loaded) -> String {
    let mut lines = vec![["SETTING", "VALUE", "FROM"].map(str::to_owned)];
    lines.extend(loaded.rows().into_iter().map(|row| {
        let mut value = String::new();
        match &row.value {
            serde_json::Value::Null => value.push('-'),
            serde_json::Value::String(text) => value.push_str(text),
            other => _ = write!(value, "{other}"),
        }
        [row.key, value, row.origin]
    }));
    table::align(&lines)
}
