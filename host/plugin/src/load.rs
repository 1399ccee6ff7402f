//! From an entry to a component that is compiled and fits our world. Slow: runs on a thread of its own.

mod code;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{self, PipeReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::cache::Cache;
use crate::compiler::{CompileError, Compiler};
use crate::contract::{Contract, ContractError, World};
use crate::entry::{ComponentSource, Entry};
use crate::guest::Guest;
use crate::source::{Digest, Kind, Source, hexadecimal};
use crate::world::Exports;
use crate::{builtin, limits};

/// Why a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("there is no built-in plugin `{name}`; built in: {}", builtin::all().join(", "))]
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
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error("its code cannot be kept: {0}")]
    Keep(#[from] io::Error),
    #[error("its code cannot be loaded: {reason}")]
    Unusable { reason: String },
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error("not a WebAssembly component: {0}")]
    NoComponent(&'static str),
}

impl LoadError {
    /// Returns whether it may be otherwise another time, without a change of the component.
    fn is_passing(&self) -> bool {
        match self {
            Self::Compile(error) => error.is_passing(),
            Self::Keep(_) | Self::Read { .. } => true,
            _ => false,
        }
    }
}

/// Where the machine code of a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeState {
    /// In this binary.
    Embedded,
    /// On disk.
    Cached,
    /// Nowhere: it is compiled when it is first loaded.
    Missing,
}

/// The bytes of a component, and which they are.
pub(crate) struct Identified {
    digest: Digest,
    kind: Kind,
    /// How many they are.
    pub(crate) size_bytes: u64,
    source: Source,
}

impl Identified {
    /// The SHA-256 of the bytes, hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hexadecimal(&self.digest)
    }
}

/// Loads the components of entries, and looks after those that lie in files.
pub(crate) struct Loader {
    /// Opened when it is first needed, on the thread that compiles: its directory may hang.
    cache: OnceCell<Cache>,
    closing: PipeReader,
    compiler: Compiler,
    /// Components whose code is in this binary, by name.
    embedded: BTreeMap<String, Component>,
    engine: Engine,
    fit: Fit,
    linker: Linker<Guest>,
    slots: Vec<Slot>,
}

/// The world that components have to fit, and what tells whether one does.
#[derive(Clone, Copy)]
struct Fit {
    check: fn(&InstancePre<Guest>) -> wasmtime::Result<()>,
    world: World,
}

/// One entry and what is known of its component.
struct Slot {
    entry: Entry,
    /// What was loaded last; nothing where that failed.
    loaded: Option<(Option<Digest>, Component)>,
    /// When a load that failed for no fault of the component is tried again.
    retry: Option<Instant>,
    /// What the file looked like when it was last read.
    stamp: Option<Stamp>,
}

/// What tells that a file has changed: inode, size, and time of the last change in nanoseconds.
type Stamp = (u64, u64, i128);

/// A component that fits, with the digest of its bytes where they were read.
type Found = (Option<Digest>, Component, InstancePre<Guest>);

/// What loading gave: a component that fits.
pub(crate) type Loaded = Result<InstancePre<Guest>, String>;

impl Loader {
    /// Prepares to load `entries`, components of the world `W`; whatever is being compiled is given up when the other side of `closing` is closed.
    pub(crate) fn new<W: Exports>(
        engine: Engine,
        linker: Linker<Guest>,
        compiler: Compiler,
        entries: Vec<Entry>,
        closing: PipeReader,
    ) -> Self {
        let slot = |entry| Slot {
            entry,
            loaded: None,
            retry: None,
            stamp: None,
        };
        Self {
            cache: OnceCell::new(),
            closing,
            compiler,
            embedded: BTreeMap::new(),
            engine,
            fit: Fit {
                check: W::check,
                world: W::WORLD,
            },
            linker,
            slots: entries.into_iter().map(slot).collect(),
        }
    }

    /// Loads the entries whose code is in this binary: without a compiler, in a moment. Returns which they are.
    pub(crate) fn load_embedded(&mut self) -> Vec<(usize, Loaded)> {
        let mut loaded = Vec::new();
        for index in 0..self.slots.len() {
            let ComponentSource::Builtin(name) = &self.slots[index].entry.component else {
                continue;
            };
            let name = name.clone();
            let begun = Instant::now();
            if !self.embedded.contains_key(&name) {
                let Some(component) = builtin::load(&self.engine, &name) else {
                    continue;
                };
                tracing::debug!(elapsed = ?begun.elapsed(), plugin = %name, "Embedded component loaded.");
                self.embedded.insert(name, component);
            }
            loaded.push((index, self.load(index)));
        }
        loaded
    }

    /// Returns the entries whose code is not in this binary, in the order in which they are to be loaded: ours first,
    /// because a stranger's component may take its time.
    pub(crate) fn order(&self) -> Vec<usize> {
        let is_embedded = |index: &usize| match &self.slots[*index].entry.component {
            ComponentSource::Builtin(name) => self.embedded.contains_key(name),
            ComponentSource::File(_) => false,
        };
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.retain(|index| !is_embedded(index));
        order.sort_by_key(|&index| self.file(index).is_some());
        order
    }

    /// Reads, checks and, unless that was done before, compiles the component of an entry.
    pub(crate) fn load(&mut self, index: usize) -> Loaded {
        let stamp = self.file(index).and_then(stamp);
        let result = self.attempt(index);
        let slot = &mut self.slots[index];
        slot.stamp = stamp;
        let passing = result.as_ref().err().filter(|error| error.is_passing());
        slot.retry = passing.map(|_| Instant::now() + limits::COMPILE_REST);
        match result {
            Ok((digest, component, fitting)) => {
                slot.loaded = Some((digest, component));
                Ok(fitting)
            }
            Err(error) => {
                slot.loaded = None;
                Err(error.to_string())
            }
        }
    }

    /// Loads the component of an entry anew where its file has changed, or where it is time for another attempt.
    /// Nothing: it is as it was.
    pub(crate) fn look(&mut self, index: usize) -> Option<Loaded> {
        let slot = &self.slots[index];
        let is_due = slot.retry.is_some_and(|retry| Instant::now() >= retry);
        let before = slot.loaded.as_ref().map(|(digest, _)| *digest);
        let file = self.file(index);
        let now = file.and_then(stamp);
        if !is_due && (file.is_none() || now == slot.stamp) {
            return None;
        }
        let loaded = self.load(index);
        let after = self.slots[index].loaded.as_ref().map(|(digest, _)| *digest);
        // Touched, or written again as it was.
        (after.is_none() || after != before).then_some(loaded)
    }

    /// Returns how many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the name of an entry.
    pub(crate) fn instance(&self, index: usize) -> &str {
        &self.slots[index].entry.instance
    }

    fn file(&self, index: usize) -> Option<&Path> {
        match &self.slots[index].entry.component {
            ComponentSource::Builtin(_) => None,
            ComponentSource::File(path) => Some(path),
        }
    }

    fn attempt(&self, index: usize) -> Result<Found, LoadError> {
        let entry = &self.slots[index].entry;
        let embedded = match &entry.component {
            ComponentSource::Builtin(name) => self.embedded.get(name),
            ComponentSource::File(_) => None,
        };
        let (digest, component) = match embedded {
            // Its bytes need not be read: nobody asks which they are.
            Some(component) if entry.sha256.is_none() => (None, component.clone()),
            _ => {
                let mut identified = self.identify(index)?;
                self.check_pin(index, &identified)?;
                let component = self.component_of(index, &mut identified)?;
                (Some(identified.digest), component)
            }
        };
        let contract = Contract::of(&self.engine, &component)?;
        contract.check_world(self.fit.world)?;
        let unfit = |error: wasmtime::Error| contract.unfit(&error);
        let fitting = self.linker.instantiate_pre(&component).map_err(unfit)?;
        (self.fit.check)(&fitting).map_err(unfit)?;
        Ok((digest, component, fitting))
    }

    /// Reads the bytes of an entry's component, as far as to tell one from another.
    pub(crate) fn identify(&self, index: usize) -> Result<Identified, LoadError> {
        let mut source = Source::open(&self.slots[index].entry.component)?;
        let (digest, kind, size_bytes) = source.digest(None)?;
        Ok(Identified {
            digest,
            kind,
            size_bytes,
            source,
        })
    }

    /// Refuses a component that is not the one that its entry pins.
    pub(crate) fn check_pin(&self, index: usize, found: &Identified) -> Result<(), LoadError> {
        let found = found.sha256();
        match &self.slots[index].entry.sha256 {
            Some(pinned) if !found.eq_ignore_ascii_case(pinned.trim()) => Err(LoadError::Pin {
                found,
                pinned: pinned.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the component of an entry: loaded already, from the cache, or compiled.
    pub(crate) fn component_of(
        &self,
        index: usize,
        identified: &mut Identified,
    ) -> Result<Component, LoadError> {
        identified.kind.check()?;
        let source = &self.slots[index].entry.component;
        match self.known(source, &identified.digest) {
            Some(component) => Ok(component),
            None => self.component(&mut identified.source, &identified.digest),
        }
    }

    /// Returns where the machine code of an entry is now.
    pub(crate) fn code_state(&self, index: usize, identified: &Identified) -> CodeState {
        match &self.slots[index].entry.component {
            ComponentSource::Builtin(name) if self.embedded.contains_key(name) => {
                CodeState::Embedded
            }
            _ if self.cache().find(&self.key(&identified.digest)).is_some() => CodeState::Cached,
            _ => CodeState::Missing,
        }
    }

    /// Returns why the cache is not used.
    pub(crate) fn cache_problem(&self) -> Option<String> {
        self.cache().problem.clone()
    }

    /// Returns an entry.
    pub(crate) fn entry(&self, index: usize) -> &Entry {
        &self.slots[index].entry
    }

    /// Returns a component that is loaded already, for another entry or because it is in this binary.
    fn known(&self, source: &ComponentSource, digest: &Digest) -> Option<Component> {
        if let ComponentSource::Builtin(name) = source
            && let Some(component) = self.embedded.get(name)
        {
            return Some(component.clone());
        }
        let mut others = self.slots.iter().filter_map(|slot| slot.loaded.as_ref());
        let known = others.find(|(other, _)| other.as_ref() == Some(digest));
        known.map(|(_, component)| component.clone())
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    let nanoseconds = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some((found.ino(), found.size(), nanoseconds))
}
