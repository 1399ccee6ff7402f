//! From settings and options to a collector at work: its parts, its thread, its end.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use capture::{Machine, Options, Scope, StackSettings, StackSource};
use helper::Register;
use model::{ProcessId, Task};
use plugin::{About, CompileLimits, Compiler, ComponentSource, Entry, Plugins};
use store::{Location, Place, SpoolSettings, Store, Summary, Writer};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::args::{LookArgs, WatchArgs};
use crate::clock::Clock;
use crate::collect::{self, FINISH_GRACE, Request};
use crate::commands::{World, plugin_compile};
use crate::config::{EnricherEntry, Loaded, ScopeChoice, StackChoice};
use crate::environment;
use crate::names::Names;
use crate::outcome::Refusal;
use crate::pipeline::{Eye, Line};

/// The plugin that runs when the settings name none, and what of the environment it may see.
const DEFAULT_ENRICHER: &str = "torchrun-ranks";
const BUILTIN: &str = "builtin:";
/// How long finding a free attempt may take before 0 is taken.
const OPEN_DEADLINE: Duration = Duration::from_secs(5);
/// How long a command that a person waits for gives plugins to compile, and stores to answer.
pub(crate) const LOAD_DEADLINE: Duration = Duration::from_secs(20);

/// Everything that is decided before a task starts. Making it does no input or output but reading settings.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) loaded: Loaded,
    pub(crate) names: Names,
    pub(crate) location: Location,
    pub(crate) interval: Duration,
    look: LookArgs,
    clock: Clock,
}

impl Session {
    /// Lays the options over the settings; anything wrong is refused here.
    pub(crate) fn new(
        args: &WatchArgs,
        loaded: Loaded,
        program: &std::ffi::OsStr,
        world: &World,
    ) -> anyhow::Result<Self> {
        let settings = &loaded.settings;
        let name = settings.task.name.as_deref();
        let now = world.clock.now();
        let names = Names::of(args.name.as_deref(), name, program, now)?;
        let location = crate::root::location(args.store.as_deref(), &loaded)?;
        let interval = args
            .interval
            .unwrap_or(settings.capture.interval)
            .duration();
        enrichers(&loaded).context(Refusal::Settings)?;
        Ok(Self {
            names,
            location,
            interval,
            look: args.look.clone(),
            clock: world.clock,
            loaded,
        })
    }

    /// Returns the machine to look at.
    pub(crate) fn machine(&self) -> Machine {
        let machine = machine(&self.look, &self.loaded);
        let spool = self.loaded.settings.store.spool.directory.as_deref();
        match spool.or(self.location.directory()) {
            Some(directory) => machine.with_spool(directory.to_owned()),
            None => machine,
        }
    }

    /// Returns what looks at the task whose main process is `root`. `adopter` is our own PID where orphans of the task
    /// become children of ours.
    pub(crate) fn eye(&self, machine: Machine, root: ProcessId, adopter: Option<i32>) -> Eye {
        let choice = self
            .look
            .scope
            .unwrap_or(self.loaded.settings.capture.scope);
        let scope = match choice {
            ScopeChoice::Auto => Scope::auto(&machine, root, adopter),
            ScopeChoice::Tree => Scope::tree(root, adopter),
            ScopeChoice::Cgroup => Scope::cgroup(root, adopter),
        };
        Eye {
            machine,
            scope,
            options: self.options(self.task(0)),
        }
    }

    /// Returns the plugins, which begin to load. `helpers` is where the machine that is looked at knows processes of ours.
    pub(crate) fn plugins(&self, helpers: Register) -> Plugins {
        let about = About {
            task: self.names.path.to_string(),
            node: self.names.node.clone(),
            host_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        // Checked when the session was made.
        let entries = enrichers(&self.loaded).unwrap_or_default();
        Plugins::load(entries, about, compiler(&self.loaded, helpers))
    }

    fn task(&self, attempt: u32) -> Task {
        Task::new(
            self.names.path.clone(),
            attempt,
            &self.names.node,
            &self.names.host,
        )
    }

    fn options(&self, task: Task) -> Options {
        let capture = &self.loaded.settings.capture;
        Options {
            task,
            collector_version: env!("CARGO_PKG_VERSION").to_owned(),
            focus_files: capture.focus_files.clone(),
            process_pattern: capture
                .process_pattern
                .as_ref()
                .map(|pattern| pattern.0.clone()),
            environment: capture.environment.clone(),
            shared_memory: capture.shared_memory.bytes(),
            redact: capture
                .redact
                .iter()
                .map(|pattern| pattern.0.clone())
                .collect(),
        }
    }

    fn spool(&self) -> SpoolSettings {
        let spool = &self.loaded.settings.store.spool;
        let beside = || {
            self.location
                .directory()
                .filter(|store| can_be_written(store))
                .map(|store| store.join(".spool"))
        };
        let of_the_user = || {
            environment::state_directory()
                .join("taskscope")
                .join("spool")
        };
        SpoolSettings {
            directory: spool
                .directory
                .clone()
                .or_else(beside)
                .unwrap_or_else(of_the_user),
            max_size_bytes: spool.max_size.bytes(),
        }
    }

    /// Opens the store and finds the attempt; trouble is a warning, and snapshots go to the spool.
    pub(crate) async fn writer(&self) -> (Writer, Task) {
        let store = Store::open(&self.location)
            .inspect_err(|error| {
                warn!("The store cannot be opened; snapshots go to the spool: {error}.");
            })
            .ok();
        let attempt = match (self.names.attempt, &store) {
            (Some(attempt), _) => attempt,
            (None, None) => 0,
            (None, Some(store)) => {
                let node = self.task(0).node;
                let free = store.next_attempt(&self.names.path, &node);
                tokio::time::timeout(OPEN_DEADLINE, free)
                    .await
                    .ok()
                    .and_then(Result::ok)
                    .unwrap_or(0)
            }
        };
        let task = self.task(attempt);
        let place = Place {
            task: task.pathspec.clone(),
            attempt,
            node: task.node.clone(),
        };
        let focus_files = self.loaded.settings.capture.focus_files.clone();
        (
            Writer::open(store, place, task.clone(), focus_files, self.spool()).await,
            task,
        )
    }
}

/// Returns what compiles plugins: our own binary, in a process that `helpers` knows.
pub(crate) fn compiler(loaded: &Loaded, helpers: Register) -> Compiler {
    let chosen = loaded.settings.plugins.cache_dir.as_ref();
    let chosen = chosen.map(|directory| loaded.directory().join(directory));
    let of_the_user = || {
        Some(
            environment::cache_directory()?
                .join("taskscope")
                .join("plugins"),
        )
    };
    Compiler {
        arguments: vec![plugin_compile::NAME.into()],
        cache: chosen.or_else(of_the_user),
        helpers,
        limits: CompileLimits::default(),
        program: PathBuf::from("/proc/self/exe"),
    }
}

/// Whether a store can lie in `directory`, which is made where it is missing.
fn can_be_written(directory: &std::path::Path) -> bool {
    std::fs::create_dir_all(directory).is_ok()
        && rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns the machine that `look` and the settings name.
pub(crate) fn machine(look: &LookArgs, loaded: &Loaded) -> Machine {
    let choices = &loaded.settings.capture.stacks;
    let source = match choices.source {
        StackChoice::Off => StackSource::Off,
        StackChoice::Embedded => StackSource::Embedded {
            helper: PathBuf::from("/proc/self/exe"),
            arguments: vec!["stack-helper".into()],
        },
        StackChoice::Executable => StackSource::Executable {
            program: environment::os("PYSPY_EXECUTABLE").map(PathBuf::from),
            path: environment::search_path(),
        },
    };
    let stacks = StackSettings {
        source,
        timeout: choices.timeout.duration(),
        nonblocking: choices.nonblocking,
        max_parallel: usize::from(choices.max_parallel.get()),
    };
    if look.proc_root.is_none() && look.cgroup_root.is_none() {
        return Machine::local(stacks);
    }
    let root =
        |option: &Option<PathBuf>, default: &str| option.clone().unwrap_or_else(|| default.into());
    Machine::at(
        root(&look.proc_root, "/proc"),
        root(&look.cgroup_root, "/sys/fs/cgroup"),
        stacks,
    )
}

/// Returns the enrichers that the settings ask for: the default one, and the entries, which add or replace by name.
pub(crate) fn enrichers(loaded: &Loaded) -> anyhow::Result<Vec<Entry>> {
    let settings = &loaded.settings;
    let mut chosen: Vec<EnricherEntry> = Vec::new();
    if settings
        .enricher
        .iter()
        .all(|entry| entry.name != DEFAULT_ENRICHER)
    {
        chosen.push(EnricherEntry::builtin(DEFAULT_ENRICHER));
    }
    for entry in &settings.enricher {
        anyhow::ensure!(
            chosen.iter().all(|other| other.name != entry.name),
            "two [[enricher]] entries are called `{}`; give each a name of its own",
            entry.name
        );
        chosen.push(entry.clone());
    }
    chosen
        .iter()
        .filter(|entry| entry.enabled)
        .map(|entry| plugin_entry(entry, loaded))
        .collect()
}

fn plugin_entry(entry: &EnricherEntry, loaded: &Loaded) -> anyhow::Result<Entry> {
    let plugins = &loaded.settings.plugins;
    let wasm = entry
        .wasm
        .clone()
        .unwrap_or_else(|| format!("{BUILTIN}{}", entry.name));
    let builtin = wasm.strip_prefix(BUILTIN);
    if let Some(name) = builtin {
        let known = plugin::builtins();
        anyhow::ensure!(
            known.contains(&name),
            "[[enricher]] `{}`: there is no built-in plugin `{name}`; give `wasm` a path, or one of {}",
            entry.name,
            known
                .iter()
                .map(|name| format!("`{BUILTIN}{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    let granted = &entry.permissions.environment;
    let environment = match (builtin, granted.is_empty()) {
        // Ours may see all that was captured, which is the allow-list already.
        (Some(_), true) => vec!["*".to_owned()],
        _ => granted.clone(),
    };
    Ok(Entry {
        instance: entry.name.clone(),
        component: match builtin {
            Some(name) => ComponentSource::Builtin(name.to_owned()),
            None => ComponentSource::File(loaded.directory().join(&wasm)),
        },
        config_json: serde_json::to_string(&entry.config.clone().unwrap_or_default())?,
        environment,
        memory_bytes: entry.limits.memory.unwrap_or(plugins.memory).bytes(),
        deadline: entry.limits.deadline.unwrap_or(plugins.deadline).duration(),
        sha256: entry.sha256.clone(),
    })
}

/// The parts of a line while its store is not open yet.
pub(crate) struct Opening {
    pub(crate) eye: Arc<Mutex<Eye>>,
    pub(crate) plugins: Plugins,
    pub(crate) session: Session,
    pub(crate) clock: Clock,
}

impl Opening {
    /// Opens the store.
    pub(crate) async fn open(self) -> Line {
        let (writer, task) = self.session.writer().await;
        Line {
            eye: self.eye,
            plugins: self.plugins,
            writer,
            task,
            clock: self.clock,
        }
    }
}

/// A collector at work on a thread of its own, so that whatever happens to it does not reach the task.
pub(crate) struct Collector {
    requests: UnboundedSender<Request>,
    done: Receiver<Summary>,
}

impl Collector {
    /// Starts collecting; trouble is a warning.
    pub(crate) fn start(session: Session, eye: Eye) -> Self {
        let (requests, receiver) = unbounded_channel();
        let (sender, done) = channel();
        let work = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            {
                Ok(runtime) => runtime,
                Err(error) => {
                    return warn!("Nothing is collected: the event loop cannot start: {error}.");
                }
            };
            let (interval, clock) = (session.interval, session.clock);
            let plugins = session.plugins(eye.machine.helpers());
            let opening = Opening {
                eye: Arc::new(Mutex::new(eye)),
                plugins,
                session,
                clock,
            };
            let summary = runtime.block_on(collect::collect(opening, interval, receiver));
            _ = sender.send(summary);
            runtime.shutdown_background(); // a capture that hangs must not hold us up
        };
        if let Err(error) = std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(work)
        {
            warn!("Nothing is collected: the collector's thread cannot start: {error}.");
        }
        Self { requests, done }
    }

    /// Asks for something; a collector that is gone does not answer.
    pub(crate) fn request(&self, request: Request) {
        _ = self.requests.send(request);
    }

    /// Waits until what was seen is written, for a bounded time. `None`: it failed or did not finish.
    pub(crate) fn finish(self, end: Request) -> Option<Summary> {
        self.request(end);
        self.done.recv_timeout(FINISH_GRACE).ok()
    }
}
