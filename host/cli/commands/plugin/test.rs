//! `taskscope plugin test`

mod rehearse;
mod replay;
mod sources;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use helper::Register;
use model::{OutcomeKind, Target, Task};
use plugin::{About, Entry, Inspector, Plugins, World};

use self::replay::{Answer, Recorded};
use self::sources::Sources;
use super::component::entry_of;
use crate::config::Loaded;
use crate::enrichers::compiler;
use crate::outcome::{Outcome, Refusal};
use crate::page::{table, text};
use crate::ui;

/// How long the first answer may wait for a compiler.
const PATIENCE: Duration = Duration::from_mins(10);

/// Run a plugin on stored snapshots: what it says, how long each call takes, and its memory
///
/// One instance sees all snapshots in their order, as in a run, and what earlier plugins of that run said. Where the run
/// had the plugin too, it is told whether it said the same. Settings, permissions and limits are those of its entry in
/// the settings file, where it has one. Exit code 1 where a call gives no answer.
///
/// A sink is opened, given each snapshot, flushed and closed, and nothing goes out: the requests that it would have made
/// are printed and answered `denied`, and there is no storage and no directory.
#[derive(Args, Debug)]
pub(crate) struct TestArgs {
    /// A file, or builtin:NAME
    #[arg(value_name = "COMPONENT")]
    component: String,

    /// Snapshots (.json or .json.gz), or stores: a directory or an OpenDAL URL
    #[arg(long, value_name = "SNAPSHOT|ROOT", num_args = 1.., required = true)]
    on: Vec<String>,

    /// Of a store, the task's path [default: the newest]
    #[arg(long, value_name = "PATH")]
    task: Option<String>,

    /// Of a store, the node [default: the first]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// All of its settings, as a JSON object
    #[arg(long, value_name = "JSON")]
    config_json: Option<String>,

    /// One of its settings; VALUE is JSON, or else text
    #[arg(long, value_name = "KEY=VALUE")]
    setting: Vec<String>,

    /// An environment variable of processes that it may see; a trailing * makes a prefix
    #[arg(long, value_name = "NAME")]
    environment: Vec<String>,

    /// The name of its entry in the run [default: that of its entry, else of the file]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TestArgs, loaded: &Loaded) -> anyhow::Result<Outcome> {
    let entry = entry(args, loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if is_sink(&entry, loaded)? {
        return runtime.block_on(rehearse::run(args, &entry, loaded));
    }
    runtime.block_on(async {
        let task = args.task.as_deref();
        let mut sources = Sources::open(&args.on, task, args.node.as_deref(), loaded).await?;
        let mut answers = Vec::new();
        let mut plugins = None;
        while let Some(snapshot) = sources.next().await? {
            let plugins = plugins.get_or_insert_with(|| {
                let compiler = compiler(loaded, Register::default());
                Plugins::load(vec![entry.clone()], about(&snapshot.task), compiler)
            });
            let answer = replay::replay(plugins, &entry.instance, snapshot, PATIENCE).await?;
            let is_over = answer.ends_the_test();
            if !args.json {
                ui::data(&page(&answer))?;
            }
            answers.push(answer);
            if is_over {
                break;
            }
        }
        if args.json {
            ui::data(&(serde_json::to_string(&answers)? + "\n"))?;
        }
        conclude(&answers)
    })
}

/// Whether the component of `entry` is a sink; of one that cannot be used it is said later.
fn is_sink(entry: &Entry, loaded: &Loaded) -> anyhow::Result<bool> {
    let compiler = compiler(loaded, Register::default());
    let inspector = Inspector::new(vec![entry.clone()], compiler);
    let found = inspector.map_err(anyhow::Error::msg)?.inspect(0);
    Ok(found.contract.is_some_and(|it| it.world == World::Sink))
}

/// What the plugin is told about where it runs: it is as in the run.
fn about(task: &Task) -> About {
    About {
        task: task.pathspec.to_string(),
        node: task.node.clone(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Lays the options over the entry of the settings.
fn entry(args: &TestArgs, loaded: &Loaded) -> anyhow::Result<Entry> {
    let mut entry = entry_of(&args.component, loaded).context(Refusal::Settings)?;
    let text = args.config_json.as_ref().unwrap_or(&entry.config_json);
    let config: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(text);
    let mut config = config
        .context("--config-json is no JSON object")
        .context(Refusal::Settings)?;
    for setting in &args.setting {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(anyhow::anyhow!(
                "--setting `{setting}` has no `=`; write KEY=VALUE, such as limit=3"
            ))
            .context(Refusal::Settings);
        };
        let json = serde_json::from_str(value);
        config.insert(key.to_owned(), json.unwrap_or_else(|_| value.into()));
    }
    entry.config_json = serde_json::to_string(&config)?;
    if !args.environment.is_empty() {
        entry.environment.clone_from(&args.environment);
    }
    if let Some(instance) = &args.instance {
        entry.instance.clone_from(instance);
    }
    Ok(entry)
}

fn page(answer: &Answer) -> String {
    let outcome = &answer.outcome;
    let mut head = vec![
        answer.snapshot.to_string(),
        text::count(answer.annotations.len(), "annotation", "annotations"),
        text::count(answer.findings.len(), "finding", "findings"),
    ];
    head.extend(outcome.duration_us.map(milliseconds));
    head.extend(outcome.memory_bytes.map(table::bytes));
    head.push(match answer.recorded {
        Recorded::Same => "the same as in the run".to_owned(),
        Recorded::Different => "NOT the same as in the run".to_owned(),
        Recorded::Nothing => "not in the run".to_owned(),
    });
    let mut lines = vec![head.join("  ")];
    for said in &answer.annotations {
        let value = text::safe(&said.value.to_string());
        lines.push(format!(
            "  {}: {} = {value}",
            target(&said.target),
            text::safe(&said.key)
        ));
    }
    for found in &answer.findings {
        let message = text::safe(&found.message);
        lines.push(format!(
            "  {} {} ({}): {message}",
            format!("{:?}", found.severity).to_lowercase(),
            text::safe(&found.kind),
            target(&found.target)
        ));
    }
    if let Some(message) = &outcome.message {
        lines.push(format!("  {:?}: {}", outcome.outcome, text::safe(message)));
    }
    lines.join("\n") + "\n"
}

fn target(target: &Target) -> String {
    match target {
        Target::Snapshot => "snapshot".to_owned(),
        Target::Process(id) => format!("process {}", id.pid),
        Target::Thread { process, tid } => format!("thread {tid} of process {}", process.pid),
        Target::Stack(index) => format!("stack {index}"),
        Target::Frame(index) => format!("frame {index}"),
        Target::Group(name) => format!("group {}", text::safe(name)),
    }
}

fn milliseconds(microseconds: u64) -> String {
    let duration = Duration::from_micros(microseconds);
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}

/// Sums up on stderr; a call without an answer is an error.
fn conclude(answers: &[Answer]) -> anyhow::Result<Outcome> {
    let mut times: Vec<u64> = answers
        .iter()
        .filter_map(|answer| answer.outcome.duration_us)
        .collect();
    times.sort_unstable();
    if let (Some(&median), Some(&longest)) = (times.get(times.len() / 2), times.last()) {
        let memory = answers
            .iter()
            .filter_map(|answer| answer.outcome.memory_bytes);
        ui::say(&format!(
            "{}: median {}, longest {}; {} of memory at most",
            text::count(answers.len(), "snapshot", "snapshots"),
            milliseconds(median),
            milliseconds(longest),
            table::bytes(memory.max().unwrap_or(0))
        ));
    }
    let failed = |answer: &&Answer| answer.outcome.outcome != OutcomeKind::Ok;
    match answers.iter().find(failed) {
        None => Ok(Outcome::Well),
        Some(answer) => bail!(
            "no answer to {}: {}",
            answer.snapshot,
            answer
                .outcome
                .message
                .as_deref()
                .unwrap_or("it does not say why")
        ),
    }
}
