//! `taskscope stage`

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use supervise::TaskCommand;

use crate::commands::run::refuse;
use crate::control::{self, SOCKET_VARIABLE};
use crate::environment;
use crate::outcome::{Outcome, Refusal};
use crate::ui;

/// The variable that tells a command in which stage it runs: `PID:ID`.
const STAGE_VARIABLE: &str = "TASKSCOPE_STAGE";
/// How long a collector may take to note that the stage begins; then the command starts even so.
const PATIENCE: Duration = Duration::from_millis(500);

/// Mark a stage of the task around a command
///
/// taskscope becomes the command, which has its PID, streams, signals and exit status; the stage ends when it ends.
/// Without a collector it just runs the command, and one line on stderr says so.
#[derive(Args, Debug)]
pub(crate) struct StageArgs {
    /// The stage's name: up to 200 bytes, any characters but control characters
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn parse_name(name: &str) -> Result<String, String> {
    monitor::check_stage_name(name)
}

pub(crate) fn run(args: StageArgs) -> anyhow::Result<Outcome> {
    let mut words = args.command.into_iter();
    let program = words.next().context(Refusal::Settings)?;
    let is_fine = |outer: &String| outer.bytes().all(|byte| byte.is_ascii_graphic());
    let outer = environment::text(STAGE_VARIABLE).filter(is_fine);
    let pid = std::process::id();
    let id = id(outer.as_deref(), pid);
    let mut command = TaskCommand {
        program,
        arguments: words.collect(),
        ..TaskCommand::default()
    };
    match tell(outer.as_deref(), pid, &id, &args.name) {
        Ok(()) => {
            let inside = format!("{pid}:{id}");
            let variable = (STAGE_VARIABLE.into(), inside.into());
            command.environment.push(variable);
        }
        Err(reason) => ui::say(&format!("stage {} is not recorded: {reason:#}", args.name)),
    }
    Err(refuse(supervise::replace_by(&command)))
}

/// The id of a stage in this process. One that was begun by the process that became us is outside of it.
fn id(outer: Option<&str>, pid: u32) -> String {
    let ours = outer.and_then(|outer| outer.strip_prefix(&format!("{pid}:exec-")));
    let depth = ours.and_then(|depth| depth.parse::<u32>().ok());
    format!("exec-{}", depth.map_or(1, |depth| depth.saturating_add(1)))
}

/// Tells the collector that the stage begins, and waits a moment until it knows: a short command may be over at once.
fn tell(outer: Option<&str>, pid: u32, id: &str, name: &str) -> anyhow::Result<()> {
    let socket = environment::os(SOCKET_VARIABLE)
        .with_context(|| format!("{SOCKET_VARIABLE} is not set, so there is no collector"))?;
    let socket = Path::new(&socket);
    let stream = control::connect(socket)
        .with_context(|| format!("no collector listens at {}", socket.display()))?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let parent = match outer.map(|outer| outer.split_once(':').unwrap_or(("", outer))) {
        Some((outer, parent)) if outer == pid.to_string() => format!(" parent={parent}"),
        Some((outer, parent)) => format!(" parent={outer}:{parent}"),
        None => String::new(),
    };
    let lines = format!("stage begin id={id} until=exit{parent} name={name}\nping\n");
    (&stream).write_all(lines.as_bytes())?;
    // No answer in time is no reason not to start: the line lies in the socket.
    _ = BufReader::new(stream).read_line(&mut String::new());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_stages_of_one_process_has_an_id_of_its_own() {
        assert_eq!(id(None, 12), "exec-1");
        assert_eq!(id(Some("11:exec-4"), 12), "exec-1");
        assert_eq!(id(Some("12:exec-4"), 12), "exec-5");
        assert_eq!(id(Some("12:7"), 12), "exec-1");
    }
}
