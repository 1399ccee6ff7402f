//! From settings and options to what a collector is made of.

mod collector;
mod storing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use capture::{
    GpuSettings, HelperProgram, Machine, Options, Sampler, Scope, StackSettings, StackSource,
};
use helper::Register;
use model::{Detail, ProcessId, Task, Trigger};
use monitor::About;
use plugin::{Plugins, Sinks, StorageRequest};
use store::Location;
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::args::{LookArgs, WatchArgs};
use crate::clock::Clock;
use crate::collect::Request;
use crate::commands::World;
use crate::config::{Loaded, ScopeChoice, StackChoice};
use crate::ends::Ends;
use crate::enrichers::{compiler, enrichers};
use crate::environment;
use crate::growth::DiskWatch;
use crate::ledger::Pace;
use crate::names::Names;
use crate::outcome::Refusal;
use crate::pipeline::Eye;
use crate::sampling::{SamplingSettings, Suspicion, Watch};
use crate::sinks;

pub(crate) use collector::{Collector, Opening};

/// How long a command that a person waits for gives plugins to compile, and stores to answer.
pub(crate) const LOAD_DEADLINE: Duration = Duration::from_secs(20);

/// Everything that is decided before a task starts. Making it does no input or output but reading settings.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) loaded: Loaded,
    pub(crate) names: Names,
    pub(crate) location: Location,
    pub(crate) pace: Pace,
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
        let pace = pace(args, &loaded);
        let chosen = enrichers(&loaded).context(Refusal::Settings)?;
        sinks::sinks(&loaded, &chosen).context(Refusal::Settings)?;
        Ok(Self {
            names,
            location,
            pace,
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
            machine: Arc::new(machine),
            scope,
            options: self.options(self.task(0)),
        }
    }

    /// Returns the present.
    pub(crate) fn now(&self) -> model::Timestamp {
        self.clock.now()
    }

    /// Starts the samples of what `eye` looks at.
    fn watch(&self, eye: &Eye, ends: &Ends, requests: &UnboundedSender<Request>) -> Watch {
        let monitor = &self.loaded.settings.monitor;
        let is_set = self.loaded.sets("monitor.interval");
        let share = self.loaded.settings.capture.budget.percent() / 100.0;
        let named = environment::os("TASKSCOPE_RUN_DIRECTORY").map(PathBuf::from);
        let settings = SamplingSettings {
            interval: monitor.interval.duration(),
            budget: (!is_set).then_some(share / 2.0),
            log_interval: monitor.log_interval.duration(),
            detailed_memory: monitor.detailed_memory,
            max_samples: usize::from(monitor.max_samples),
            run_directory: named.or_else(|| monitor.run_directory.clone()),
        };
        let about = About {
            clock_ticks_per_second: eye.machine.clock_ticks_per_second(),
            collector_version: env!("CARGO_PKG_VERSION").to_owned(),
            detailed_memory: settings.detailed_memory,
            log_interval: settings.log_interval.map(|it| it.as_secs_f64()),
            max_samples: settings.max_samples,
            platform: platform(),
            root: eye.scope.root(),
            sample_interval: settings.interval.as_secs_f64(),
            started_at: self.clock.now(),
            task: self.task(0),
        };
        let sampler = Sampler::new(
            Arc::clone(&eye.machine),
            eye.scope.clone(),
            settings.detailed_memory,
        );
        let asked = requests.clone();
        let look = move || _ = asked.send(Request::Snapshot(Trigger::Burst));
        let suspicion = self.tuning().map(|tuning| Suspicion::new(tuning, look));
        Watch::start(
            sampler,
            about,
            settings,
            self.clock,
            ends.clone(),
            suspicion,
        )
    }

    /// Returns how live judging is tuned; nothing where it is off.
    fn tuning(&self) -> Option<diagnose::Tuning> {
        self.loaded.settings.findings.tuning()
    }

    /// Returns what watches the disk of a directory store that keeps everything: with retention it grows to an end.
    fn disk(&self) -> Option<DiskWatch> {
        let store = &self.loaded.settings.store;
        let is_simple = store.retention.is_none() && store.spool.directory.is_none();
        self.location
            .directory()
            .filter(|_| is_simple)
            .map(|_| DiskWatch::default())
    }

    /// Returns when to look ahead of the deadline that the environment names.
    pub(crate) fn last_look(&self) -> Option<Instant> {
        let lead = self.loaded.settings.run.deadline_lead.duration();
        crate::deadline::last_look(self.clock.now(), lead)
    }

    /// Returns the plugins, which begin to load. `helpers` is where the machine that is looked at knows processes of ours.
    pub(crate) fn plugins(&self, helpers: Register) -> Plugins {
        // Checked when the session was made.
        let entries = enrichers(&self.loaded).unwrap_or_default();
        Plugins::load(entries, self.about(), compiler(&self.loaded, helpers))
    }

    /// Returns the sinks, which begin to load, and what they ask of the store.
    pub(crate) fn sinks(&self, helpers: Register) -> (Sinks, mpsc::Receiver<StorageRequest>) {
        let enrichers = enrichers(&self.loaded).unwrap_or_default();
        // Checked when the session was made.
        let chosen = sinks::sinks(&self.loaded, &enrichers).ok();
        let (entries, requests) = chosen.unwrap_or_else(|| (Vec::new(), mpsc::channel(1).1));
        let sinks = Sinks::load(entries, self.about(), compiler(&self.loaded, helpers));
        (sinks, requests)
    }

    fn about(&self) -> plugin::About {
        plugin::About {
            task: self.names.path.to_string(),
            node: self.names.node.clone(),
            host_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
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
            locals: capture.stacks.locals.clone(),
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
}

/// Returns the system, the kernel and the kind of machine, such as `Linux-6.1.0-x86_64`.
fn platform() -> String {
    let uname = rustix::system::uname();
    let words = [uname.sysname(), uname.release(), uname.machine()];
    words.map(std::ffi::CStr::to_string_lossy).join("-")
}

/// Returns how often to look. An interval that is set is kept, whatever it costs; else the budget rules.
fn pace(args: &WatchArgs, loaded: &Loaded) -> Pace {
    let capture = &loaded.settings.capture;
    let set = args
        .interval
        .or_else(|| loaded.sets("capture.interval").then_some(capture.interval));
    if let Some(interval) = set {
        return Pace {
            budget: None,
            interval: interval.duration(),
        };
    }
    let differs = |level: &Detail| match level {
        Detail::WithoutSharedMemory => capture.shared_memory.bytes().is_some(),
        Detail::WithoutPythonStacks => capture.stacks.source != StackChoice::Off,
        _ => true,
    };
    let levels = Detail::ALL.into_iter().filter(differs).collect();
    Pace {
        budget: Some((capture.budget.percent(), levels)),
        interval: args.default_interval.unwrap_or(capture.interval).duration(),
    }
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
    let root =
        |option: &Option<PathBuf>, default: &str| option.clone().unwrap_or_else(|| default.into());
    let machine = if look.proc_root.is_none() && look.cgroup_root.is_none() {
        Machine::local(stacks)
    } else {
        Machine::at(
            root(&look.proc_root, "/proc"),
            root(&look.cgroup_root, "/sys/fs/cgroup"),
            stacks,
        )
    };
    let helper = PathBuf::from("/proc/self/exe");
    machine
        .with_gpus(GpuSettings {
            helper: helper.clone(),
            arguments: vec!["gpu-helper".into()],
            library: None,
        })
        .with_memory_helper(HelperProgram {
            program: helper,
            arguments: vec!["memory-helper".into()],
        })
}
