//! What py-spy's words of failure mean: a gap code, and what to do about it.

use model::GapCode;

use crate::rights::{
    PY_SPY_ITSELF, Remedy, SAME_USER, YAMA_DESCENDANTS, YAMA_NOBODY, YAMA_PRIVILEGED,
};

/// In the words of a refusal that is about py-spy alone.
pub(super) const ONLY_PY_SPY: &str = "only py-spy reads";

/// What a failure of py-spy means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    /// The process is not Python.
    NotPython,
    /// It could not be read.
    Gap(GapCode),
}

/// Words of py-spy, or of the system behind it, and what they mean; the first that occurs wins.
const WORDS: [(&str, Complaint); 17] = [
    ("(os error 13)", Complaint::Gap(GapCode::Denied)),
    ("(os error 1)", Complaint::Gap(GapCode::Denied)),
    ("Permission denied", Complaint::Gap(GapCode::Denied)),
    ("Operation not permitted", Complaint::Gap(GapCode::Denied)),
    ("EPERM", Complaint::Gap(GapCode::Denied)),
    ("(os error 14)", Complaint::Gap(GapCode::Torn)),
    ("Bad address", Complaint::Gap(GapCode::Torn)),
    ("Mismatched read sizes", Complaint::Gap(GapCode::Torn)),
    ("(os error 3)", Complaint::Gap(GapCode::Vanished)),
    ("No such process", Complaint::Gap(GapCode::Vanished)),
    (
        "Failed to get process executable name",
        Complaint::Gap(GapCode::Vanished),
    ),
    ("recursion depth reached", Complaint::Gap(GapCode::Torn)),
    ("Refusing to copy", Complaint::Gap(GapCode::Torn)),
    ("Failed to find python version", Complaint::NotPython),
    ("Unsupported version", Complaint::Gap(GapCode::Unsupported)),
    (
        "Failed to find a python interpreter",
        Complaint::Gap(GapCode::Unsupported),
    ),
    (
        "Cannot detect GIL holding",
        Complaint::Gap(GapCode::Unsupported),
    ),
];

impl Complaint {
    /// Returns what `text` means.
    pub(super) fn of(text: &str) -> Self {
        WORDS
            .iter()
            .find(|(words, _)| text.contains(words))
            .map_or(Complaint::Gap(GapCode::Failed), |&(_, complaint)| complaint)
    }
}

/// Returns what to do where the kernel refused, as far as a gap of `code` has a remedy.
pub(super) fn remedy(code: GapCode) -> Option<String> {
    remedy_under(code, YAMA_DESCENDANTS)
}

/// The same where py-spy reads, which is never an ancestor of the process.
pub(super) fn remedy_of_py_spy(code: GapCode) -> Option<String> {
    remedy_under(code, PY_SPY_ITSELF)
}

fn remedy_under(code: GapCode, not_descendant: Remedy) -> Option<String> {
    match code {
        GapCode::Denied => {
            let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
            let remedy = denied_remedy(scope.as_deref().map(str::trim), not_descendant);
            Some(remedy.sentence.to_owned())
        }
        GapCode::NoReader => Some(
            "install py-spy beside the interpreter or in a directory of PATH, or use the embedded reader".to_owned(),
        ),
        _ => None,
    }
}

fn denied_remedy(yama: Option<&str>, not_descendant: Remedy) -> Remedy {
    match yama {
        Some("1") => not_descendant,
        Some("2") => YAMA_PRIVILEGED,
        Some("3") => YAMA_NOBODY,
        _ => SAME_USER,
    }
}

/// An interpreter as the names of its files tell it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Build {
    /// Such as "3.13".
    pub(super) version: String,
    /// Whether it is a build without the interpreter lock, such as `python3.13t`.
    pub(super) free_threaded: bool,
}

impl Build {
    /// Finds the first interpreter or libpython among paths, such as those of `/proc/PID/maps`.
    pub(super) fn named<'a>(paths: impl Iterator<Item = &'a str>) -> Option<Self> {
        paths
            .filter_map(|path| path.rsplit('/').next())
            .find_map(|name| {
                let rest = name.strip_prefix("lib").unwrap_or(name);
                let rest = rest.strip_prefix("python")?;
                let end = rest
                    .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
                    .unwrap_or(rest.len());
                let version = rest[..end].trim_end_matches('.');
                version.contains('.').then(|| Self {
                    version: version.to_owned(),
                    free_threaded: rest[end..].starts_with('t'),
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_number_decides_before_py_spys_words() {
        let of = |text| Complaint::of(text);
        assert_eq!(
            of(
                "Failed to get process executable name. Check that the process is running.: Permission denied (os error 13)"
            ),
            Complaint::Gap(GapCode::Denied)
        );
        assert_eq!(
            of(
                "Failed to get process executable name. Check that the process is running.: No such file or directory (os error 2)"
            ),
            Complaint::Gap(GapCode::Vanished)
        );
        assert_eq!(
            of("Failed to copy PyCodeObject: Bad address (os error 14)"),
            Complaint::Gap(GapCode::Torn)
        );
        assert_eq!(
            of("Failed to find python version from target process"),
            Complaint::NotPython
        );
        assert_eq!(
            of("Unsupported version of Python: 3.16.0"),
            Complaint::Gap(GapCode::Unsupported)
        );
        assert_eq!(of("anything else"), Complaint::Gap(GapCode::Failed));
    }

    #[test]
    fn a_free_threaded_build_is_known_by_its_name() {
        let build = |path: &str| Build::named(std::iter::once(path)).unwrap();
        assert!(build("/opt/lib/libpython3.13t.so.1.0").free_threaded);
        assert!(build("/usr/bin/python3.14t").free_threaded);
        assert_eq!(build("/opt/lib/libpython3.7m.so.1.0").version, "3.7");
        assert_eq!(
            build("/opt/lib/libpython3.13.so.1.0"),
            Build {
                version: "3.13".into(),
                free_threaded: false
            }
        );
        assert_eq!(
            Build::named(["/usr/bin/python3", "/bin/true"].into_iter()),
            None
        );
    }

    #[test]
    fn the_remedy_names_what_yama_forbids() {
        let sentence = |yama, not_descendant| denied_remedy(yama, not_descendant).sentence;
        assert!(sentence(Some("1"), YAMA_DESCENDANTS).contains("taskscope run"));
        assert!(!sentence(Some("1"), PY_SPY_ITSELF).contains("taskscope run"));
        assert!(sentence(Some("3"), YAMA_DESCENDANTS).contains("reboot"));
        assert!(sentence(None, YAMA_DESCENDANTS).contains("user of the process"));
    }
}
