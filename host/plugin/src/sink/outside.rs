//! What one sink may do outside: its grants, and the client that its requests share.

use std::sync::{Arc, OnceLock};

use reqwest::Client;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::grant::HttpGrant;
use super::secrets::Secrets;
use super::{Access, Directory, SinkGrants, Storage};
use crate::entry::{Description, Entry};

/// The grants of one sink; its instances share it.
pub(crate) struct Outside {
    /// Made with the first request; why not, where it cannot be made.
    pub(super) client: OnceLock<Result<Client, String>>,
    directories: Vec<Directory>,
    pub(super) http: Arc<[HttpGrant]>,
    pub(super) secrets: Secrets,
    pub(crate) storage: Option<Storage>,
}

impl Outside {
    pub(crate) fn new(grants: SinkGrants) -> Self {
        Self {
            client: OnceLock::new(),
            directories: grants.directories,
            http: grants.http.into(),
            secrets: Secrets::new(grants.secrets),
            storage: grants.storage,
        }
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

    /// Returns what is missing of what a plugin says it cannot work without. What is granted under the same name counts
    /// as enough: which host it is, is between the plugin and the settings.
    pub(crate) fn check(&self, said: &Description, entry: &Entry) -> Result<(), String> {
        let missing = |required: &&String| {
            let name = required.split(['=', ' ']).next().unwrap_or_default();
            match name {
                "dirs" => self.directories.is_empty(),
                "environment" => entry.environment.is_empty(),
                "http" => self.http.is_empty(),
                "secrets" => self.secrets.is_empty(),
                "storage" => self.storage.is_none(),
                _ => true,
            }
        };
        match said.requires.iter().find(missing) {
            Some(required) => Err(format!(
                "it cannot work without the permission `{required}`"
            )),
            None => Ok(()),
        }
    }
}
