//! The only place that reads our own environment; everything else gets values from here.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variables that a command looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment;

impl Environment {
    /// Returns the value of `name` where it is set, not empty, and UTF-8.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
    pub(crate) fn text(self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    /// Returns the value of `name` where it is set and not empty.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
    pub(crate) fn os(self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    /// Returns the directories of `PATH`.
    pub(crate) fn path(self) -> Vec<PathBuf> {
        self.os("PATH")
            .map(|value| std::env::split_paths(&value).collect())
            .unwrap_or_default()
    }
}
