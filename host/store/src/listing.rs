//! The objects of a folder from a name on, in the order of their names as the service gives them.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use opendal::EntryMode;

use crate::open::is_missing;
use crate::{Store, StoreError};

/// An object of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// Its name within the folder.
    pub(crate) name: String,
    /// Its size, where the listing tells.
    pub(crate) size_bytes: Option<u64>,
}

impl Store {
    /// Returns the objects of `folder`, which ends with `/`, whose names come after `after`. Names that begin with `.` are
    /// reserved and left out; a folder that does not exist is empty. A service that can begin in the middle is asked to,
    /// so that the request costs what is new and not what is old.
    pub(crate) async fn objects_after(
        &self,
        folder: &str,
        after: Option<&str>,
    ) -> Result<Vec<Object>, StoreError> {
        let operator = self.reading().await?;
        let can_begin = operator.info().capability().list_with_start_after;
        let start = after
            .filter(|_| can_begin)
            .map(|name| format!("{folder}{name}"));
        let listing = match &start {
            Some(start) => operator.lister_with(folder).start_after(start).await,
            None => operator.lister(folder).await,
        };
        let mut lister = match listing {
            Ok(lister) => lister,
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(self.access("list", folder, &error)),
        };
        let mut objects = Vec::new();
        while let Some(entry) = poll_fn(|context| Pin::new(&mut lister).poll_next(context)).await {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if is_missing(&error) => break,
                Err(error) => return Err(self.access("list", folder, &error)),
            };
            let name = entry.path().strip_prefix(folder).unwrap_or_default();
            let is_ours = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
            if is_ours && entry.metadata().mode() == EntryMode::FILE && Some(name) > after {
                let size_bytes = entry.metadata().content_length();
                objects.push(Object {
                    name: name.to_owned(),
                    size_bytes: (size_bytes > 0).then_some(size_bytes),
                });
            }
        }
        Ok(objects)
    }

    /// Returns the size of `key`.
    pub(crate) async fn size(&self, key: &str) -> Result<u64, StoreError> {
        match self.look(key).await? {
            crate::object::Seen::As { size_bytes, .. } => Ok(size_bytes),
            _ => Err(self.missing(key)),
        }
    }
}
