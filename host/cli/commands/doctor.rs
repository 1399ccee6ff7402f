//! `taskscope doctor`

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use capture::{Right, RightName, RightState, Rights, try_gpus, try_rights};
use clap::Args;
use serde::Serialize;
use store::{Check, Location, Store};

use crate::args::LookArgs;
use crate::commands::World;
use crate::outcome::Outcome;
use crate::session::{self, LOAD_DEADLINE};
use crate::ui::{self, Ui};
use crate::{config, page, root};

/// Tell which rights hold here, what is lost without the others, and the line that grants each
///
/// Every right is tried on a process: the one that --pid names, else a short-lived one of our own, which stands for a
/// task that `taskscope run` starts. Ends with 3 when something is lost.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The process to try the rights on
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Try this store as well: write, list, read and delete one small object [default: the `store` setting, else
    /// .taskscope]
    #[arg(long, value_name = "ROOT", num_args = 0..=1)]
    #[expect(
        clippy::option_option,
        reason = "not asked for, asked for, asked for by name: clap's own form of it"
    )]
    store: Option<Option<String>>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    /// Whether the rights were tried on a process of our own.
    is_own_process: bool,
    ours: &'a capture::OwnRights,
    process: &'a capture::ProcessRights,
    rights: Vec<Line<'a>>,
    /// Each operation on the store, where one was to be tried.
    store: &'a [StoreLine],
}

#[derive(Serialize)]
struct Line<'a> {
    detail: &'a str,
    /// What cannot be seen or done without it.
    lost_without: &'static str,
    remedy: Option<capture::Remedy>,
    right: RightName,
    state: RightState,
}

pub(crate) fn run(args: &DoctorArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let mut machine = session::machine(&LookArgs::default(), &loaded);
    let own = match args.pid {
        Some(_) => None,
        None => Some(OwnProcess::start()?),
    };
    let pid = args.pid.or(own.as_ref().map(OwnProcess::pid));
    let pid = pid.expect("a process was named or started");
    let found = try_rights(&machine, pid);
    let gpus = try_gpus(&machine, world.clock.now());
    machine.close();
    let mut rights = found?;
    rights.rights.extend(gpus);
    let mut of_store = Vec::new();
    if let Some(store) = &args.store {
        let location = root::location(store.as_deref(), &loaded)?;
        let (right, lines) = try_store(&location)?;
        rights.rights.push(right);
        of_store = lines;
    }
    let text = if args.json {
        json(&rights, &of_store, own.is_some())?
    } else {
        let mut text = words(&rights, own.is_some(), world.ui);
        store_words(&mut text, &of_store, world.ui);
        text
    };
    ui::data(&text)?;
    let is_lost = |right: &Right| right.state == RightState::Lost;
    Ok(if rights.rights.iter().any(is_lost) {
        Outcome::Setbacks
    } else {
        Outcome::Well
    })
}

/// A process of our own that waits for input: a stack helper that nobody asks anything.
struct OwnProcess(Child);

impl OwnProcess {
    fn start() -> anyhow::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg("stack-helper")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child
            .map(Self)
            .context("cannot start a process to try the rights on; name one with --pid")
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a PID is an i32 to the kernel")
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        // It ends by itself when its input does; killing it is quicker.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Tries every operation on the store.
fn try_store(location: &Location) -> anyhow::Result<(Right, Vec<StoreLine>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checks = runtime.block_on(async {
        match Store::open(location) {
            Ok(store) => store.try_operations(LOAD_DEADLINE).await,
            Err(error) => vec![Check {
                operation: "open",
                result: Some(Err(error)),
            }],
        }
    });
    let lines: Vec<StoreLine> = checks.into_iter().map(StoreLine::of).collect();
    let lost = lines.iter().find(|line| line.state == RightState::Lost);
    let right = match lost {
        None => Right::holds(
            RightName::Store,
            format!("{location} can be written, listed, read and deleted from"),
        ),
        Some(lost) => {
            let remedy = lost
                .remedy
                .map_or_else(String::new, |remedy| format!("; {remedy}"));
            Right::lost(RightName::Store, format!("{}{remedy}", lost.detail), None)
        }
    };
    Ok((right, lines))
}

/// One operation on the store.
#[derive(Serialize)]
struct StoreLine {
    detail: String,
    operation: &'static str,
    remedy: Option<&'static str>,
    state: RightState,
}

impl StoreLine {
    fn of(check: Check) -> Self {
        let (state, detail, remedy) = match check.result {
            Some(Ok(())) => (RightState::Holds, String::new(), None),
            Some(Err(error)) => {
                let remedy = error.remedy();
                let error = anyhow::Error::from(error);
                (RightState::Lost, format!("{error:#}"), remedy)
            }
            None => (
                RightState::Unknown,
                "not tried, because nothing could be written".to_owned(),
                None,
            ),
        };
        Self {
            detail,
            operation: check.operation,
            remedy,
            state,
        }
    }
}

fn store_words(text: &mut String, lines: &[StoreLine], ui: Ui) {
    for line in lines {
        let state = state_word(line.state, ui);
        let name = format!("store {}", line.operation);
        _ = writeln!(text, "{state} {name:<19} {}", page::safe(&line.detail));
        if let Some(remedy) = line.remedy {
            _ = writeln!(text, "           {:<17} {remedy}", "remedy:");
        }
    }
}

fn state_word(state: RightState, ui: Ui) -> String {
    match state {
        RightState::Holds => "holds   ".to_owned(),
        RightState::Lost => page::red("lost    ", ui.color),
        RightState::Unknown => page::yellow("unknown ", ui.color),
    }
}

fn lost_without(right: RightName) -> &'static str {
    match right {
        RightName::VisibleProcesses => "processes of other users, as if they were not there",
        RightName::ProcessFiles => {
            "environment (so ranks), executable, descriptors, input and output, system calls"
        }
        RightName::ProcessMemory => {
            "Python stacks, who holds a lock that a thread waits for, ranks that a title hides"
        }
        RightName::ProcessDescriptors => "how many bytes wait in pipes",
        RightName::KernelStacks => "where in the kernel a thread waits, as a stack",
        RightName::WaitChannels => "where in the kernel a thread waits, as a name",
        RightName::ChildrenFiles => "nothing, but finding the processes of a task costs more",
        RightName::CgroupFiles => "memory and CPU limits, throttling, kills for lack of memory",
        RightName::Pressure => "how long the machine waits for CPU, memory and disks",
        RightName::PythonStacks => "what the Python threads of this process do",
        RightName::Gpus => "how busy the GPUs are, their memory, and whose it is",
        RightName::Store => "every snapshot: it stays in the spool",
    }
}

fn json(rights: &Rights, store: &[StoreLine], is_own_process: bool) -> anyhow::Result<String> {
    let lines = rights.rights.iter().map(|right| Line {
        detail: &right.detail,
        lost_without: lost_without(right.right),
        remedy: right.remedy,
        right: right.right,
        state: right.state,
    });
    let report = Report {
        is_own_process,
        ours: &rights.ours,
        process: &rights.process,
        rights: lines.collect(),
        store,
    };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

fn words(rights: &Rights, is_own_process: bool, ui: Ui) -> String {
    let mut text = String::new();
    subjects(&mut text, rights, is_own_process);
    for right in &rights.rights {
        let state = state_word(right.state, ui);
        let name = right.right.as_str();
        _ = writeln!(text, "{state} {name:<19} {}", page::safe(&right.detail));
        if right.state != RightState::Lost {
            continue;
        }
        let mut more = |name: &str, line: &str| _ = writeln!(text, "           {name:<17} {line}");
        more("lost without it:", lost_without(right.right));
        let Some(remedy) = right.remedy else { continue };
        for (place, line) in [
            ("docker:", remedy.docker),
            ("kubernetes:", remedy.kubernetes),
            ("here:", remedy.host),
        ] {
            if let Some(line) = line {
                more(place, line);
            }
        }
    }
    text
}

fn subjects(text: &mut String, rights: &Rights, is_own_process: bool) {
    let (ours, process) = (&rights.ours, &rights.process);
    let listed = if ours.capabilities.is_empty() {
        "no capabilities".to_owned()
    } else {
        let wanted = ["SYS_PTRACE", "SYS_ADMIN", "PERFMON"];
        let told = wanted.map(|name| {
            let negation = if ours.has(name) { "" } else { "not " };
            format!("{negation}CAP_{name}")
        });
        format!(
            "{} capabilities: {}",
            ours.capabilities.len(),
            told.join(", ")
        )
    };
    let yama = ours.yama_ptrace_scope.map_or_else(
        || "no Yama".to_owned(),
        |scope| format!("kernel.yama.ptrace_scope {scope}"),
    );
    let seccomp = |mode: Option<&str>| mode.unwrap_or("unknown").to_owned();
    _ = writeln!(
        text,
        "taskscope: user {}, {listed}, seccomp {}, {yama}",
        ours.effective_uid,
        seccomp(ours.seccomp)
    );
    let whose = if is_own_process {
        "one of our own, as a task of `taskscope run` would be"
    } else if process.is_descendant {
        "a descendant of taskscope"
    } else {
        "not a descendant of taskscope"
    };
    let user = process
        .uid
        .map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
    _ = writeln!(
        text,
        "process {} ({}): {whose}, user {user}, {}seccomp {}\n",
        process.identity.pid,
        page::safe(process.command.as_deref().unwrap_or("?")),
        match process.dumpable {
            Some(false) => "not dumpable, ",
            _ => "",
        },
        seccomp(process.seccomp)
    );
}
