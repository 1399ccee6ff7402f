//! What reaches the terminal: data to stdout, words to stderr, each line of which begins with `[taskscope]`.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::environment;
use crate::stderr::Stderr;

/// So many faults of ours are said, each once.
const MOST_FAULTS: usize = 16;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Where data and words go, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    /// Whether data for people is coloured.
    pub(crate) color: bool,
    /// Whether stdout is a terminal.
    pub(crate) terminal: bool,
    /// Columns for data for people.
    pub(crate) width: usize,
}

impl Ui {
    /// Returns the terminal as it is.
    pub(crate) fn new(choice: ColorChoice) -> Self {
        let terminal = io::stdout().is_terminal();
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && environment::text("NO_COLOR").is_none(),
        };
        let asked = rustix::termios::tcgetwinsize(io::stdout())
            .ok()
            .map(|size| usize::from(size.ws_col));
        let named = environment::text("COLUMNS").and_then(|columns| columns.parse().ok());
        let width = named
            .or(asked)
            .filter(|&columns| columns >= 40)
            .unwrap_or(120);
        Self {
            color,
            terminal,
            width,
        }
    }
}

/// Writes data to stdout. A closed pipe is no error: the reader has seen enough.
pub(crate) fn data(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes words to stderr, every line with our prefix, in one write so that lines of the task do not cut in.
pub(crate) fn say(words: &str) {
    _ = Stderr.write_all(prefixed(words).as_bytes());
}

/// Writes words as [`say`] does, or drops them where stderr takes none now.
pub(crate) fn mention(words: &str) {
    Stderr::offer(prefixed(words).as_bytes());
}

fn prefixed(words: &str) -> String {
    let mut lines = String::new();
    for line in words.lines() {
        _ = writeln!(lines, "[taskscope] {line}");
    }
    lines
}

/// How far long work is, on one line of a terminal; nothing where stderr is none, or the work is short.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
    /// Of what there are so many.
    noun: &'static str,
    total: usize,
}

/// Work on fewer things is over before anybody wonders.
const SHORT_WORK: usize = 64;

impl Progress {
    pub(crate) fn new(noun: &'static str, total: usize) -> Self {
        Self {
            is_shown: total > SHORT_WORK && io::stderr().is_terminal(),
            noun,
            total,
        }
    }

    /// Shows that `done` of all are done.
    pub(crate) fn show(&self, done: usize) {
        let Self {
            is_shown,
            noun,
            total,
        } = self;
        // A hundred steps are smooth, and writing costs.
        if *is_shown && (done == *total || done.is_multiple_of(total.div_ceil(100))) {
            let line = format!("\r[taskscope] {done} of {total} {noun}");
            _ = io::stderr().lock().write_all(line.as_bytes());
        }
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        if self.is_shown {
            _ = io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }
}

/// Sends warnings and worse (or what `TASKSCOPE_LOG` asks for) to stderr.
pub(crate) fn start_logging() {
    let filter = environment::text("TASKSCOPE_LOG").unwrap_or_else(|| "warn".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(&filter).unwrap_or_else(|error| {
        say(&format!("warning: TASKSCOPE_LOG=`{filter}` is no log filter such as `info` or `store=debug`: {error}"));
        tracing_subscriber::EnvFilter::new("warn")
    });
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Stderr)
        .event_format(Line)
        .finish();
    // Fails only when one is set already, which then serves as well.
    _ = tracing::subscriber::set_global_default(subscriber);
    let said = Mutex::new(BTreeSet::new());
    std::panic::set_hook(Box::new(move |panic| {
        // The payload is a text, and the place is known, with every panic there is.
        let words =
            format!("warning: a part of taskscope failed, and goes on where it can: {panic}");
        // What fails each second is no news each second.
        let is_news = {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.len() < MOST_FAULTS && said.insert(words.clone())
        };
        if is_news {
            say(&words);
        }
    }));
}

/// One event as `[taskscope] warning: message (field=value, …)`.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut words = Words::default();
        event.record(&mut words);
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => "error",
            tracing::Level::WARN => "warning",
            tracing::Level::INFO => "info",
            _ => "debug",
        };
        let details = if words.fields.is_empty() {
            String::new()
        } else {
            format!(" ({})", words.fields.join(", "))
        };
        let message = words.message.trim_end_matches('.');
        for line in format!("{level}: {message}{details}").lines() {
            writeln!(writer, "[taskscope] {line}")?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Words {
    message: String,
    fields: Vec<String>,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.push(format!("{}={value:?}", field.name()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.push(format!("{}={value}", field.name()));
        }
    }
}
