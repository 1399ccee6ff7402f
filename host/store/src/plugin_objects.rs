//! Objects of plugins beside the snapshots of an attempt: `<task path>/attempt-<n>/plugins/<instance>/<path>`. They are
//! the plugins' own: written whole, replaced, deleted, and in no index.

use model::Task;

use crate::object::Seen;
use crate::{Store, StoreError};

/// The folder of one plugin in one attempt.
#[derive(Clone, Debug)]
pub struct PluginObjects {
    folder: String,
    store: Store,
}

impl PluginObjects {
    /// Returns the folder of the plugin `instance` in the attempt of `task`.
    pub fn new(store: Store, task: &Task, instance: &str) -> Self {
        let folder = format!(
            "{}/attempt-{}/plugins/{instance}/",
            task.pathspec, task.attempt
        );
        Self { folder, store }
    }

    /// Writes an object whole, whatever was there.
    pub async fn put(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.store.replace(&self.key(path)?, bytes).await
    }

    /// Returns the content of an object; nothing where there is none.
    pub async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.store.fetch(&self.key(path)?).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::NotFound { .. } | StoreError::NoStore { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the size of an object, bytes; nothing where there is none.
    pub async fn size(&self, path: &str) -> Result<Option<u64>, StoreError> {
        match self.store.look(&self.key(path)?).await? {
            Seen::As { size_bytes, .. } => Ok(Some(size_bytes)),
            Seen::Absent | Seen::Unknown => Ok(None),
        }
    }

    /// Lists the paths of the objects in a folder and below it, sorted; "" for all. Of more than `limit` the rest is left
    /// out.
    pub async fn list(&self, folder: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        let begin = if folder.is_empty() {
            String::new()
        } else {
            self.key(folder).map(|_| format!("{folder}/"))?
        };
        let mut folders = vec![begin];
        while let Some(folder) = folders.pop() {
            let listing = match self.store.list(&format!("{}{folder}", self.folder)).await {
                Ok(listing) => listing,
                Err(StoreError::NoStore { .. }) => break,
                Err(error) => return Err(error),
            };
            found.extend(listing.files.iter().map(|name| format!("{folder}{name}")));
            folders.extend(
                listing
                    .folders
                    .iter()
                    .map(|name| format!("{folder}{name}/")),
            );
            if found.len() > limit {
                break;
            }
        }
        found.sort();
        found.truncate(limit);
        Ok(found)
    }

    /// Deletes an object; one that is not there is fine.
    pub async fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.store.delete(&self.key(path)?).await
    }

    /// The key of `path`. Whoever hands it on has checked it; what leads out of the folder is refused here once more.
    fn key(&self, path: &str) -> Result<String, StoreError> {
        let key = format!("{}{path}", self.folder);
        let is_inside =
            |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['\\', '\0']);
        if path.split('/').all(is_inside) {
            return Ok(key);
        }
        Err(StoreError::Location {
            text: key,
            reason: "a path of a plugin leads out of its folder".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[tokio::test]
    async fn objects_of_a_plugin_are_its_own() {
        let store = Store::memory();
        let mine = PluginObjects::new(store.clone(), &sample::task(), "mine");
        let other = PluginObjects::new(store.clone(), &sample::task(), "other");
        assert_eq!(mine.get("a").await.unwrap(), None);
        assert_eq!(mine.list("", 9).await.unwrap(), [""; 0]);
        for path in ["a", "b/c", "b/d/e"] {
            mine.put(path, path.as_bytes()).await.unwrap();
        }
        mine.put("a", b"again").await.unwrap();
        other.put("a", b"x").await.unwrap();
        assert_eq!(mine.get("a").await.unwrap().unwrap(), b"again");
        assert_eq!(
            (mine.size("a").await.unwrap(), mine.size("b").await.unwrap()),
            (Some(5), None)
        );
        assert_eq!(mine.list("", 9).await.unwrap(), ["a", "b/c", "b/d/e"]);
        assert_eq!(mine.list("b", 9).await.unwrap(), ["b/c", "b/d/e"]);
        assert_eq!(mine.list("", 2).await.unwrap().len(), 2);
        mine.delete("a").await.unwrap();
        mine.delete("a").await.unwrap();
        assert_eq!(mine.list("", 9).await.unwrap(), ["b/c", "b/d/e"]);
        assert_eq!(other.get("a").await.unwrap().unwrap(), b"x");
        let task = sample::task();
        let key = format!(
            "{}/attempt-{}/plugins/mine/b/c",
            task.pathspec, task.attempt
        );
        assert_eq!(store.fetch(&key).await.unwrap(), b"b/c");
    }

    #[tokio::test]
    async fn no_path_leads_out_of_the_folder() {
        let mine = PluginObjects::new(Store::memory(), &sample::task(), "mine");
        for path in ["", "..", "../other/a", "a//b", "/a", "a/", ".hidden"] {
            assert!(mine.put(path, b"").await.is_err(), "{path}");
        }
    }
}
