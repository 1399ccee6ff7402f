//! Values that a plugin may use and not see: it writes `{secret:NAME}`, the host fills it in on the way out, and puts
//! the place back wherever the value comes back.

use std::collections::BTreeMap;

use reqwest::Url;

use super::Secret;

const OPEN: &str = "{secret:";
/// A path that is no longer than this keeps no secret by itself, and may stand in any text.
const SHORT_PATH: usize = 8;

/// What is granted to one sink.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    granted: BTreeMap<String, Option<Secret>>,
    /// What is put in whose stead in everything that comes back, longest first.
    hidden: Vec<(Vec<u8>, String)>,
}

/// Why a template cannot be filled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FillError {
    #[error("the secret `{0}` is not granted; `secrets = [\"{0}\"]` in its permissions would")]
    NotGranted(String),
    #[error(
        "the secret `{0}` is granted, but taskscope has no such environment variable, or an empty one"
    )]
    Unset(String),
    #[error("a place `{OPEN}` is not closed by `}}`")]
    Open,
    #[error(
        "a secret stands where the host of a URL does; it may stand behind the host, or be the whole URL"
    )]
    InHost,
}

impl Secrets {
    pub(crate) fn new(granted: BTreeMap<String, Option<Secret>>) -> Self {
        let mut hidden: Vec<(Vec<u8>, String)> = Vec::new();
        for (name, secret) in &granted {
            for form in secret.iter().flat_map(|secret| forms(secret.expose())) {
                hidden.push((form.into_bytes(), place(name)));
            }
        }
        hidden.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        hidden.dedup();
        Self { granted, hidden }
    }

    /// Tells whether any name is granted.
    pub(crate) fn is_empty(&self) -> bool {
        self.granted.is_empty()
    }

    /// Fills the places of `template`.
    pub(crate) fn fill(&self, template: &str) -> Result<String, FillError> {
        let mut filled = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(OPEN) {
            filled.push_str(&rest[..at]);
            let (name, behind) = rest[at + OPEN.len()..]
                .split_once('}')
                .ok_or(FillError::Open)?;
            let granted = self.granted.get(name);
            let granted = granted.ok_or_else(|| FillError::NotGranted(name.to_owned()))?;
            let secret = granted
                .as_ref()
                .ok_or_else(|| FillError::Unset(name.to_owned()))?;
            filled.push_str(secret.expose());
            rest = behind;
        }
        Ok(filled + rest)
    }

    /// Fills a URL. A secret may not become part of a host: that would be told to whoever answers for the names there.
    pub(crate) fn fill_url(&self, template: &str) -> Result<String, FillError> {
        if let Some(at) = template.find(OPEN) {
            let before = &template[..at];
            let behind_host = before
                .split_once("://")
                .is_some_and(|(_, rest)| rest.contains(['/', '?', '#']));
            if !behind_host && !is_one_place(template) {
                return Err(FillError::InHost);
            }
        }
        self.fill(template)
    }

    /// Returns `bytes` with each value replaced by its place.
    pub(crate) fn redact(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.hidden.iter().fold(bytes, |bytes, (value, place)| {
            replace(bytes, value, place.as_bytes())
        })
    }

    /// Returns `text` with each value replaced by its place.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        let bytes = self.redact(text.as_bytes().to_vec());
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Tells whether all of `template` is one place.
pub(crate) fn is_one_place(template: &str) -> bool {
    template.starts_with(OPEN) && template.find('}') == Some(template.len() - 1)
}

fn place(name: &str) -> String {
    format!("{OPEN}{name}}}")
}

/// The ways in which a service may write a value that it was sent: as it is, in JSON, and in a URL.
fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    let json = serde_json::to_string(value).unwrap_or_default();
    forms.push(json.trim_matches('"').to_owned());
    if let Ok(mut url) = Url::parse("http://host/") {
        url.set_path(value);
        forms.push(url.path().trim_start_matches('/').to_owned());
        url.set_query(Some(value));
        forms.extend(url.query().map(str::to_owned));
    }
    let encoded = value.bytes().fold(String::new(), |text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text + char::from(byte).encode_utf8(&mut [0; 4])
        } else {
            text + &format!("%{byte:02X}")
        }
    });
    forms.push(encoded);
    // Of a value that is a whole URL, servers write what stands behind the host.
    if let Ok(url) = Url::parse(value)
        && url.path().len() > SHORT_PATH
    {
        forms.push(url.path().to_owned());
    }
    forms.retain(|form| !form.is_empty());
    forms
}

fn replace(bytes: Vec<u8>, value: &[u8], place: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at + value.len() <= bytes.len() {
        if bytes[at..].starts_with(value) {
            replaced.extend_from_slice(&bytes[from..at]);
            replaced.extend_from_slice(place);
            at += value.len();
            from = at;
        } else {
            at += 1;
        }
    }
    if from == 0 {
        return bytes;
    }
    replaced.extend_from_slice(&bytes[from..]);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[(&str, &str)]) -> Secrets {
        let granted = values.iter().map(|&(name, value)| {
            let secret = (!value.is_empty()).then(|| Secret::new(value.to_owned()));
            (name.to_owned(), secret)
        });
        Secrets::new(granted.collect())
    }

    #[test]
    fn places_are_filled_and_what_is_not_granted_or_not_set_is_named() {
        let secrets = secrets(&[("TOKEN", "s3/cret"), ("EMPTY", "")]);
        assert_eq!(
            secrets.fill("Bearer {secret:TOKEN}!").unwrap(),
            "Bearer s3/cret!"
        );
        assert_eq!(secrets.fill("{plain} text").unwrap(), "{plain} text");
        let refused = |template: &str| secrets.fill(template).unwrap_err().to_string();
        assert_eq!(
            refused("{secret:PATH}"),
            "the secret `PATH` is not granted; `secrets = [\"PATH\"]` in its permissions would"
        );
        assert!(refused("{secret:EMPTY}").starts_with("the secret `EMPTY` is granted, but "));
        assert_eq!(
            refused("a {secret:TOKEN"),
            "a place `{secret:` is not closed by `}`"
        );
    }

    #[test]
    fn a_secret_is_never_part_of_a_host() {
        let secrets = secrets(&[("A", "https://hooks.example.com/x"), ("T", "tok")]);
        let filled = |template: &str| secrets.fill_url(template);
        assert_eq!(filled("{secret:A}").unwrap(), "https://hooks.example.com/x");
        assert_eq!(
            filled("https://a.example/{secret:T}").unwrap(),
            "https://a.example/tok"
        );
        assert_eq!(
            filled("https://a.example?t={secret:T}").unwrap(),
            "https://a.example?t=tok"
        );
        for template in [
            "https://{secret:T}.example/",
            "{secret:T}.example/",
            "https://a.example{secret:T}",
            "{secret:A}/{secret:T}",
        ] {
            assert_eq!(filled(template), Err(FillError::InHost), "{template}");
        }
    }

    #[test]
    fn what_comes_back_has_the_place_and_not_the_value() {
        let secrets = secrets(&[("T", "a/b \"c"), ("U", "https://h.example/very/secret")]);
        let told = "a/b \"c|a/b%20%22c|a%2Fb%20%22c|a/b \\\"c|https://h.example/very/secret|GET /very/secret HTTP";
        assert_eq!(
            secrets.redact_text(told),
            "{secret:T}|{secret:T}|{secret:T}|{secret:T}|{secret:U}|GET {secret:U} HTTP"
        );
        assert_eq!(secrets.redact(vec![0xff, 1]), [0xff, 1]);
        assert_eq!(format!("{:?}", Secret::new("x".to_owned())), "Secret");
    }
}
