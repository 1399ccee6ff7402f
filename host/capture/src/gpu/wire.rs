//! What the collector and the GPU helper say to each other, in the frames of all helpers: a `Question`, then one `Part`
//! after the other as it becomes known, so that what the driver told before it fell silent is kept.

use std::path::PathBuf;

use model::{Gap, Gpu};
use serde::{Deserialize, Serialize};

/// The version of this protocol.
pub(super) const PROTOCOL: u32 = 1;

/// Asks for everything.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// The library to load.
    pub(super) library: Option<PathBuf>,
}

/// A part of the answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// What the library is asked next, for when it does not answer: `the driver`, `GPU 0`.
    Asking(String),
    /// The version of the driver.
    Driver(String),
    /// A GPU.
    Gpu(Box<Gpu>),
    /// Something that could not be read.
    Gap(Gap),
    /// There is no more.
    End,
}
