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
use crate::enrichers::{self, compiler};
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
    /// Absent where the entry stands for nothing.
    #[serde(flatten)]
    grants: Option<Grants>,
    kind: Kind,
    limits: Option<Limits>,
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

/// One entry, before anything is known of its component. An enricher has nothing outside.
type Listed = (Kind, enrichers::Listed<SinkEntry>);

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
    let sound = listed.iter().filter_map(|(_, one)| one.entry.as_ref().ok());
    let entries = sound.map(|sink| sink.entry.clone()).collect();
    let inspector = Inspector::new(entries, compiler.clone());
    let mut inspector = inspector.map_err(anyhow::Error::msg)?;
    let mut places = 0..;
    let mut inspect = || places.next().map(|place| inspector.inspect(place));
    let rows = listed.iter().map(|one| row(one, &mut inspect));
    let mut rows: Vec<Row> = rows.collect();
    let cache = Cache {
        directory: compiler.cache.clone(),
        problem: inspector.cache_problem(),
    };
    drop(inspector);
    let runs = |row: &Row| row.enabled && row.problem.is_none();
    let (mut enrichers, mut sinks) = (Vec::new(), Vec::new());
    for ((kind, one), _) in listed.into_iter().zip(&rows).filter(|(_, row)| runs(row)) {
        match kind {
            Kind::Enricher => enrichers.extend(one.entry.map(|sink| sink.entry)),
            Kind::Sink => sinks.extend(one.entry),
        }
    }
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
    let running = enrichers::enrichers(loaded)?; // whether those that run can
    let with_grants = |entry| SinkEntry {
        entry,
        grants: plugin::SinkGrants::default(),
    };
    let enrichers = enrichers::listed(loaded)?.into_iter().map(|one| {
        let listed = enrichers::Listed {
            enabled: one.enabled,
            entry: one.entry.map(with_grants),
            name: one.name,
            origin: one.origin,
        };
        (Kind::Enricher, listed)
    });
    let sinks = sinks::listed(loaded, &running)?.into_iter();
    Ok(enrichers
        .chain(sinks.map(|one| (Kind::Sink, one)))
        .collect())
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

/// Returns the row of an entry; `inspect` looks at the component of the next one that stands for something.
fn row((kind, listed): &Listed, inspect: &mut impl FnMut() -> Option<Inspection>) -> Row {
    let mut row = Row {
        code: None,
        enabled: listed.enabled,
        grants: None,
        kind: *kind,
        limits: None,
        name: listed.name.clone(),
        origin: listed.origin.clone(),
        pinned: false,
        plugin: None,
        problem: None,
        sha256: None,
        version: None,
    };
    let sink = match &listed.entry {
        Ok(sink) => sink,
        Err(wrong) => {
            row.problem = Some(format!("{wrong:#}"));
            return row;
        }
    };
    let entry = &sink.entry;
    row.grants = Some(Grants::of(sink, *kind == Kind::Sink));
    row.limits = Some(Limits {
        deadline_ms: entry.deadline.as_millis(),
        memory_bytes: entry.memory_bytes,
    });
    if let ComponentSource::File(path) = &entry.component {
        row.origin = path.display().to_string();
    }
    row.pinned = entry.sha256.is_some();
    if let Some(found) = inspect() {
        let said = found.description;
        row.code = found.code;
        row.plugin = said.as_ref().map(|said| said.name.clone());
        row.problem = found.problem;
        row.sha256 = found.sha256;
        row.version = said.map(|said| said.version);
    }
    row
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
            row.grants.as_ref().map_or_else(dash, Grants::words),
            row.limits
                .as_ref()
                .map_or_else(dash, |limits| table::bytes(limits.memory_bytes)),
            row.limits
                .as_ref()
                .map_or_else(dash, |limits| format!("{} ms", limits.deadline_ms)),
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
