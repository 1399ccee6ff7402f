//! `storage`: objects of a sink, by way of the channel in `sink/storage.rs`; and what `content` stands for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use wasmtime::component::{HasData, Linker};

use super::error;
use super::snapshot::nothing;
use crate::bindings::sink::taskscope::plugin::storage::{self, Content};
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::document::Document;
use crate::grants::Grants;
use crate::guest::Guest;
use crate::limits;
use crate::sink::{Storage, StorageError, StorageRequest, checked_path};

/// What the present call is about, for `content`.
pub(super) struct Source<'a> {
    pub(super) document: Option<&'a Arc<Document>>,
    pub(super) grants: &'a Grants,
}

/// Returns the bytes that `content` stands for.
pub(super) fn resolve(content: Content, source: &Source<'_>) -> Result<Bytes, Error> {
    match content {
        Content::Bytes(bytes) => Ok(bytes.into()),
        Content::Snapshot(how) => {
            let document = source.document.ok_or_else(nothing)?;
            document.encode_once(how, source.grants)
        }
    }
}

struct View<'a> {
    instance: &'a str,
    patience: Duration,
    source: Source<'a>,
    storage: Option<Storage>,
}

struct Views;

impl HasData for Views {
    type Data<'a> = View<'a>;
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    storage::add_to_linker::<_, Views>(linker, |guest| View {
        instance: &guest.instance,
        patience: guest.allowance.patience(),
        source: Source {
            document: guest.document.as_ref(),
            grants: &guest.grants,
        },
        storage: guest
            .outside
            .as_ref()
            .and_then(|outside| outside.storage.clone()),
    })
}

impl View<'_> {
    /// Checks the path and asks the store, for as long as the call allows.
    async fn ask<T>(
        &self,
        path: String,
        or_nothing: bool,
        request: impl FnOnce(String, String, oneshot::Sender<Result<T, StorageError>>) -> StorageRequest,
    ) -> Result<T, Error> {
        let Some(storage) = &self.storage else {
            let message = "storage is not granted; `storage = true` in its permissions would";
            return Err(error(ErrorKind::Denied, message));
        };
        let path = checked_path(path, or_nothing);
        let path = path.map_err(|message| error(ErrorKind::Rejected, message))?;
        let (reply, answer) = oneshot::channel();
        let request = request(self.instance.to_owned(), path, reply);
        let unavailable = |message: String| error(ErrorKind::Unavailable, message);
        let asked = async {
            let gone = || StorageError::Unavailable("the store is closed".to_owned());
            storage.0.send(request).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        };
        match tokio::time::timeout(self.patience, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(StorageError::OverLimit(message))) => Err(error(ErrorKind::Limit, message)),
            Ok(Err(StorageError::Unavailable(message))) => Err(unavailable(message)),
            Err(_) => {
                let seconds = self.patience.as_secs_f64();
                Err(unavailable(format!(
                    "the store did not answer within {seconds:.1} s"
                )))
            }
        }
    }
}

impl storage::Host for View<'_> {
    async fn put(&mut self, path: String, content: Content) -> Result<(), Error> {
        let bytes = match &self.storage {
            Some(_) => resolve(content, &self.source)?,
            None => Bytes::new(), // refused below
        };
        let put = |instance, path, reply| StorageRequest::Put {
            instance,
            path,
            bytes,
            reply,
        };
        self.ask(path, false, put).await
    }

    async fn get(&mut self, path: String) -> Result<Option<Vec<u8>>, Error> {
        let get = |instance, path, reply| StorageRequest::Get {
            instance,
            path,
            limit_bytes: limits::OBJECT_BYTES,
            reply,
        };
        self.ask(path, false, get).await
    }

    async fn list(&mut self, folder: String) -> Result<Vec<String>, Error> {
        let list = |instance, folder, reply| StorageRequest::List {
            instance,
            folder,
            limit: limits::PATHS,
            reply,
        };
        self.ask(folder, true, list).await
    }

    async fn delete(&mut self, path: String) -> Result<(), Error> {
        let delete = |instance, path, reply| StorageRequest::Delete {
            instance,
            path,
            reply,
        };
        self.ask(path, false, delete).await
    }
}
