//! Is it a Python interpreter?

/// What is known about whether a process is a Python interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Python {
    /// Nothing says so.
    No,
    /// Its first argument or a mapped library says so, while its executable has another name.
    Maybe,
    /// Its executable says so.
    Certain,
}

/// Whether the base name of `path` is one of an interpreter: `python3.11`, `pypy3`, `Python`.
pub(crate) fn is_name(path: &str) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    name.starts_with("python") || name.starts_with("pypy")
}

/// Whether the text of a `maps` file mentions the library of `CPython`.
pub(crate) fn is_mapped(maps: &[u8]) -> bool {
    const LIBRARY: &[u8] = b"libpython";
    maps.windows(LIBRARY.len())
        .any(|window| window.eq_ignore_ascii_case(LIBRARY))
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
        assert!(is_mapped(
            b"7f00-7f01 r-xp 0 08:01 7 /usr/lib/libpython3.11.so.1.0\n"
        ));
        assert!(!is_mapped(b"7f00-7f01 r-xp 0 08:01 7 /usr/lib/libpy.so\n"));
    }
}
