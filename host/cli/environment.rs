//! The only place that reads our own environment; everything else gets values from here.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the value of `name` where it is set, not empty, and UTF-8.
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the value of `name` where it is set and not empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks")]
pub(crate) fn os(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the directories of `PATH`.
pub(crate) fn search_path() -> Vec<PathBuf> {
    os("PATH")
        .map(|value| std::env::split_paths(&value).collect())
        .unwrap_or_default()
}
