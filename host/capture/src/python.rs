//! Is it a Python interpreter? By its symbols and by what it has mapped; by names only where neither can be read.

use std::fs::File;
use std::io;

use crate::elf::Elf;

/// What is known about whether a process is a Python interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Python {
    /// Nothing says so.
    No,
    /// A name or a mapped library says so, while its executable is none.
    Maybe,
    /// Its executable says so.
    Certain,
}

/// Where programs enter an interpreter: those that embed one, and the `main` of 3.8 and later, of 2 and 3.6, of 3.7.
const ENTRIES: [&str; 4] = ["Py_Initialize", "Py_BytesMain", "Py_Main", "_Py_UnixMain"];

/// What the executable and the memory map of a process tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Whether the executable has the symbols of an interpreter; nothing where it could not be read.
    pub(crate) symbols: Option<bool>,
    /// Whether the library of `CPython` is mapped.
    pub(crate) library: bool,
}

impl Evidence {
    /// Whether it says so without any name.
    pub(crate) fn is_python(self) -> bool {
        self.symbols == Some(true) || self.library
    }

    /// Judges it together with the path of the executable and the first argument.
    pub(crate) fn judge(self, exe: Option<&str>, first_argument: Option<&str>) -> Python {
        let is_named = exe.or(first_argument).is_some_and(is_name);
        match self.symbols {
            Some(true) => Python::Certain,
            // Other implementations have other symbols.
            Some(false) if is_named && !exe.is_some_and(is_pypy) => Python::Maybe,
            _ if is_named => Python::Certain,
            _ if self.library || first_argument.is_some_and(is_name) => Python::Maybe,
            _ => Python::No,
        }
    }
}

/// Whether the base name of `path` is one of an interpreter: `python3.11`, `pypy3`, `Python`.
pub(crate) fn is_name(path: &str) -> bool {
    base_name(path).starts_with("python") || is_pypy(path)
}

fn is_pypy(path: &str) -> bool {
    base_name(path).starts_with("pypy")
}

fn base_name(path: &str) -> String {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    name.to_ascii_lowercase()
}

/// Whether the text of a `maps` file mentions the library of `CPython`, such as `libpython3.11.so.1.0`.
pub(crate) fn is_mapped(maps: &[u8]) -> bool {
    const LIBRARY: &[u8] = b"/libpython";
    maps.split(|&byte| byte == b'\n').any(|line| {
        let mut windows = line.windows(LIBRARY.len());
        let at = windows.rposition(|window| window.eq_ignore_ascii_case(LIBRARY));
        let name = at.map(|at| &line[at + LIBRARY.len()..]);
        name.is_some_and(|name| {
            name.first().is_some_and(u8::is_ascii_digit) && !name.contains(&b'/')
        })
    })
}

/// Whether `executable` is an interpreter, or asks a library for one. One from which all names of symbols were stripped is
/// known by a text that every interpreter has.
pub(crate) fn has_symbols(executable: &File) -> io::Result<bool> {
    let Some(elf) = Elf::read(executable)? else {
        return Ok(false);
    };
    match elf.names_symbol(executable, &ENTRIES)? {
        Some(is_python) => Ok(is_python),
        None => elf.holds(executable, ".rodata", "\0PYTHONHASHSEED\0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_known_by_the_base_name_alone() {
        for path in [
            "python",
            "/usr/bin/python3.11",
            "/opt/pypy/bin/pypy3",
            "/Library/Python",
            "/usr/bin/python3.11 (deleted)",
        ] {
            assert!(is_name(path), "{path}");
        }
        for path in ["", "/opt/python/bin/node", "ipython", "/usr/bin/sh", "uv"] {
            assert!(!is_name(path), "{path}");
        }
    }

    #[test]
    fn an_embedded_interpreter_is_known_by_its_library() {
        let is = |path: &str| is_mapped(format!("7f00-7f01 r-xp 0 08:01 7 {path}\n").as_bytes());
        assert!(is("/usr/lib/libpython3.11.so.1.0"));
        assert!(is("/usr/lib/libpython2.7.so.1.0 (deleted)"));
        assert!(!is("/usr/lib/libpy.so"));
        assert!(!is("/opt/libpython3.11-tools/lib/libz.so"));
        assert!(!is("/usr/lib/libpython_helpers.so"));
    }

    #[test]
    fn symbols_weigh_more_than_names() {
        let judge =
            |symbols, library, exe, argument| Evidence { symbols, library }.judge(exe, argument);
        let trainer = Some("/opt/trainer");
        assert_eq!(judge(Some(true), false, trainer, None), Python::Certain);
        assert_eq!(judge(Some(false), false, trainer, None), Python::No);
        assert_eq!(judge(Some(false), true, trainer, None), Python::Maybe);
        let python = Some("/usr/bin/python3");
        assert_eq!(judge(Some(false), false, python, None), Python::Maybe);
        assert_eq!(
            judge(Some(false), false, Some("/bin/pypy3"), None),
            Python::Certain
        );
        assert_eq!(judge(None, false, python, None), Python::Certain);
        assert_eq!(judge(None, false, None, Some("python")), Python::Certain);
        assert_eq!(judge(None, false, trainer, Some("python")), Python::Maybe);
    }
}
