//! Which files are in focus: the patterns of the settings.

use serde::Deserialize;

/// The patterns, in the form that is matched.
#[derive(Debug, Default)]
pub(crate) struct Focus(Vec<String>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    #[serde(default)]
    focus_files: Vec<String>,
}

impl Focus {
    /// Reads settings, JSON text.
    pub(crate) fn parse(config: &str) -> Result<Self, String> {
        let settings: Settings = serde_json::from_str(config)
            .map_err(|error| format!("the settings do not fit: {error}"))?;
        let mut patterns = Vec::new();
        for (index, pattern) in settings.focus_files.iter().enumerate() {
            let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
            if pattern.trim().is_empty() {
                return Err(format!(
                    "focus-files[{index}] is empty; give a path or a pattern such as `my_package/**`"
                ));
            }
            // A relative pattern matches at the end of a path, whatever leads to it.
            patterns.push(if pattern.starts_with('/') || pattern.starts_with("**/") {
                pattern.to_owned()
            } else {
                format!("**/{pattern}")
            });
        }
        Ok(Self(patterns))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `file`, a path as the interpreter has it, is in focus.
    pub(crate) fn has(&self, file: &str) -> bool {
        let file = file.strip_prefix("./").unwrap_or(file);
        self.0
            .iter()
            .any(|pattern| fast_glob::glob_match(pattern, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that the collector's step clock, which has the same patterns, is tested with as well.
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
            let patterns = &case.patterns;
            let config = serde_json::json!({ "focus-files": patterns });
            let focus = Focus::parse(&config.to_string()).unwrap();
            assert_eq!(focus.is_empty(), patterns.is_empty());
            for file in &case.r#in {
                assert!(focus.has(file), "{file} is not in {patterns:?}");
            }
            for file in &case.out {
                assert!(!focus.has(file), "{file} is in {patterns:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_the_settings_is_said() {
        let refusal = |config: &str| Focus::parse(config).unwrap_err();
        assert_eq!(
            refusal(r#"{"focus-files":["a.py"," "]}"#),
            "focus-files[1] is empty; give a path or a pattern such as `my_package/**`"
        );
        assert!(refusal(r#"{"focus":["a.py"]}"#).contains("unknown field `focus`"));
        assert!(refusal(r#"{"focus-files":"a.py"}"#).contains("expected a sequence"));
    }
}
