//! `taskscope plugin check`

use std::fmt::Write as _;

use anyhow::{Context, bail};
use clap::Args;
use helper::Register;
use plugin::{CONTRACT, Inspection, Inspector};
use serde::Serialize;

use super::component::entry_of;
use super::words;
use crate::config::Loaded;
use crate::enrichers::compiler;
use crate::outcome::{Outcome, Refusal};
use crate::page::table;
use crate::ui;

/// Tell what a component is, whether it fits, what it imports, and which grants it needs
///
/// Nothing of it runs but its description of itself. Exit code 0: it can be used; 1: it cannot, and the reason is said.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// A file, or builtin:NAME
    #[arg(value_name = "COMPONENT")]
    component: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    component: &'a str,
    fits: bool,
    #[serde(flatten)]
    inspection: &'a Inspection,
    served: &'static str,
}

pub(crate) fn run(args: &CheckArgs, loaded: &Loaded) -> anyhow::Result<Outcome> {
    let mut entry = entry_of(&args.component, loaded).context(Refusal::Settings)?;
    entry.sha256 = None; // it is about the component, not about an entry
    let compiler = compiler(loaded, Register::default());
    let mut inspector = Inspector::new(vec![entry], compiler).map_err(anyhow::Error::msg)?;
    let inspection = inspector.inspect(0);
    if args.json {
        let document = Document {
            component: &args.component,
            fits: inspection.problem.is_none(),
            inspection: &inspection,
            served: CONTRACT,
        };
        ui::data(&(serde_json::to_string(&document)? + "\n"))?;
    } else {
        ui::data(&page(&inspection))?;
    }
    match &inspection.problem {
        None => Ok(Outcome::Well),
        Some(problem) => bail!("{} cannot be used: {problem}", args.component),
    }
}

fn page(found: &Inspection) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: &str| _ = writeln!(page, "{name:<9} {value}");
    if let Some(said) = &found.description {
        line("plugin", &format!("{} {}", said.name, said.version));
        line("does", &said.summary);
    }
    if let Some(contract) = &found.contract {
        let built = &contract.version;
        line(
            "is",
            &format!("{}, built against taskscope:plugin {built}", contract.world),
        );
    }
    if let Some(said) = &found.description {
        line(
            "reads",
            &words::list_or(&said.needs, "nothing of a snapshot"),
        );
    }
    if let Some(contract) = &found.contract {
        for (number, words) in words::imports(contract).into_iter().enumerate() {
            line(if number == 0 { "imports" } else { "" }, &words);
        }
    }
    if let (Some(said), Some(contract)) = (&found.description, &found.contract) {
        line("needs", &words::grants(said, contract));
        if let Some(schema) = &said.config_schema {
            line("settings", &words::settings(schema));
        }
    }
    if let Some(size) = found.size_bytes {
        line("size", &table::bytes(size));
    }
    if let Some(sha256) = &found.sha256 {
        line("pin", &format!("sha256 = \"{sha256}\""));
    }
    page
}
