//! Finding, reading and explaining the settings file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use super::Settings;
use crate::environment;
use crate::outcome::Refusal;

/// The file that is looked for in the working directory.
const FILE_NAME: &str = "collector.toml";

/// Settings together with the file they came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// The settings; command-line options are laid over them by the command.
    pub(crate) settings: Settings,
    /// The file, where there is one.
    pub(crate) file: Option<PathBuf>,
    /// What the file says, key by key.
    table: toml::Table,
}

/// One setting, for `config show`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Dotted name, such as `capture.stacks.timeout`.
    pub(crate) key: String,
    /// `default` or the file.
    pub(crate) origin: String,
    /// Its value; null where unset.
    pub(crate) value: Value,
}

/// Reads the settings: `--config`, else `TASKSCOPE_CONFIG`, else `./collector.toml`, else the defaults.
pub(crate) fn load(option: Option<&Path>) -> anyhow::Result<Loaded> {
    let named = option
        .map(Path::to_owned)
        .or_else(|| environment::os("TASKSCOPE_CONFIG").map(Into::into));
    let Some(path) = named
        .clone()
        .or_else(|| Path::new(FILE_NAME).exists().then(|| FILE_NAME.into()))
    else {
        return Ok(Loaded::default());
    };
    let hint = if named.is_some() {
        " (named by --config or TASKSCOPE_CONFIG)"
    } else {
        ""
    };
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}{hint}", path.display()))
        .context(Refusal::Settings)?;
    parse(&text, &path).context(Refusal::Settings)
}

/// Parses the text of the settings file at `path`.
pub(crate) fn parse(text: &str, path: &Path) -> anyhow::Result<Loaded> {
    let explain = |error: toml::de::Error| {
        anyhow::anyhow!("{}: {}", path.display(), error.to_string().trim_end())
    };
    let settings: Settings = toml::from_str(text).map_err(explain)?;
    let table = toml::from_str(text).map_err(explain)?;
    Ok(Loaded {
        settings,
        file: Some(path.to_owned()),
        table,
    })
}

impl Loaded {
    /// Returns every setting with its value and origin, in the order of the file's sections.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let tree = serde_json::to_value(&self.settings).expect("settings are plain data");
        let mut leaves = Vec::new();
        flatten("", &tree, &mut leaves);
        leaves
            .into_iter()
            .map(|(key, value)| Row {
                origin: self.origin(&key),
                key,
                value,
            })
            .collect()
    }

    /// Returns whether the file sets `key`, a dotted name.
    pub(crate) fn sets(&self, key: &str) -> bool {
        let mut parts = key.split('.');
        let mut found = parts.next().and_then(|part| self.table.get(part));
        for part in parts {
            found = found.and_then(|value| value.get(part));
        }
        found.is_some()
    }

    /// Returns the directory that relative paths in the file are relative to.
    pub(crate) fn directory(&self) -> PathBuf {
        let parent = self.file.as_deref().and_then(Path::parent);
        parent
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
            .to_owned()
    }

    fn origin(&self, key: &str) -> String {
        match (self.sets(key), &self.file) {
            (true, Some(file)) => file.display().to_string(),
            _ => "default".to_owned(),
        }
    }
}

fn flatten(prefix: &str, value: &Value, leaves: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let key = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                flatten(&key, inner, leaves);
            }
        }
        other => leaves.push((prefix.to_owned(), other.clone())),
    }
}
