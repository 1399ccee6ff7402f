//! `taskscope plugin list`

use anyhow::Context;
use clap::Args;
use helper::Register;
use plugin::{
    About, CodeState, ComponentSource, Entry, Inspection, Inspector, Plugins, SinkEntry, Sinks,
};
use serde::Serialize;

use super::grants::Grants;
use crate::config::Loaded;
use crate::enrichers::{compiler, enrichers, listed};
use crate::outcome::{Outcome, Refusal};
use crate::page::table;
use crate::session::LOAD_DEADLINE;
use crate::{sinks, ui};

/// List the plugins that the settings load, with what each may do and whether it can be used
///
/// Exit code 2 where one that is enabled cannot be used.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One entry.
#[derive(Serialize)]
struct Row {
    /// Where its machine code was when this command looked.
    code: Option<CodeState>,
    enabled: bool,
    #[serde(flatten)]
    grants: Grants,
    kind: Kind,
    limits: Limits,
    name: String,
    /// `builtin:NAME` or the path.
    origin: String,
    /// Whether the settings pin it.
    pinned: bool,
    plugin: Option<String>,
    problem: Option<String>,
    sha256: Option<String>,
    version: Option<String>,
}

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Enricher,
    Sink,
}

/// One entry, before anything is known of its component.
struct Listed {
    enabled: bool,
    kind: Kind,
    /// An enricher has nothing outside.
    sink: SinkEntry,
}

#[derive(Serialize)]
struct Limits {
    deadline_ms: u128,
    memory_bytes: u64,
}

#[derive(Serialize)]
struct Document {
    cache: Cache,
    plugins: Vec<Row>,
}

/// Where compiled components are kept.
#[derive(Serialize)]
struct Cache {
    directory: Option<std::path::PathBuf>,
    problem: Option<String>,
}

pub(crate) fn run(args: &ListArgs, loaded: &Loaded) -> anyhow::Result<Outcome> {
    let listed = all(loaded).context(Refusal::Settings)?;
    let compiler = compiler(loaded, Register::default());
    let entries = listed.iter().map(|one| one.sink.entry.clone()).collect();
    let inspector = Inspector::new(entries, compiler.clone());
    let mut inspector = inspector.map_err(anyhow::Error::msg)?;
    let mut rows: Vec<Row> = listed
        .iter()
        .enumerate()
        .map(|(index, one)| row(one, inspector.inspect(index)))
        .collect();
    let cache = Cache {
        directory: compiler.cache.clone(),
        problem: inspector.cache_problem(),
    };
    drop(inspector);
    let runs = |row: &Row| row.enabled && row.problem.is_none();
    let sound = listed.into_iter().zip(&rows).filter(|(_, row)| runs(row));
    let (sinks, enrichers): (Vec<Listed>, Vec<Listed>) = sound
        .map(|(one, _)| one)
        .partition(|one| one.kind == Kind::Sink);
    let enrichers = enrichers.into_iter().map(|one| one.sink.entry).collect();
    let sinks = sinks.into_iter().map(|one| one.sink).collect();
    for (name, refused) in refused(enrichers, sinks, compiler)? {
        // Of those that are enabled no two have the same name.
        if let Some(row) = rows.iter_mut().find(|row| row.enabled && row.name == name) {
            row.problem = Some(refused);
        }
    }
    let document = Document {
        cache,
        plugins: rows,
    };
    if args.json {
        ui::data(&(serde_json::to_string(&document)? + "\n"))?;
    } else {
        ui::data(&page(&document))?;
    }
    Ok(report(&document))
}

/// Returns all entries of the settings: the enrichers in their order, then the sinks.
fn all(loaded: &Loaded) -> anyhow::Result<Vec<Listed>> {
    let enrichers_only = listed(loaded)?.into_iter().map(|one| Listed {
        enabled: one.enabled,
        kind: Kind::Enricher,
        sink: SinkEntry {
            entry: one.entry,
            grants: plugin::SinkGrants::default(),
        },
    });
    let sinks = sinks::listed(loaded, &enrichers(loaded)?)?;
    let sinks = sinks.into_iter().map(|one| Listed {
        enabled: one.enabled,
        kind: Kind::Sink,
        sink: one.sink,
    });
    Ok(enrichers_only.chain(sinks).collect())
}

/// Starts plugins with their settings; a sink is not opened. Returns those that refuse them, with the reason.
fn refused(
    enrichers: Vec<Entry>,
    sinks: Vec<SinkEntry>,
    compiler: plugin::Compiler,
) -> anyhow::Result<Vec<(String, String)>> {
    let about = About {
        task: "list".to_owned(),
        node: "list".to_owned(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut plugins = Plugins::load(enrichers, about.clone(), compiler.clone());
    let sinks = Sinks::load(sinks, about, compiler);
    let mut ready = runtime.block_on(plugins.ready(LOAD_DEADLINE));
    ready.extend(runtime.block_on(sinks.ready(LOAD_DEADLINE)));
    Ok(ready
        .into_iter()
        .filter_map(|(name, result)| Some((name, result.err()?)))
        .collect())
}

fn row(listed: &Listed, found: Inspection) -> Row {
    let entry = &listed.sink.entry;
    let said = found.description;
    Row {
        code: found.code,
        enabled: listed.enabled,
        grants: Grants::of(&listed.sink, listed.kind == Kind::Sink),
        kind: listed.kind,
        limits: Limits {
            deadline_ms: entry.deadline.as_millis(),
            memory_bytes: entry.memory_bytes,
        },
        name: entry.instance.clone(),
        origin: match &entry.component {
            ComponentSource::Builtin(name) => format!("builtin:{name}"),
            ComponentSource::File(path) => path.display().to_string(),
        },
        pinned: entry.sha256.is_some(),
        plugin: said.as_ref().map(|said| said.name.clone()),
        problem: found.problem,
        sha256: found.sha256,
        version: said.map(|said| said.version),
    }
}

fn page(document: &Document) -> String {
    let dash = || "-".to_owned();
    let heads = [
        "NAME", "KIND", "VERSION", "FROM", "SHA-256", "GRANTS", "MEMORY", "DEADLINE", "CODE",
        "STATE",
    ];
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(document.plugins.iter().map(|row| {
        let sha256 = row.sha256.as_ref();
        let sha256 = sha256.map_or_else(dash, |sha256| sha256.chars().take(12).collect());
        let code = match row.code {
            Some(CodeState::Embedded) => "built in",
            Some(CodeState::Cached) => "cached",
            Some(CodeState::Missing) => "compiled now",
            None => "-",
        };
        let state = match (row.enabled, &row.problem) {
            (false, _) => "disabled",
            (true, Some(_)) => "cannot be used",
            (true, None) => "ready",
        };
        [
            row.name.clone(),
            match row.kind {
                Kind::Enricher => "enricher".to_owned(),
                Kind::Sink => "sink".to_owned(),
            },
            row.version.clone().unwrap_or_else(dash),
            row.origin.clone(),
            if row.pinned {
                sha256 + " pinned"
            } else {
                sha256
            },
            row.grants.words(),
            table::bytes(row.limits.memory_bytes),
            format!("{} ms", row.limits.deadline_ms),
            code.to_owned(),
            state.to_owned(),
        ]
    }));
    let cache = &document.cache;
    let kept = match (&cache.directory, &cache.problem) {
        (None, _) => "nowhere".to_owned(),
        (Some(directory), None) => format!("in {}", directory.display()),
        (Some(directory), Some(problem)) => {
            format!("nowhere: {}: {problem}", directory.display())
        }
    };
    table::align(&lines) + &format!("\ncompiled plugins are kept {kept}\n")
}

/// Says what is wrong, and returns how the command ends.
fn report(document: &Document) -> Outcome {
    let mut outcome = Outcome::Well;
    for row in &document.plugins {
        if let Some(problem) = &row.problem {
            let name = &row.name;
            if row.enabled {
                ui::say(&format!("error: plugin {name}: {problem}"));
                outcome = Outcome::Usage;
            } else {
                ui::say(&format!("plugin {name}, which is disabled: {problem}"));
            }
        }
    }
    outcome
}
