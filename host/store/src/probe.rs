//! Tries what a store must allow, with one small object that is gone afterwards.

use std::time::Duration;

use crate::{Store, StoreError};

/// Names that begin with `.` are never listed.
const PREFIX: &str = ".probe-";
const CONTENT: &[u8] = b"taskscope tried to write here\n";

/// One operation that a store must allow.
#[derive(Debug)]
pub struct Check {
    /// `write`, `list`, `read` or `delete`.
    pub operation: &'static str,
    /// How it went; `None` where it was not tried, because what comes before it failed.
    pub result: Option<Result<(), StoreError>>,
}

impl Store {
    /// Tries to write, list, read and delete one object, each for `patience` at most. A directory that does not exist is
    /// made, as the first snapshot would make it.
    pub async fn try_operations(&self, patience: Duration) -> Vec<Check> {
        let key = format!("{PREFIX}{}", std::process::id());
        let written = self.within(patience, self.replace(&key, CONTENT)).await;
        let is_written = written.is_ok();
        let listed = async { self.list("").await.map(drop) };
        let listed = self.within(patience, listed).await;
        let (mut read, mut deleted) = (None, None);
        if is_written {
            read = Some(self.within(patience, self.read_back(&key)).await);
            deleted = Some(self.within(patience, self.delete(&key)).await);
        }
        let check = |operation, result| Check { operation, result };
        vec![
            check("write", Some(written)),
            check("list", Some(listed)),
            check("read", read),
            check("delete", deleted),
        ]
    }

    async fn read_back(&self, key: &str) -> Result<(), StoreError> {
        if self.fetch(key).await? == CONTENT {
            return Ok(());
        }
        Err(StoreError::Conflict {
            key: key.to_owned(),
            location: self.location().to_owned(),
        })
    }

    async fn within<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let worked = tokio::time::timeout(patience, work).await;
        worked.unwrap_or_else(|_| {
            Err(StoreError::OutOfTime {
                location: self.location().to_owned(),
                patience,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Location;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn fates(checks: &[Check]) -> Vec<(&str, Option<bool>)> {
        let fate = |check: &Check| check.result.as_ref().map(Result::is_ok);
        let fates = checks.iter().map(|check| (check.operation, fate(check)));
        fates.collect()
    }

    #[tokio::test]
    async fn a_probe_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::parse("made/later", directory.path()).unwrap();
        let all_well = ["write", "list", "read", "delete"].map(|operation| (operation, Some(true)));
        let store = Store::open(&location).unwrap();
        assert_eq!(fates(&store.try_operations(PATIENCE).await), all_well);
        let left = std::fs::read_dir(directory.path().join("made/later")).unwrap();
        let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
        assert!(
            !left
                .iter()
                .any(|name| name.to_string_lossy().starts_with(PREFIX))
        );
        assert_eq!(
            fates(&Store::memory().try_operations(PATIENCE).await),
            all_well
        );
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_written_says_so() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let location = Location::parse("file/below", directory.path()).unwrap();
        let checks = Store::open(&location)
            .unwrap()
            .try_operations(PATIENCE)
            .await;
        assert_eq!(checks.len(), 4);
        let error = checks[0].result.as_ref().unwrap().as_ref().unwrap_err();
        assert!(error.remedy().is_some(), "{error:?}");
        assert!(checks[2].result.is_none());
    }
}
