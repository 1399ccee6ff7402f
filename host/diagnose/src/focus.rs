//! Which source files are in focus: the `focus-files` setting, as a snapshot has it.

/// The patterns, in the form that is matched.
#[derive(Clone, Debug, Default)]
pub struct Focus(Vec<String>);

impl Focus {
    /// Returns what `patterns` name, [`model::Snapshot::focus_files`].
    pub fn new(patterns: &[String]) -> Self {
        // A relative pattern matches at the end of a path, whatever leads to it.
        let whole = patterns.iter().map(|pattern| match relative(pattern) {
            pattern if pattern.starts_with('/') || pattern.starts_with("**/") => pattern.to_owned(),
            pattern => format!("**/{pattern}"),
        });
        Self(whole.collect())
    }

    /// Returns whether `file`, a path as the interpreter has it, is in focus.
    pub fn has(&self, file: &str) -> bool {
        let mut patterns = self.0.iter();
        patterns.any(|pattern| fast_glob::glob_match(pattern, relative(file)))
    }
}

fn relative(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// The cases that the step clock and the plugin focus-files are tested with as well.
    const CASES: &str = include_str!("../../../tests/fixtures/focus-files.json");

    #[derive(Deserialize)]
    struct Case {
        patterns: Vec<String>,
        r#in: Vec<String>,
        out: Vec<String>,
    }

    #[test]
    fn a_file_is_in_focus_as_the_shared_cases_say() {
        let cases: Vec<Case> = serde_json::from_str(CASES).unwrap();
        for case in cases {
            let focus = Focus::new(&case.patterns);
            for file in &case.r#in {
                assert!(focus.has(file), "{file} is not in {:?}", case.patterns);
            }
            for file in &case.out {
                assert!(!focus.has(file), "{file} is in {:?}", case.patterns);
            }
        }
    }
}
