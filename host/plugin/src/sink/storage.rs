//! Objects of a sink's own, by way of whoever knows the store. This crate does not: requests go through a channel, and
//! the plugin's call waits no longer than its deadline for the answer.

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for the store.
const WAITING: usize = 4;
/// Bytes of a path.
const PATH_BYTES: usize = 1024;
/// Bytes of a name in it.
const NAME_BYTES: usize = 255;
/// Names in it.
const NAMES: usize = 8;

/// Where requests for objects go.
#[derive(Clone, Debug)]
pub struct Storage(pub(crate) mpsc::Sender<StorageRequest>);

/// What is asked of the store. Paths are relative, with `/` between names of letters, digits, `-`, `_` and `.`; none
/// begins with `.`.
#[derive(Debug)]
pub enum StorageRequest {
    /// Write an object whole, whatever was there.
    Put {
        /// The sink.
        instance: String,
        /// Where.
        path: String,
        /// What.
        bytes: Bytes,
        /// Takes the answer.
        reply: Reply<()>,
    },
    /// Read an object; nothing where there is none.
    Get {
        /// The sink.
        instance: String,
        /// Where.
        path: String,
        /// How large it may be, bytes.
        limit_bytes: u64,
        /// Takes the answer.
        reply: Reply<Option<Vec<u8>>>,
    },
    /// List the objects in a folder and below it, sorted.
    List {
        /// The sink.
        instance: String,
        /// The folder; empty for all.
        folder: String,
        /// How many there may be.
        limit: usize,
        /// Takes the answer.
        reply: Reply<Vec<String>>,
    },
    /// Delete an object; one that is not there is fine.
    Delete {
        /// The sink.
        instance: String,
        /// Where.
        path: String,
        /// Takes the answer.
        reply: Reply<()>,
    },
}

/// Takes the answer to a request; who asked may have gone away.
pub type Reply<T> = oneshot::Sender<Result<T, StorageError>>;

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// It may do it another time.
    #[error("{0}")]
    Unavailable(String),
    /// There is more than was asked for.
    #[error("{0}")]
    OverLimit(String),
}

impl Storage {
    /// Returns a way to the store, and its other end.
    pub fn new() -> (Self, mpsc::Receiver<StorageRequest>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }
}

/// Returns `path` where it is one; with `or_nothing` the empty one as well.
pub(crate) fn checked_path(path: String, or_nothing: bool) -> Result<String, String> {
    let is_name = |name: &str| {
        (1..=NAME_BYTES).contains(&name.len())
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let is_path = path.len() <= PATH_BYTES
        && path.split('/').count() <= NAMES
        && path.split('/').all(is_name);
    if is_path || (or_nothing && path.is_empty()) {
        return Ok(path);
    }
    let shown = crate::text::one_line(&path, NAME_BYTES);
    Err(format!(
        "`{shown}` is no path; it has {NAMES} names at most, each of letters, digits, `-`, `_` and `.`, none of which begins with `.`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let fine = [
            "a",
            "report.json",
            "2026/11-30/a_b.json.gz",
            "a/b/c/d/e/f/g/h",
        ];
        for path in fine {
            assert_eq!(checked_path(path.to_owned(), false), Ok(path.to_owned()));
        }
        let long = ["x".repeat(256), format!("{}b", "a/".repeat(8))];
        let escapes = [
            "",
            "/",
            "/etc/passwd",
            "..",
            "a/../b",
            "../../other/x",
            "a//b",
            "a/",
            "./a",
            ".hidden",
            "a/.b",
            "a\\b",
            "a\0b",
            "a b",
            "a\n",
            "ä",
            "%2e%2e/a",
            "~",
            "C:a",
        ];
        for path in escapes
            .iter()
            .copied()
            .chain(long.iter().map(String::as_str))
        {
            assert!(checked_path(path.to_owned(), false).is_err(), "{path:?}");
        }
        assert_eq!(checked_path(String::new(), true), Ok(String::new()));
        assert!(checked_path("..".to_owned(), true).is_err());
    }
}
