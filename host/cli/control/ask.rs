//! The side that asks: which collectors run here, and one question to one of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use super::SOCKET_VARIABLE;
use super::board::Status;
use super::desk::Answer;
use super::line::Ask;
use super::place::{connect, sockets};
use crate::environment;
use crate::page::text::safe;

/// A collector that listens takes no longer, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer, bytes.
const ANSWER_LIMIT: u64 = 1 << 20;

/// A collector that answered.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) socket: PathBuf,
    pub(crate) status: Status,
}

/// Asks the collector at `socket`; a refusal is an error.
pub(crate) fn ask(socket: &Path, ask: Ask) -> anyhow::Result<Answer> {
    let answer = exchange(socket, ask)
        .with_context(|| format!("no collector answers at {}", socket.display()))?;
    match &answer.error {
        Some(error) => bail!("the collector refuses `{ask}`: {}", safe(error)),
        None => Ok(answer),
    }
}

fn exchange(socket: &Path, ask: Ask) -> anyhow::Result<Answer> {
    let mut stream = connect(socket)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    writeln!(stream, "{ask}")?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_LIMIT)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Finds the collector at `socket`, or the one that is or watches process `pid`, or that of the task we are in, or the only
/// one of this user.
pub(crate) fn find(socket: Option<&Path>, pid: Option<i32>) -> anyhow::Result<Collector> {
    if let Some(socket) = socket {
        return at(socket);
    }
    if let Some(pid) = pid {
        let mut collectors = running();
        let wanted = |it: &Collector| [it.status.collector_pid, it.status.root.pid].contains(&pid);
        let found = collectors.iter().position(wanted);
        return found
            .map(|index| collectors.swap_remove(index))
            .ok_or_else(|| {
                anyhow!("{pid} is neither a collector of this user nor the main process of a task that one watches{}", list(&collectors))
            });
    }
    if let Some(socket) = environment::os(SOCKET_VARIABLE) {
        return at(Path::new(&socket)).with_context(|| {
            format!("{SOCKET_VARIABLE} names a collector that is not there; --pid or --socket names another")
        });
    }
    let mut collectors = running();
    match (collectors.pop(), collectors.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => bail!(
            "no collector of this user runs here; `taskscope run -- COMMAND` or `taskscope attach` starts one, and --socket names one elsewhere"
        ),
        (Some(last), others) => {
            collectors.push(last);
            bail!(
                "{} collectors of this user run here; --pid chooses one{}",
                others + 1,
                list(&collectors)
            )
        }
    }
}

fn at(socket: &Path) -> anyhow::Result<Collector> {
    let status = ask(socket, Ask::Status)?.status;
    Ok(Collector {
        socket: socket.to_owned(),
        status: status.context("the collector does not say how it is")?,
    })
}

/// Every collector of this user that answers.
fn running() -> Vec<Collector> {
    let sockets = sockets();
    let answers = sockets.iter().filter_map(|socket| at(socket).ok());
    answers.collect()
}

fn list(collectors: &[Collector]) -> String {
    let lines = collectors.iter().map(|collector| {
        let status = &collector.status;
        format!(
            "\n  --pid {}  {} in {}, process {}",
            status.collector_pid,
            safe(&status.task),
            safe(&status.store),
            status.root.pid
        )
    });
    lines.collect()
}
