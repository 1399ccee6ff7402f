//! The rule, without any WebAssembly: settings and processes in, tags out.

use std::collections::BTreeMap;
use std::rc::Rc;

use regex_lite::Regex;
use serde::Deserialize;

/// The tag of processes that `process-pattern` of `[capture]` matches.
const PATTERN_TAG: &str = "process-pattern";

/// The longest tag, bytes.
const LONGEST_TAG: usize = 64;

/// What the rules look at.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Facts {
    /// The arguments, joined by spaces.
    pub(crate) command: String,
    /// The path of the executable; empty where it is not known.
    pub(crate) exe: String,
    /// Whether `process-pattern` of `[capture]` matches, which taskscope has found out already.
    pub(crate) matches_pattern: bool,
    /// The kernel's name of the process.
    pub(crate) name: String,
}

/// The rules in force, in the order of the settings.
#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

/// The tags of the processes of one snapshot, by what the rules look at: most processes are in the next one as well, as they
/// were, and many have the same command line. So each is matched once.
#[derive(Debug, Default)]
pub(crate) struct Tagged(BTreeMap<Facts, Rc<[String]>>);

impl Tagged {
    /// Returns the tags of a process, as [`Rules::tags`] tells them; `before` are those of the snapshot before.
    pub(crate) fn tags(&mut self, facts: Facts, rules: &Rules, before: &Self) -> Rc<[String]> {
        if let Some(tags) = self.0.get(&facts) {
            return Rc::clone(tags);
        }
        let judge = || rules.tags(&facts).into_iter().map(str::to_owned).collect();
        let tags = before.0.get(&facts).map_or_else(judge, Rc::clone);
        self.0.insert(facts, Rc::clone(&tags));
        tags
    }
}

#[derive(Debug)]
struct Rule {
    tag: String,
    command: Option<Regex>,
    exe: Option<Regex>,
    name: Option<Regex>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    rules: Vec<RuleSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSettings {
    tag: String,
    command: Option<String>,
    exe: Option<String>,
    name: Option<String>,
}

impl Rules {
    /// Reads settings, JSON text. The error names the rule and the field.
    pub(crate) fn parse(config: &str) -> Result<Self, String> {
        let settings: Settings = serde_json::from_str(config)
            .map_err(|error| format!("the settings do not fit: {error}"))?;
        let mut rules = Vec::new();
        for (index, rule) in settings.rules.into_iter().enumerate() {
            rules.push(Rule::of(index, rule)?);
        }
        Ok(Self(rules))
    }

    /// Returns the tags of a process, each once: that of the pattern, then those of the rules in their order.
    pub(crate) fn tags(&self, facts: &Facts) -> Vec<&str> {
        let mut tags: Vec<&str> = Vec::new();
        if facts.matches_pattern {
            tags.push(PATTERN_TAG);
        }
        for rule in self.0.iter().filter(|rule| rule.matches(facts)) {
            if !tags.contains(&rule.tag.as_str()) {
                tags.push(&rule.tag);
            }
        }
        tags
    }
}

impl Rule {
    fn of(index: usize, settings: RuleSettings) -> Result<Self, String> {
        let RuleSettings {
            tag,
            command,
            exe,
            name,
        } = settings;
        let place = |field: &str| format!("rules[{index}].{field}");
        if tag.is_empty() || tag.len() > LONGEST_TAG {
            let length = tag.len();
            return Err(format!(
                "{}: {length} bytes; give 1 to {LONGEST_TAG}",
                place("tag")
            ));
        }
        if command.is_none() && exe.is_none() && name.is_none() {
            return Err(format!(
                "rules[{index}] (`{tag}`) would match everything; give `command`, `exe` or `name` a regular expression"
            ));
        }
        let compile = |field: &str, pattern: Option<String>| {
            pattern
                .map(|pattern| compile(&place(field), &pattern))
                .transpose()
        };
        Ok(Self {
            command: compile("command", command)?,
            exe: compile("exe", exe)?,
            name: compile("name", name)?,
            tag,
        })
    }

    /// Whether every expression that it has is found.
    fn matches(&self, facts: &Facts) -> bool {
        let finds = |pattern: &Option<Regex>, text: &str| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(text))
        };
        finds(&self.command, &facts.command)
            && finds(&self.exe, &facts.exe)
            && finds(&self.name, &facts.name)
    }
}

fn compile(place: &str, pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern)
        .map_err(|error| format!("{place}: `{pattern}` is no regular expression: {error}"))
}

#[cfg(test)]
mod tests;
