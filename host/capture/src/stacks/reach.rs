//! The memory of a process as a stack helper has it: opened by itself, or handed to it by the collector.

use std::fs::File;
use std::path::Path;

use crate::helper::passing;

/// Asks the collector for the memory of the process that is being read; nothing where it may not open that either.
pub(super) type Ask<'a> = dyn FnMut() -> Option<File> + 'a;

/// The memory of one process.
#[derive(Debug)]
pub(super) enum Reach {
    /// We may open it, so py-spy may read it as well.
    Own(File),
    /// The collector may open it and we may not.
    Handed(File),
    /// It cannot be opened.
    Barred,
}

impl Reach {
    /// Reaches for the memory of the process `pid`.
    pub(super) fn to(pid: i32, ask: &mut Ask<'_>) -> Self {
        match passing::open_memory_of(Path::new("/proc"), pid) {
            Ok(file) => Self::Own(file),
            Err(error) if passing::is_refusal(&error) => ask().map_or(Self::Barred, Self::Handed),
            Err(_) => Self::Barred,
        }
    }

    /// Returns the memory, however it was reached.
    pub(super) fn file(&self) -> Option<&File> {
        match self {
            Self::Own(file) | Self::Handed(file) => Some(file),
            Self::Barred => None,
        }
    }
}
