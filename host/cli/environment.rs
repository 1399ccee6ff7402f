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

/// Returns the per-user state directory (XDG base directory specification), else the temp directory.
pub(crate) fn state_directory() -> PathBuf {
    let home = || os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .unwrap_or_else(std::env::temp_dir)
}

/// Returns the per-user cache directory (XDG base directory specification), if there is one.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let absolute = |name| {
        os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}
