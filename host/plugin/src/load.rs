//! From an entry to a component that is compiled and fits our world. Slow: runs on a thread of its own.

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::bindings::EnricherPre;
use crate::entry::{ComponentSource, Entry};
use crate::guest::Guest;
use crate::text::one_line;
use crate::{builtin, limits};

/// The part of the package's version that has to agree.
const LINE: &str = "taskscope:plugin/plugin@0.1.";

/// Why a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("there is no built-in plugin `{name}`; built in: {}", builtin::builtins().join(", "))]
    NoBuiltin { name: String },
    #[error("{path}: {source}")]
    Read {
        path: String,
        source: std::io::Error,
    },
    #[error("{path}: larger than {} MiB", limits::COMPONENT_BYTES >> 20)]
    TooLarge { path: String },
    #[error("its SHA-256 is {found}, and the settings pin {pinned}")]
    Pin { found: String, pinned: String },
    #[error("not a WebAssembly component: {reason}")]
    NotAComponent { reason: String },
    #[error("it was built for another taskscope ({found}); this one serves taskscope:plugin@0.1")]
    OtherLine { found: String },
    #[error("it does not fit the world `enricher` of taskscope:plugin@0.1: {reason}")]
    OtherWorld { reason: String },
}

/// Compiles components, each once, however many entries use it.
pub(crate) struct Loader {
    compiled: HashMap<Vec<u8>, Component>,
    engine: Engine,
    linker: Linker<Guest>,
}

impl Loader {
    pub(crate) fn new(engine: Engine, linker: Linker<Guest>) -> Self {
        Self {
            compiled: HashMap::new(),
            engine,
            linker,
        }
    }

    /// Reads, checks and compiles the component of `entry`.
    pub(crate) fn load(&mut self, entry: &Entry) -> Result<EnricherPre<Guest>, LoadError> {
        let bytes = read(&entry.component)?;
        if !bytes.starts_with(b"\0asm") {
            let reason = "it does not begin as one".to_owned();
            return Err(LoadError::NotAComponent { reason });
        }
        let digest = Sha256::digest(&bytes);
        if let Some(pinned) = &entry.sha256 {
            let found = format!("{digest:x}");
            if !found.eq_ignore_ascii_case(pinned.trim()) {
                return Err(LoadError::Pin {
                    found,
                    pinned: pinned.clone(),
                });
            }
        }
        let component = match self.compiled.get(digest.as_slice()) {
            Some(known) => known.clone(),
            None => {
                Component::new(&self.engine, &bytes).map_err(|error| LoadError::NotAComponent {
                    reason: one_line(&error.root_cause().to_string(), limits::TEXT_BYTES),
                })?
            }
        };
        self.compiled.insert(digest.to_vec(), component.clone());
        check_line(&self.engine, &component)?;
        let other_world = |error: &wasmtime::Error| LoadError::OtherWorld {
            reason: one_line(&error.root_cause().to_string(), limits::TEXT_BYTES),
        };
        let instance = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| other_world(&error))?;
        EnricherPre::new(instance).map_err(|error| other_world(&error))
    }
}

fn read(source: &ComponentSource) -> Result<Vec<u8>, LoadError> {
    match source {
        ComponentSource::Builtin(name) => {
            let component = builtin::component(name);
            component
                .map(<[u8]>::to_vec)
                .ok_or_else(|| LoadError::NoBuiltin { name: name.clone() })
        }
        ComponentSource::File(path) => read_file(path),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read {
        path: path.display().to_string(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > limits::COMPONENT_BYTES {
        return Err(LoadError::TooLarge {
            path: path.display().to_string(),
        });
    }
    std::fs::read(path).map_err(failed)
}

/// A component of another line would be refused for some detail of its types; its exports say it better.
fn check_line(engine: &Engine, component: &Component) -> Result<(), LoadError> {
    let ty = component.component_type();
    let ours = ty
        .exports(engine)
        .find(|(name, _)| name.starts_with("taskscope:plugin/plugin@"));
    match ours {
        Some((name, _)) if !name.starts_with(LINE) => Err(LoadError::OtherLine {
            found: name.to_owned(),
        }),
        _ => Ok(()),
    }
}
