//! The only place of the tests' helpers that reads the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// The `PATH` that this test run was started with.
pub(crate) fn search_path() -> OsString {
    read("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"))
}

/// The directories of `PATH`, in order.
pub(crate) fn search_directories() -> Vec<PathBuf> {
    std::env::split_paths(&search_path()).collect()
}

/// The home directory, where it is known.
pub(crate) fn home_directory() -> Option<PathBuf> {
    read("HOME").map(PathBuf::from)
}

/// Cargo's target directory: the test binary lies in `<target>/<profile>/deps`.
pub(crate) fn target_directory() -> PathBuf {
    let test_binary = std::env::current_exe().expect("a running test has an executable");
    test_binary
        .ancestors()
        .nth(3)
        .expect("the test binary lies in the target directory")
        .to_owned()
}

fn read(name: &str) -> Option<OsString> {
    #[expect(
        clippy::disallowed_methods,
        reason = "tests have no settings; this is their one door to the environment"
    )]
    std::env::var_os(name)
}
