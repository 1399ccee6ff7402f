//! Every Python interpreter of this machine, so that live tests run on each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::environment;

/// One interpreter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Python {
    /// Major, minor, micro.
    pub version: (u32, u32, u32),
    /// Such as `python3.11.7`.
    pub name: String,
    /// The executable itself, with links and shims resolved.
    pub path: PathBuf,
}

/// Every `CPython` in PATH and in `~/.pyenv/versions`, oldest first. Panics if there is none.
pub fn pythons() -> &'static [Python] {
    static FOUND: OnceLock<Vec<Python>> = OnceLock::new();
    FOUND.get_or_init(|| {
        // Keyed by the resolved executable: PATH holds links to and shims of the same interpreter.
        let found: BTreeMap<PathBuf, Python> =
            candidates().iter().filter_map(|path| ask(path)).collect();
        assert!(
            !found.is_empty(),
            "live tests need a Python interpreter in PATH"
        );
        let mut pythons: Vec<Python> = found.into_values().collect();
        pythons.sort();
        pythons
    })
}

/// The newest interpreter of this machine.
pub fn newest_python() -> &'static Python {
    pythons().last().expect("there is at least one")
}

fn candidates() -> Vec<PathBuf> {
    let mut directories = environment::search_directories();
    if let Some(home) = environment::home_directory() {
        let versions = fs::read_dir(home.join(".pyenv/versions"))
            .into_iter()
            .flatten()
            .flatten();
        directories.extend(versions.map(|version| version.path().join("bin")));
    }
    let files = directories
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .flatten();
    files
        .map(|file| file.path())
        .filter(|path| is_named_like_python(path))
        .collect()
}

fn is_named_like_python(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let rest = name.and_then(|name| name.strip_prefix("python"));
    rest.is_some_and(|rest| {
        rest.chars()
            .all(|letter| letter.is_ascii_digit() || letter == '.')
    })
}

/// The interpreter behind a path; nothing for a shim without a version, another implementation or a broken link.
fn ask(path: &Path) -> Option<(PathBuf, Python)> {
    let question = "import sys, platform; print('%d %d %d' % sys.version_info[:3]); \
                    print(platform.python_implementation()); print(sys.executable)";
    let mut command = Command::new(path);
    command
        .args(["-E", "-s", "-c", question])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let answer = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let lines: Vec<&str> = answer.lines().collect();
    let [version, "CPython", executable] = lines[..] else {
        return None;
    };
    let numbers: Vec<u32> = version
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    let [major, minor, micro] = numbers[..] else {
        return None;
    };
    let path = fs::canonicalize(executable).ok()?;
    let name = format!("python{major}.{minor}.{micro}");
    Some((
        path.clone(),
        Python {
            version: (major, minor, micro),
            name,
            path,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interpreter_is_found_once_and_says_its_own_version() {
        let paths: Vec<&Path> = pythons()
            .iter()
            .map(|python| python.path.as_path())
            .collect();
        let mut unique = paths.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), paths.len(), "{paths:?}");
        assert!(newest_python().version >= (3, 0, 0));
    }

    #[test]
    fn tools_that_only_begin_like_python_are_left_out() {
        assert!(is_named_like_python(Path::new("/bin/python3.11")));
        assert!(is_named_like_python(Path::new("/bin/python")));
        assert!(!is_named_like_python(Path::new("/bin/python3-config")));
        assert!(!is_named_like_python(Path::new("/bin/pythonw")));
    }
}
