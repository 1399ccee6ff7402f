//! `taskscope ctl`

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use crate::commands::World;
use crate::config::Span;
use crate::control::{Ask, Collector, IntervalSource, StageStatus, Status, ask, find};
use crate::outcome::Outcome;
use crate::page::{count, safe};
use crate::ui;

/// How long a snapshot under way may take.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Steer a collector while it runs: a snapshot now, another interval, a pause
///
/// Without --pid or --socket it is the collector of the task that this command runs in, else the only one of this user.
#[derive(Args, Debug)]
pub(crate) struct CtlArgs {
    #[command(subcommand)]
    action: Action,

    /// The collector, or the main process of the task that it watches
    #[arg(long, global = true, value_name = "PID", conflicts_with = "socket")]
    pid: Option<i32>,

    /// The collector's socket
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Print its status as JSON, afterwards where something is asked of it
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Take a snapshot now, and wait until it is there
    Snapshot,
    /// Take a snapshot so often from now on, whatever it costs
    Interval {
        /// Such as 5s or 2m, or `auto`: as the settings say
        #[arg(value_name = "DURATION", value_parser = parse_interval)]
        interval: Interval,
    },
    /// Take no snapshots until `resume`, but those that are asked for
    Pause,
    /// Go on after a pause, with a snapshot at once
    Resume,
    /// Tell what it watches, how often, since when
    Status,
}

/// An interval, or the one of the settings.
#[derive(Clone, Copy, Debug)]
struct Interval(Option<Span>);

fn parse_interval(text: &str) -> Result<Interval, String> {
    if text == "auto" {
        return Ok(Interval(None));
    }
    let span = text.parse();
    span.map(|span| Interval(Some(span)))
        .map_err(|error: String| error + ", or `auto`")
}

pub(crate) fn run(args: &CtlArgs, world: &World) -> anyhow::Result<Outcome> {
    let collector = find(args.socket.as_deref(), args.pid)?;
    let status = match args.action {
        Action::Status => collector.status.clone(),
        Action::Snapshot => snapshot(&collector)?,
        Action::Interval { interval } => {
            let is_granted = |status: &Status| match interval.0 {
                Some(span) => {
                    let wanted = span.duration().as_secs_f64();
                    (status.interval_s - wanted).abs() < 1e-9
                }
                None => status.interval_source != IntervalSource::Asked,
            };
            steer(&collector, Ask::Interval(interval.0), is_granted)?
        }
        Action::Pause => steer(&collector, Ask::Pause, |it| it.paused_since.is_some())?,
        Action::Resume => steer(&collector, Ask::Resume, |it| it.paused_since.is_none())?,
    };
    if args.json {
        let mut text = serde_json::to_string_pretty(&status)?;
        text.push('\n');
        ui::data(&text)?;
    } else if matches!(args.action, Action::Status) {
        let collector = Collector {
            status,
            ..collector
        };
        ui::data(&page(&collector, world))?;
    } else {
        ui::say(&words(args.action, &status));
    }
    Ok(Outcome::Well)
}

/// Asks for a snapshot and waits for one that began afterwards.
fn snapshot(collector: &Collector) -> anyhow::Result<Status> {
    let request = ask(&collector.socket, Ask::Snapshot)?.request;
    let request = request.context("the collector does not number its requests")?;
    let status = wait(collector, |status| status.snapshots.answered >= request)?;
    match &status.snapshots.failed {
        Some(error) => bail!("no snapshot was taken: {}", safe(error)),
        None => Ok(status),
    }
}

/// Asks for something and waits until it is so.
fn steer(
    collector: &Collector,
    question: Ask,
    is_so: impl Fn(&Status) -> bool,
) -> anyhow::Result<Status> {
    ask(&collector.socket, question)?;
    wait(collector, is_so)
}

fn wait(collector: &Collector, is_so: impl Fn(&Status) -> bool) -> anyhow::Result<Status> {
    let begun = Instant::now();
    loop {
        let answer = ask(&collector.socket, Ask::Status);
        let status = answer.context("it was asked, but ended before it could")?;
        let status = status.status.context("it does not say how it is")?;
        if is_so(&status) {
            return Ok(status);
        }
        if begun.elapsed() > PATIENCE {
            bail!("it was asked, but a snapshot that takes longer than {PATIENCE:?} is under way");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn words(action: Action, status: &Status) -> String {
    let task = safe(&status.task);
    match action {
        Action::Snapshot => format!(
            "snapshot {} of {task} in {}",
            safe(status.snapshots.last_id.as_deref().unwrap_or_default()),
            safe(&status.store)
        ),
        Action::Interval { .. } => format!("{task}: {}", interval(status)),
        Action::Pause => format!("{task} is not looked at until `taskscope ctl resume`"),
        Action::Resume => format!("{task} is looked at again, {}", interval(status)),
        Action::Status => String::new(),
    }
}

fn interval(status: &Status) -> String {
    let source = match status.interval_source {
        IntervalSource::Asked => "asked for by `taskscope ctl`",
        IntervalSource::Budget => "within the budget",
        IntervalSource::Settings => "by the settings",
    };
    format!("a snapshot every {}, {source}", span(status.interval_s))
}

fn page(collector: &Collector, world: &World) -> String {
    let Collector { socket, status } = collector;
    let now = world.clock.now();
    let attempt = status
        .attempt
        .map_or_else(String::new, |it| format!("  attempt {it}"));
    let snapshots = &status.snapshots;
    let taken = match &snapshots.last_id {
        Some(id) => format!("{} taken, the latest {}", snapshots.taken, safe(id)),
        None => "none taken yet".to_owned(),
    };
    let due = snapshots.due_at.map_or_else(String::new, |due| {
        format!(
            "; the next in {}",
            span(due.since(now).as_secs_f64().ceil())
        )
    });
    let failed = snapshots.failed.as_ref().map_or_else(String::new, |error| {
        format!("\nfailed     the latest attempt: {}", safe(error))
    });
    let paused = status.paused_since.map_or_else(String::new, |since| {
        format!("\npaused     since {} UTC", since.human())
    });
    let control = &status.control;
    let refused = match (control.refused_lines, &control.last_refusal) {
        (1.., Some(reason)) => format!(
            "; {} refused, the latest: {}",
            control.refused_lines,
            safe(reason)
        ),
        _ => String::new(),
    };
    format!(
        "{}{attempt}  node {}\n\
         watching   process {} since {} UTC, by process {}\n\
         snapshots  {taken}, in {}{due}{failed}{paused}\n\
         interval   {}\n\
         stages     {}\n\
         control    {}, {}{refused}\n\
         socket     {}\n",
        safe(&status.task),
        safe(&status.node),
        status.root.pid,
        status.started_at.human(),
        status.collector_pid,
        safe(&status.store),
        interval(status),
        stages(&status.stages),
        count(control.clients, "connection", "connections"),
        count(control.lines, "line", "lines"),
        socket.display(),
    )
}

fn stages(stages: &StageStatus) -> String {
    let open = match stages.open {
        0 => "none open".to_owned(),
        open => format!("{open} open: {}", safe(&stages.label)),
    };
    let trouble = &stages.trouble;
    let counted = [
        (trouble.unmatched_ends, "ends without a beginning"),
        (trouble.begun_twice, "begun twice"),
        (trouble.too_many, "not kept because too many were open"),
        (trouble.skipped, "not told by the task"),
    ];
    let mut line = format!("{open}; {} ended", stages.ended);
    for (count, words) in counted.iter().filter(|(count, _)| *count > 0) {
        _ = write!(line, "; {count} {words}");
    }
    line
}

/// Seconds, minutes or hours, as a person says them.
fn span(seconds: f64) -> String {
    if seconds < 120.0 {
        return format!("{seconds} s");
    }
    let minutes = seconds / 60.0;
    if minutes < 120.0 {
        return format!("{minutes:.0} min");
    }
    format!("{:.1} h", minutes / 60.0)
}
