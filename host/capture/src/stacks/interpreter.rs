//! Which Python it is, by its own memory: `_PyRuntime` (3.13 and later), `Py_Version` (3.11 and later) or `sys.version`.
//!
//! Nothing else is believed: libraries hold texts such as "3.8.3 or higher".

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::image::Image;
use crate::elf::Elf;
use crate::python;

/// At most so much of the variables of an interpreter is searched for `sys.version`, bytes.
const MOST_VARIABLES: u64 = 16 << 20;

/// `PY_VERSION (build, date) [compiler]`, as `Py_GetVersion` puts them together; and what conda adds.
static SYS_VERSION: LazyLock<Regex> = LazyLock::new(|| {
    let version = r"\x00([23])\.(\d{1,2})\.(\d{1,2})((?:a|b|c|rc)\d{1,2})?\+?";
    let build =
        r"(?: \|[^|\x00]{1,60}\|)? \([^)\x00]{0,60}, [A-Z][a-z]{2} [ \d]\d \d{4}, \d\d:\d\d:\d\d\)";
    Regex::new(&format!(r"(?-u){version}{build} ?\n?\[(?:GCC|Clang)")).expect("it is an expression")
});

/// One interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interpreter {
    /// Whether it was built without the interpreter lock.
    pub(super) is_free_threaded: bool,
    /// Where its `_PyRuntime` is, as far as a symbol or a section tells.
    pub(super) runtime: Option<u64>,
    /// Major, minor.
    pub(super) series: (u64, u64),
    micro: u64,
    /// Such as `rc1`; empty for a final release.
    level: String,
}

impl fmt::Display for Interpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.series;
        write!(formatter, "{major}.{minor}.{}{}", self.micro, self.level)
    }
}

impl Interpreter {
    /// Asks `memory`, which is that of the process of `image`; nothing where it does not tell.
    pub(super) fn of(image: &Image, memory: &File) -> Option<Self> {
        let proc = PathBuf::from(format!("/proc/{}", image.process.pid));
        let maps = std::fs::read_to_string(proc.join("maps")).ok()?;
        let files = mapped_files(&maps, image.exe.to_str()?);
        files.iter().find_map(|(path, start)| {
            let path =
                path.map_or_else(|| proc.join("exe"), |path| proc.join(format!("root{path}")));
            of_file(&path, *start, memory)
        })
    }

    /// Decodes `PY_VERSION_HEX`; nothing for what is no version of Python.
    fn of_number(number: u32, is_free_threaded: bool) -> Option<Self> {
        let [major, minor, micro, level] = number.to_be_bytes();
        let serial = level & 0xf;
        let level = match level >> 4 {
            0xa => format!("a{serial}"),
            0xb => format!("b{serial}"),
            0xc => format!("rc{serial}"),
            0xf => String::new(),
            _ => return None,
        };
        matches!(major, 2 | 3).then(|| Self {
            is_free_threaded,
            runtime: None,
            series: (major.into(), minor.into()),
            micro: micro.into(),
            level,
        })
    }

    /// Finds `sys.version` among variables.
    fn of_text(variables: &[u8]) -> Option<Self> {
        let found = SYS_VERSION.captures(variables)?;
        let text = |index| std::str::from_utf8(found.get(index)?.as_bytes()).ok();
        let number = |index| text(index)?.parse().ok();
        Some(Self {
            is_free_threaded: false, // there was none before 3.13, which says so itself
            runtime: None,
            series: (number(1)?, number(2)?),
            micro: number(3)?,
            level: text(4).unwrap_or_default().to_owned(),
        })
    }
}

/// The executable (without a path) and the libraries of Python, with the address of their first mapped byte.
fn mapped_files<'a>(maps: &'a str, exe: &str) -> Vec<(Option<&'a str>, u64)> {
    let mut files: Vec<(Option<&str>, u64)> = Vec::new();
    for line in maps.lines() {
        // start-end rights offset device inode path
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(offset), Some(path)) = (fields.next(), fields.nth(1), fields.nth(2))
        else {
            continue;
        };
        let path = path.trim_start();
        let is_exe = path == exe;
        let is_first = offset.bytes().all(|digit| digit == b'0');
        if !is_first || !(is_exe || python::is_mapped(path.as_bytes())) {
            continue;
        }
        let start = range.split('-').next().unwrap_or_default();
        let Ok(start) = u64::from_str_radix(start, 16) else {
            continue;
        };
        let path = (!is_exe).then_some(path);
        if !files.iter().any(|(known, _)| *known == path) {
            files.push((path, start));
        }
    }
    files
}

fn of_file(path: &Path, start: u64, memory: &File) -> Option<Interpreter> {
    let file = File::open(path).ok()?;
    let elf = Elf::read(&file).ok()??;
    let at = |address| elf.mapped(address, start);
    let runtime = elf.symbol(&file, "_PyRuntime").ok()?;
    let runtime = runtime.or_else(|| Some(elf.section(".PyRuntime")?.start));
    let runtime = runtime.map(at);
    let interpreter = version_of(&elf, &file, at, runtime, memory)?;
    Some(Interpreter {
        runtime,
        ..interpreter
    })
}

fn version_of(
    elf: &Elf,
    file: &File,
    at: impl Fn(u64) -> u64,
    runtime: Option<u64>,
    memory: &File,
) -> Option<Interpreter> {
    if let Some(address) = runtime {
        // Of `_Py_DebugOffsets`: a cookie, the version, whether it is free-threaded.
        let mut head = [0; 24];
        if memory.read_exact_at(&mut head, address).is_ok() && head.starts_with(b"xdebugpy") {
            let number =
                |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
            return Interpreter::of_number(u32::try_from(number(8)).ok()?, number(16) == 1);
        }
    }
    if let Some(address) = elf.symbol(file, "Py_Version").ok()? {
        let mut number = [0; 4];
        memory.read_exact_at(&mut number, at(address)).ok()?;
        return Interpreter::of_number(u32::from_le_bytes(number), false);
    }
    let variables = elf.section(".bss")?;
    let size = (variables.end - variables.start).min(MOST_VARIABLES);
    let mut content = vec![0; usize::try_from(size).ok()?];
    memory
        .read_exact_at(&mut content, at(variables.start))
        .ok()?;
    Interpreter::of_text(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_number_is_decoded_and_nonsense_is_none() {
        let text = |number| Interpreter::of_number(number, false).map(|it| it.to_string());
        assert_eq!(text(0x030b_07f0).as_deref(), Some("3.11.7"));
        assert_eq!(text(0x030f_00c2).as_deref(), Some("3.15.0rc2"));
        assert_eq!(text(0x0720_b7f0), None, "7.32.183 is no Python");
        assert_eq!(text(0), None);
    }

    #[test]
    fn only_the_whole_text_of_sys_version_counts() {
        let text = |text: &str| {
            let variables = [b"\0\0", text.as_bytes(), b"\0"].concat();
            Interpreter::of_text(&variables).map(|it| it.to_string())
        };
        for (real, version) in [
            (
                "2.7.18 (default, Sep 28 2026, 10:11:12) \n[GCC 12.2.0]",
                "2.7.18",
            ),
            (
                "3.10.0rc1 (tags/v3.10.0rc1:3, Aug  3 2021, 01:02:03) [Clang 12.0.0 ]",
                "3.10.0rc1",
            ),
            (
                "3.8.5 | packaged by conda-forge | (default, Jul 24 2020, 01:25:15) \n[GCC 7.5.0]",
                "3.8.5",
            ),
        ] {
            assert_eq!(text(real).as_deref(), Some(version), "{real}");
        }
        for other in [
            "3.8.3 or higher",
            "3.8.3 (default, or later)",
            "SQLite 3.8.3 (default, Sep 28 2026, 10:11:12) \n[GCC 12.2.0]",
        ] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    #[test]
    fn the_executable_and_the_library_are_found_at_their_first_byte() {
        let maps = "400000-401000 r--p 00000000 08:01 7      /opt/my python\n\
                    401000-402000 r-xp 00001000 08:01 7      /opt/my python\n\
                    7f00-7f01 rw-p 00000000 00:00 0 \n\
                    7f10000-7f20000 r--p 00000000 08:01 9    /lib/libpython3.6m.so.1.0\n";
        let found = mapped_files(maps, "/opt/my python");
        let library = Some("/lib/libpython3.6m.so.1.0");
        assert_eq!(found, [(None, 0x0040_0000), (library, 0x07f1_0000)]);
    }
}
