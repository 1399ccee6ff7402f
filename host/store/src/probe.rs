//! Tries whether a store can be written and read, with one small object that is gone afterwards.

use crate::{Store, StoreError};

/// Names that begin with `.` are never listed.
const PREFIX: &str = ".probe-";
const CONTENT: &[u8] = b"taskscope tried to write here\n";

impl Store {
    /// Writes, reads and deletes one object. A directory that does not exist is made, as the first snapshot would make it.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let key = format!("{PREFIX}{}", std::process::id());
        self.replace(&key, CONTENT).await?;
        let read = self.fetch(&key).await;
        self.delete(&key).await?;
        if read? != CONTENT {
            return Err(StoreError::Conflict {
                key,
                location: self.location().to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Location;

    #[tokio::test]
    async fn a_probe_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::parse("made/later", directory.path()).unwrap();
        Store::open(&location).unwrap().probe().await.unwrap();
        let left = std::fs::read_dir(directory.path().join("made/later")).unwrap();
        let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
        assert!(
            !left
                .iter()
                .any(|name| name.to_string_lossy().starts_with(PREFIX))
        );
        Store::memory().probe().await.unwrap();
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_written_says_so() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let location = Location::parse("file/below", directory.path()).unwrap();
        assert!(Store::open(&location).unwrap().probe().await.is_err());
    }
}
