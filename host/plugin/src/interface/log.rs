//! `log`: lines of a guest into our own log, at `info` at most, because what is above reaches the terminal that
//! belongs to the watched task.

use tracing::Level as Ours;
use wasmtime::component::{HasData, Linker};

use crate::bindings::taskscope::plugin::log::{self, Attribute, Level};
use crate::guest::Guest;
use crate::limits;
use crate::text::one_line;

/// Who logs, and how much it has logged in this call.
#[derive(Debug)]
pub(crate) struct Log {
    instance: String,
    lines: u32,
}

impl Log {
    pub(crate) fn new(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            lines: 0,
        }
    }

    /// Begins a call: the guest may log again. Returns how many lines of the last one were dropped.
    pub(crate) fn begin(&mut self) -> u32 {
        std::mem::take(&mut self.lines).saturating_sub(limits::LOG_LINES)
    }
}

impl HasData for Log {
    type Data<'a> = &'a mut Self;
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    log::add_to_linker::<_, Log>(linker, |guest| &mut guest.log)
}

impl log::Host for Log {
    fn write(&mut self, level: Level, message: String, fields: Vec<Attribute>) {
        self.lines = self.lines.saturating_add(1);
        if self.lines > limits::LOG_LINES {
            return;
        }
        let plugin = &self.instance;
        let mut line = message;
        for field in fields {
            line = format!("{line} {}={}", field.key, field.value);
            if line.len() > limits::TEXT_BYTES {
                break;
            }
        }
        let line = one_line(&line, limits::TEXT_BYTES);
        match ours(level) {
            Ours::TRACE => tracing::trace!(%plugin, "{line}"),
            Ours::DEBUG => tracing::debug!(%plugin, "{line}"),
            _ => tracing::info!(%plugin, ?level, "{line}"),
        }
    }

    fn enabled(&mut self, level: Level) -> bool {
        match ours(level) {
            Ours::TRACE => tracing::enabled!(Ours::TRACE),
            Ours::DEBUG => tracing::enabled!(Ours::DEBUG),
            _ => tracing::enabled!(Ours::INFO),
        }
    }
}

fn ours(level: Level) -> Ours {
    match level {
        Level::Trace => Ours::TRACE,
        Level::Debug => Ours::DEBUG,
        Level::Info | Level::Warn | Level::Error => Ours::INFO,
    }
}
