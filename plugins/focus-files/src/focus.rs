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

    fn focus(patterns: &[&str]) -> Focus {
        let config = serde_json::json!({ "focus-files": patterns });
        Focus::parse(&config.to_string()).unwrap()
    }

    #[test]
    fn a_name_matches_wherever_the_file_lies() {
        let focus = focus(&["train.py"]);
        for file in ["train.py", "./train.py", "/work/train.py", "src/train.py"] {
            assert!(focus.has(file), "{file}");
        }
        for file in ["/work/retrain.py", "/work/train.pyc", "/train.py/x.py", ""] {
            assert!(!focus.has(file), "{file}");
        }
    }

    #[test]
    fn two_stars_cross_directories_and_one_does_not() {
        let package = focus(&["my_package/**"]);
        assert!(package.has("/opt/my_package/a/b.py"));
        assert!(!package.has("/opt/your_package/a.py"));
        let flat = focus(&["steps/*.py"]);
        assert!(flat.has("/a/steps/one.py"));
        assert!(!flat.has("/a/steps/deep/one.py"));
    }

    #[test]
    fn a_path_from_the_root_is_that_path() {
        let focus = focus(&["/work/*.py"]);
        assert!(focus.has("/work/train.py"));
        assert!(!focus.has("/mnt/work/train.py"));
    }

    #[test]
    fn several_patterns_add_up_and_none_is_nothing() {
        let several = focus(&["a.py", "{b,c}.py"]);
        assert!(several.has("x/a.py") && several.has("x/c.py"));
        assert!(focus(&[]).is_empty());
        assert!(!focus(&[]).has("a.py"));
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
