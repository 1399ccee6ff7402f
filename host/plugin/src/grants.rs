//! What a plugin may see of the environment of watched processes. Every way to it goes through here.

use std::collections::BTreeMap;

/// Names of environment variables; a trailing `*` makes a prefix. Nothing is granted by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants(Vec<String>);

impl Grants {
    pub(crate) fn new(environment: Vec<String>) -> Self {
        Self(environment)
    }

    /// Whether the variable `name` may be seen.
    pub(crate) fn allow(&self, name: &str) -> bool {
        self.0.iter().any(|grant| match grant.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => grant == name,
        })
    }

    /// Takes from `environment` what may not be seen.
    pub(crate) fn filter(&self, environment: &mut BTreeMap<String, String>) {
        environment.retain(|name, _| self.allow(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_and_prefixes_are_allowed() {
        let grants = Grants::new(vec!["RANK".to_owned(), "NCCL_*".to_owned()]);
        let allowed = ["RANK", "RANKS", "LOCAL_RANK", "NCCL_DEBUG", "NCCL", "rank"]
            .map(|name| grants.allow(name));
        assert_eq!(allowed, [true, false, false, true, false, false]);
        assert!(!Grants::default().allow(""));
    }
}
