//! Whether a plugin was granted what it says it cannot work without. The same for all worlds.

use crate::entry::{Description, Entry};
use crate::sink::Outside;

/// Refuses a plugin that lacks a permission which it `requires`; `outside` is what a sink may do there. Something that is
/// granted under the same name is enough: which host or variable it is, is between the plugin and the settings. So is one of
/// several with ` or ` between them.
pub(crate) fn check(
    said: &Description,
    entry: &Entry,
    outside: Option<&Outside>,
) -> Result<(), String> {
    let grants = |one: &str| match one.split(['=', ' ']).next().unwrap_or_default() {
        "environment" => !entry.environment.is_empty(),
        name => outside.is_some_and(|outside| outside.grants(name)),
    };
    let missing = |required: &&String| !alternatives(required).any(grants);
    let Some(required) = said.requires.iter().find(missing) else {
        return Ok(());
    };
    let of_all = |one: &str| one.starts_with("environment");
    let is_of_sinks = outside.is_none() && !alternatives(required).any(of_all);
    Err(format!(
        "it cannot work without the permission `{required}`{}",
        if is_of_sinks {
            ", which only a sink can be given"
        } else {
            ""
        }
    ))
}

/// The permissions of which a plugin needs one.
fn alternatives(required: &str) -> impl Iterator<Item = &str> {
    required.split(" or ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entry::ComponentSource;
    use crate::sink::SinkGrants;

    fn checked(required: &str, environment: &[&str], grants: Option<SinkGrants>) -> Option<String> {
        let entry = Entry {
            component: ComponentSource::Builtin("x".to_owned()),
            config_json: "{}".to_owned(),
            deadline: Duration::from_secs(1),
            environment: environment.iter().map(|&name| name.to_owned()).collect(),
            instance: "x".to_owned(),
            memory_bytes: 1,
            sha256: None,
        };
        let said = Description {
            config_schema: None,
            name: "x".to_owned(),
            needs: Vec::new(),
            requires: vec![required.to_owned()],
            summary: String::new(),
            version: "1".to_owned(),
        };
        let outside = grants.map(Outside::new);
        check(&said, &entry, outside.as_ref()).err()
    }

    #[test]
    fn any_variable_is_enough_of_the_environment_and_none_is_refused() {
        let ranks = "environment = [\"RANK\"]";
        assert_eq!(checked(ranks, &["SLURM_*"], None), None);
        let refused = format!("it cannot work without the permission `{ranks}`");
        assert_eq!(checked(ranks, &[], None), Some(refused));
    }

    #[test]
    fn one_of_several_is_enough() {
        let either = "storage = true or http = [\"https://a.example\"]";
        let of = |storage: bool| SinkGrants {
            storage: storage.then(|| crate::sink::Storage::new().0),
            ..SinkGrants::default()
        };
        assert_eq!(checked(either, &[], Some(of(true))), None);
        let refused = format!("it cannot work without the permission `{either}`");
        assert_eq!(checked(either, &[], Some(of(false))), Some(refused));
        // Of what an enricher can be given one is enough as well, and that can be given to it.
        let mixed = "storage = true or environment = [\"RANK\"]";
        assert_eq!(checked(mixed, &["RANK"], None), None);
        let reason = checked(mixed, &[], None).unwrap();
        assert!(!reason.contains("only a sink"), "{reason}");
    }

    #[test]
    fn an_enricher_has_nothing_outside_and_a_sink_what_is_granted() {
        let http = "http = [\"https://a.example\"]";
        let reason = checked(http, &["*"], None).unwrap();
        assert!(
            reason.ends_with("`, which only a sink can be given"),
            "{reason}"
        );
        let none = SinkGrants::default();
        assert!(checked(http, &["*"], Some(none.clone())).is_some());
        let granted = SinkGrants {
            http: vec!["https://b.example".parse().unwrap()],
            ..none
        };
        assert_eq!(checked(http, &[], Some(granted.clone())), None);
        for other in ["storage = true", "secrets", "dirs", "sockets", ""] {
            assert!(
                checked(other, &["*"], Some(granted.clone())).is_some(),
                "{other}"
            );
        }
    }
}
