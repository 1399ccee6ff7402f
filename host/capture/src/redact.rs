//! Replaces secrets in arguments, variables and paths by `[redacted]` before anything is kept.
//!
//! Three ways find them: names (`--password=x`, `--api-key x`, `TOKEN=x`; see `secret_name.rs`), forms that name
//! themselves (`ghp_…`, `Bearer …`, `scheme://user:secret@host`; the table below), and the patterns of the settings.

mod paths;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use model::Redaction;
use regex::Regex;

use crate::secret_name;

const REPLACEMENT: &str = "[redacted]";

/// Name and form; where a form has a group, only what it holds is the secret.
const FORMS: [(&str, &str); 20] = [
    (
        "private-key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    ),
    (
        "url-password",
        r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:([^/\s]+)@",
    ),
    (
        "url-signature",
        r"(?i)[?&](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)=([^&\s]+)",
    ),
    (
        "authorization",
        r"(?i)\bauthorization['\x22]?\s*[:=]\s*['\x22]?(?:[a-z]+\s+)?([^\s'\x22]+)",
    ),
    ("bearer", r"(?i)\bbearer\s+([A-Za-z0-9._~+/-]{8,}=*)"),
    (
        "jwt",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
    ),
    ("aws-access-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("github-token", r"\bgh[pousr]_[A-Za-z0-9]{16,}"),
    ("github-token", r"\bgithub_pat_[A-Za-z0-9_]{16,}"),
    ("gitlab-token", r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}"),
    (
        "slack-webhook",
        r"hooks\.slack\.com/services/([A-Za-z0-9/_-]+)",
    ),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{16,}"),
    (
        "api-key",
        r"\bsk-(?:ant|proj|or|svcacct|admin|lf)-[A-Za-z0-9_-]{16,}",
    ),
    ("api-key", r"\bsk-[A-Za-z0-9]{20,}"),
    ("stripe-key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("pypi-token", r"\bpypi-[A-Za-z0-9_-]{16,}"),
    (
        "azure-key",
        r"(?i)\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/=]{16,})",
    ),
];

static BUILT_IN: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compile = |(name, form)| (name, regex(form));
    FORMS.map(compile).into()
});

/// `name=value`, `"name": "value"` anywhere in a text.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)['\x22]?\s*[:=]\s*",
        r"(?:\x22(?P<double>[^\x22]*)\x22|'(?P<single>[^']*)'|(?P<bare>[^\s;&|,'\x22}\])]+))"
    ))
});

/// `--name value` in a text of several words.
static OPTION: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?:^|\s)--?(?P<name>[A-Za-z][A-Za-z0-9_.-]*)\s+",
        r"(?:\x22(?P<double>[^\x22]*)\x22|'(?P<single>[^']*)'|(?P<bare>[^\s;&|'\x22-][^\s;&|'\x22]*))"
    ))
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the built-in patterns are valid")
}

/// Redacts with the built-in patterns and those of the settings.
pub(crate) struct Redactor<'a> {
    added: &'a [Regex],
    /// Texts in which nothing was found: the processes of a task have most of theirs in common.
    clean: RefCell<HashSet<String>>,
}

impl<'a> Redactor<'a> {
    /// Returns one that also replaces what `added` match: their first group, or the whole match without one.
    pub(crate) fn new(added: &'a [Regex]) -> Self {
        Self {
            added,
            clean: RefCell::default(),
        }
    }

    /// Redacts `arguments` in place and returns what was replaced.
    pub(crate) fn arguments(&self, arguments: &mut [String]) -> Vec<Redaction> {
        let mut redactions = Vec::new();
        for index in 0..arguments.len() {
            let mut found = Vec::new();
            let is_script = index > 0 && is_shell_script_flag(&arguments[index - 1]);
            let next_is_secret = names_next(arguments, index);
            let argument = &mut arguments[index];
            if !is_script {
                replace_whole_value(argument, &mut found);
            }
            self.text(argument, &mut found);
            record(&mut redactions, &format!("cmdline/{index}"), found);
            if let Some(pattern) = next_is_secret {
                REPLACEMENT.clone_into(&mut arguments[index + 1]);
                record(
                    &mut redactions,
                    &format!("cmdline/{}", index + 1),
                    vec![pattern.to_owned()],
                );
            }
        }
        redactions
    }

    /// Redacts the values of `variables` in place and returns what was replaced.
    pub(crate) fn variables(&self, variables: &mut BTreeMap<String, String>) -> Vec<Redaction> {
        let mut redactions = Vec::new();
        for (name, value) in variables {
            let mut found = Vec::new();
            match secret_name::of_variable(name) {
                Some(pattern) if !value.is_empty() => {
                    REPLACEMENT.clone_into(value);
                    found.push(pattern.to_owned());
                }
                _ => self.text(value, &mut found),
            }
            record(
                &mut redactions,
                &format!("distributed_environment/{name}"),
                found,
            );
        }
        redactions
    }

    /// Secrets anywhere in a text.
    fn text(&self, text: &mut String, found: &mut Vec<String>) {
        if self.clean.borrow().contains(text) {
            return;
        }
        let before = found.len();
        self.replace(text, found);
        if found.len() == before {
            self.clean.borrow_mut().insert(text.clone());
        }
    }

    fn replace(&self, text: &mut String, found: &mut Vec<String>) {
        replace_named(&ASSIGNMENT, text, found);
        if text.contains(char::is_whitespace) {
            replace_named(&OPTION, text, found);
        }
        for (name, form) in BUILT_IN.iter() {
            replace(form, text, name, found);
        }
        for (index, form) in self.added.iter().enumerate() {
            replace(form, text, &format!("setting-{index}"), found);
        }
    }
}

/// `--password=with blanks`: as an argument of its own the value reaches to the end.
fn replace_whole_value(argument: &mut String, found: &mut Vec<String>) {
    let Some((name, value)) = argument.split_once('=') else {
        return;
    };
    let is_name = |character: char| character.is_alphanumeric() || "_-.+/@".contains(character);
    if !name.chars().all(is_name) || is_redacted(value) {
        return;
    }
    if let Some(pattern) = secret_name::of_option(name, value) {
        *argument = format!("{name}={REPLACEMENT}");
        found.push(pattern.to_owned());
    }
}

/// `--api-key x`: the secret is the next argument.
fn names_next(arguments: &[String], index: usize) -> Option<&'static str> {
    let name = arguments[index].strip_prefix('-')?;
    let next = arguments.get(index + 1)?;
    let is_name = !name.contains(|character: char| character == '=' || character.is_whitespace());
    if !is_name || next.starts_with('-') || is_redacted(next) {
        return None;
    }
    secret_name::of_option(name, next)
}

/// `-c`, `-lc` and the like, after which a whole script is one argument.
fn is_shell_script_flag(argument: &str) -> bool {
    argument.len() <= 5
        && argument.starts_with('-')
        && !argument.starts_with("--")
        && argument.ends_with('c')
}

/// Whether `value` was replaced before; a form may end it before the bracket.
fn is_redacted(value: &str) -> bool {
    value.starts_with("[redacted")
}

fn record(redactions: &mut Vec<Redaction>, place: &str, mut found: Vec<String>) {
    found.sort();
    found.dedup();
    redactions.extend(found.into_iter().map(|pattern| Redaction {
        pattern,
        place: place.to_owned(),
    }));
}

fn replace_named(form: &Regex, text: &mut String, found: &mut Vec<String>) {
    let mut changed = String::new();
    let mut copied = 0;
    let mut start = 0;
    // Not `captures_iter`: the value of an innocent name may itself be the name of a secret (`a=token=x`).
    while let Some(captures) = form.captures_at(text, start) {
        let value = ["double", "single", "bare"]
            .iter()
            .find_map(|group| captures.name(group));
        let (Some(name), Some(value)) = (captures.name("name"), value) else {
            break;
        };
        start = name.end();
        if is_redacted(value.as_str()) {
            continue;
        }
        if let Some(pattern) = secret_name::of_option(name.as_str(), value.as_str()) {
            changed.push_str(&text[copied..value.start()]);
            changed.push_str(REPLACEMENT);
            copied = value.end();
            start = value.end();
            found.push(pattern.to_owned());
        }
    }
    if copied > 0 {
        changed.push_str(&text[copied..]);
        *text = changed;
    }
}

fn replace(form: &Regex, text: &mut String, pattern: &str, found: &mut Vec<String>) {
    let mut changed = String::new();
    let mut copied = 0;
    for captures in form.captures_iter(text) {
        let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else {
            continue;
        };
        if secret.is_empty() || is_redacted(secret.as_str()) {
            continue;
        }
        changed.push_str(&text[copied..secret.start()]);
        changed.push_str(REPLACEMENT);
        copied = secret.end();
        found.push(pattern.to_owned());
    }
    if copied > 0 {
        changed.push_str(&text[copied..]);
        *text = changed;
    }
}

#[cfg(test)]
mod tests;
