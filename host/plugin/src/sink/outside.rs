//! What one sink may do outside: its grants, and the client that its requests share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use reqwest::Client;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::client::{Asked, Filled};
use super::grant::HttpGrant;
use super::secrets::Secrets;
use super::{Access, Directory, SinkGrants, Storage};
use crate::limits;
use crate::text::one_line;

/// The grants of one sink; its instances share it.
pub(crate) struct Outside {
    /// Made with the first request; why not, where it cannot be made.
    pub(super) client: OnceLock<Result<Client, String>>,
    directories: Vec<Directory>,
    pub(super) http: Arc<[HttpGrant]>,
    /// In a rehearsal, the requests that were not sent.
    kept_back: Option<Mutex<Vec<String>>>,
    pub(super) secrets: Secrets,
    pub(crate) storage: Option<Storage>,
}

impl Outside {
    pub(crate) fn new(grants: SinkGrants) -> Self {
        Self {
            client: OnceLock::new(),
            directories: grants.directories,
            http: grants.http.into(),
            kept_back: None,
            secrets: Secrets::new(grants.secrets),
            storage: grants.storage,
        }
    }

    /// Returns an outside where nothing is, but whatever a plugin `requires` counts as granted.
    pub(super) fn rehearsal() -> Self {
        Self {
            kept_back: Some(Mutex::default()),
            ..Self::new(SinkGrants::default())
        }
    }

    /// In a rehearsal, takes note of a request, of which secrets are not filled in. Returns whether it is one.
    pub(super) fn keep_back(&self, asked: &Asked) -> bool {
        let Some(kept_back) = &self.kept_back else {
            return false;
        };
        let (Filled::Text(url) | Filled::Template(url)) = &asked.url;
        let url = one_line(url, limits::TEXT_BYTES);
        let size_bytes = asked.body.as_ref().map_or(0, bytes::Bytes::len);
        let told = format!("{} {url} with {size_bytes} bytes", asked.method);
        let mut kept_back = kept_back.lock().unwrap_or_else(PoisonError::into_inner);
        kept_back.push(told);
        true
    }

    /// Returns the requests that were kept back since it was asked last.
    pub(super) fn take_kept_back(&self) -> Vec<String> {
        let kept_back = self.kept_back.as_ref();
        let kept_back = kept_back.map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept_back
            .map(|mut kept| std::mem::take(&mut *kept))
            .unwrap_or_default()
    }

    /// Lets a guest see its directories.
    pub(crate) fn open_directories(&self, wasi: &mut WasiCtxBuilder) -> Result<(), String> {
        for directory in &self.directories {
            let permissions = match directory.access {
                Access::Read => FsPerms::ReadOnly,
                Access::ReadWrite => FsPerms::ReadWrite,
            };
            let opened = wasi.preopened_dir(&directory.host, &directory.guest, permissions);
            opened.map_err(|error| {
                let host = directory.host.display();
                format!(
                    "`dirs` grants {host}, which cannot be opened: {}",
                    error.root_cause()
                )
            })?;
        }
        Ok(())
    }

    /// Whether something is granted under the name `permission`.
    pub(crate) fn grants(&self, permission: &str) -> bool {
        if self.kept_back.is_some() {
            return ["dirs", "http", "secrets", "storage"].contains(&permission);
        }
        match permission {
            "dirs" => !self.directories.is_empty(),
            "http" => !self.http.is_empty(),
            "secrets" => !self.secrets.is_empty(),
            "storage" => self.storage.is_some(),
            _ => false,
        }
    }
}
