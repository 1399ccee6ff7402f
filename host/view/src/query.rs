//! What a request asks for, in the query of its address.

use std::str::FromStr;

use diagnose::RankSet;
use model::{ProcessId, TaskPath, Timestamp};
use store::At;

use crate::answer::Trouble;

/// The known parameters; all of them may be absent, and one that is not understood is an error by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query {
    /// The ranks that `ranks` are compared with; all others where it is absent.
    pub(crate) against: Option<RankSet>,
    /// As of when.
    pub(crate) at: At,
    pub(crate) attempt: Option<u32>,
    /// The beginning of a part of the time.
    pub(crate) from: Option<Timestamp>,
    pub(crate) node: Option<String>,
    /// An RFC 6901 pointer into a snapshot.
    pub(crate) pointer: Option<String>,
    pub(crate) process: Option<ProcessId>,
    /// Ranks whose stacks are compared with those of others at the same instant.
    pub(crate) ranks: Option<RankSet>,
    /// A record beside the snapshots that a pointer leads into instead, as `obituaries/…`.
    pub(crate) record: Option<String>,
    pub(crate) task: Option<TaskPath>,
    /// The end of a part of the time.
    pub(crate) to: Option<Timestamp>,
    /// The instant that is compared with.
    pub(crate) with: Option<At>,
}

impl Query {
    /// Parses the query of an address. Parameters that are not known are left alone, those of a later page among them.
    pub(crate) fn parse(text: &str) -> Result<Self, Trouble> {
        let mut query = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match name.as_ref() {
                "against" if !value.is_empty() => query.against = Some(ranks(&name, &value)?),
                "at" => query.at = value.parse().map_err(Trouble::usage)?,
                "attempt" => query.attempt = Some(parsed(&name, &value, "a number from 0 on")?),
                "from" => query.from = Some(time(&name, &value)?),
                "node" => query.node = Some(value.into_owned()),
                "pointer" => query.pointer = Some(value.into_owned()),
                "process" => query.process = Some(parsed(&name, &value, "PID:START")?),
                "ranks" if !value.is_empty() => query.ranks = Some(ranks(&name, &value)?),
                "record" => query.record = Some(value.into_owned()),
                "task" => {
                    query.task = Some(parsed(&name, &value, "a path such as flow/run/step/task")?);
                }
                "to" => query.to = Some(time(&name, &value)?),
                "with" if !value.is_empty() => {
                    query.with = Some(value.parse().map_err(Trouble::usage)?);
                }
                _ => {}
            }
        }
        Ok(query)
    }
}

fn parsed<T: FromStr>(name: &str, value: &str, form: &str) -> Result<T, Trouble> {
    value
        .parse()
        .map_err(|_| Trouble::usage(format!("`{name}` is `{value}`, which is not {form}")))
}

fn ranks(name: &str, value: &str) -> Result<RankSet, Trouble> {
    parsed(name, value, "a set of ranks such as 0-2,5")
}

fn time(name: &str, value: &str) -> Result<Timestamp, Trouble> {
    Timestamp::parse(value).ok_or_else(|| {
        Trouble::usage(format!(
            "`{name}` is `{value}`, which is no UTC time such as 2026-11-29T14:41:00Z"
        ))
    })
}

/// Returns `pairs` as a query, escaped.
pub(crate) fn written<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        query.append_pair(name, &value);
    }
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_what_is_wrong_is_named() {
        let text = written([
            ("task", "Flow/17/train/3".to_owned()),
            ("attempt", "2".to_owned()),
            ("node", "a b&c".to_owned()),
            ("at", "2026-11-29T14:41:00Z".to_owned()),
            ("later", "x".to_owned()),
        ]);
        let query = Query::parse(&text).unwrap();
        assert_eq!(query.task.unwrap().as_str(), "Flow/17/train/3");
        assert_eq!(query.node.as_deref(), Some("a b&c"));
        assert!(matches!(query.at, At::Time(_)));
        for (text, name) in [
            ("attempt=-1", "attempt"),
            ("attempt=99999999999", "attempt"),
            ("at=%00", "latest"),
            ("task=..%2F..%2Fetc", "task"),
            ("process=4", "process"),
            ("from=yesterday", "from"),
            ("ranks=two", "ranks"),
            ("against=2-", "against"),
        ] {
            let trouble = Query::parse(text).unwrap_err();
            assert!(trouble.error.contains(name), "{text}: {}", trouble.error);
        }
        assert_eq!(Query::parse("&&=&%ff=%zz"), Ok(Query::default()));
    }
}
