//! The `config` table of the entry: what is told, where, and in which words.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::template::Template;

/// What is told where no template is given.
const TEMPLATE: &str = "{task} on {node}: {summary}";

/// The settings, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) ends_after: u32,
    pub(crate) headers: BTreeMap<String, String>,
    /// Kinds of findings; empty for all.
    pub(crate) kinds: Vec<String>,
    /// The least that is told.
    pub(crate) severity: Severity,
    /// The text for a chat; a JSON document where there is none.
    pub(crate) template: Option<Template>,
    pub(crate) url: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    Info,
    Warning,
    Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    #[serde(default = "two")]
    ends_after: u32,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default = "warning")]
    severity: Severity,
    template: Option<String>,
    url: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    #[default]
    Json,
    Slack,
}

fn two() -> u32 {
    2
}

fn warning() -> Severity {
    Severity::Warning
}

impl Severity {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Settings {
    /// Reads the settings; an error says what is wrong with them.
    pub(crate) fn parse(config: &str) -> Result<Self, String> {
        let table: Table = serde_json::from_str(config).map_err(|error| {
            let message = error.to_string();
            message
                .split(" at line")
                .next()
                .unwrap_or_default()
                .to_owned()
        })?;
        if table.url.trim().is_empty() {
            return Err("`url` is empty; give \"https://…\" or \"{secret:NAME}\"".to_owned());
        }
        if !(1..=1_000).contains(&table.ends_after) {
            return Err("`ends-after` is a number of snapshots from 1 to 1000".to_owned());
        }
        let template = match (table.format, table.template.as_deref()) {
            (Format::Json, None) => None,
            (Format::Json, Some(_)) => {
                return Err("`template` is for `format = \"slack\"` only".to_owned());
            }
            (Format::Slack, text) => Some(Template::parse(text.unwrap_or(TEMPLATE))?),
        };
        Ok(Self {
            ends_after: table.ends_after,
            headers: table.headers,
            kinds: table.kinds,
            severity: table.severity,
            template,
            url: table.url,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_enough() {
        let settings = Settings::parse(r#"{"url":"{secret:HOOK}"}"#).unwrap();
        assert_eq!(
            (settings.severity, settings.ends_after),
            (Severity::Warning, 2)
        );
        assert!(settings.kinds.is_empty() && settings.template.is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |config: &str| Settings::parse(config).unwrap_err();
        assert_eq!(refused("{}"), "missing field `url`");
        assert_eq!(
            refused(r#"{"url":" "}"#),
            "`url` is empty; give \"https://…\" or \"{secret:NAME}\""
        );
        assert!(
            refused(r#"{"url":"x","colour":1}"#)
                .starts_with("unknown field `colour`, expected one of")
        );
        assert!(refused(r#"{"url":"x","severity":"bad"}"#).starts_with("unknown variant `bad`"));
        assert_eq!(
            refused(r#"{"url":"x","template":"{task}"}"#),
            "`template` is for `format = \"slack\"` only"
        );
        assert!(
            refused(r#"{"url":"x","format":"slack","template":"{who}"}"#)
                .starts_with("`{who}` is no place")
        );
        assert!(refused(r#"{"url":"x","ends-after":0}"#).contains("from 1 to 1000"));
    }
}
