//! What the settings say about plugins: `[plugins]`, `[[enricher]]` and `[[sink]]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Size, Span};

/// What `wasm` of a built-in plugin begins with.
pub(crate) const BUILTIN: &str = "builtin:";

/// `[plugins]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PluginSettings {
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) memory: Size,
    pub(crate) deadline: Span,
}

/// `[[enricher]]`
pub(crate) type EnricherEntry = Settings<Permissions>;

/// An entry of a plugin; what may be permitted differs from kind to kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings<P: Default> {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) wasm: Option<String>,
    #[serde(default = "enabled")]
    pub(crate) enabled: bool,
    #[serde(default)]
    pub(crate) sha256: Option<String>,
    #[serde(default)]
    pub(crate) config: Option<BTreeMap<String, toml::Value>>,
    #[serde(default)]
    pub(crate) permissions: P,
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// `[[enricher]] permissions`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Permissions {
    pub(crate) environment: Vec<String>,
}

/// `[[enricher]] limits`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Limits {
    pub(crate) memory: Option<Size>,
    pub(crate) deadline: Option<Span>,
}

impl<P: Default> Settings<P> {
    /// Returns the entry of the built-in plugin `name` as it stands without settings.
    pub(crate) fn builtin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            wasm: None,
            enabled: true,
            sha256: None,
            config: None,
            permissions: P::default(),
            limits: Limits::default(),
        }
    }

    /// Returns where its component is: a path, or `builtin:NAME`.
    pub(crate) fn origin(&self) -> String {
        let builtin = || format!("{BUILTIN}{}", self.name);
        self.wasm.clone().unwrap_or_else(builtin)
    }
}

/// `[[sink]]`
pub(crate) type SinkSettings = Settings<SinkPermissions>;

/// `[[sink]] permissions`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SinkPermissions {
    pub(crate) http: Vec<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) dirs: Vec<Directory>,
    pub(crate) storage: bool,
}

/// One directory of `[[sink]] permissions`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Directory {
    pub(crate) host: PathBuf,
    pub(crate) guest: String,
    #[serde(default)]
    pub(crate) mode: Mode,
}

/// What may be done in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Read.
    #[default]
    Ro,
    /// Read and write.
    Rw,
}

fn enabled() -> bool {
    true
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            cache_dir: None,
            memory: Size::mebibytes(64),
            deadline: Span::seconds(2),
        }
    }
}
