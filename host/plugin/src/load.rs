//! From an entry to a component that is compiled and fits our world. Slow: runs on a thread of its own.

use std::hash::{Hash, Hasher};
use std::io::{self, PipeReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::cache::{self, Cache, Unfinished};
use crate::compiler::{CompileError, Compiler};
use crate::entry::{ComponentSource, Entry};
use crate::guest::Guest;
use crate::source::{Digest, Source, StableHasher, hexadecimal};
use crate::text::one_line;
use crate::world::World;
use crate::{builtin, limits};

/// The part of the package's version that has to agree.
const LINE: &str = "taskscope:plugin/plugin@0.1.";

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
    #[error("it was built for another taskscope ({found}); this one serves taskscope:plugin@0.1")]
    OtherLine { found: String },
    #[error("it does not fit the world `{world}` of taskscope:plugin@0.1: {reason}")]
    OtherWorld { reason: String, world: &'static str },
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

/// Loads the components of entries, and looks after those that lie in files.
pub(crate) struct Loader {
    cache: Cache,
    closing: PipeReader,
    compiler: Compiler,
    engine: Engine,
    fit: Fit,
    linker: Linker<Guest>,
    slots: Vec<Slot>,
}

/// The world that components have to fit, and what tells whether one does.
#[derive(Clone, Copy)]
struct Fit {
    check: fn(&InstancePre<Guest>) -> wasmtime::Result<()>,
    world: &'static str,
}

/// One entry and what is known of its component.
struct Slot {
    entry: Entry,
    /// What was loaded last; nothing where that failed.
    loaded: Option<(Digest, Component)>,
    /// When a load that failed for no fault of the component is tried again.
    retry: Option<Instant>,
    /// What the file looked like when it was last read.
    stamp: Option<Stamp>,
}

/// What tells that a file has changed: inode, size, and time of the last change in nanoseconds.
type Stamp = (u64, u64, i128);

/// What loading gave: a component that fits.
pub(crate) type Loaded = Result<InstancePre<Guest>, String>;

impl Loader {
    /// Prepares to load `entries`, components of the world `W`; whatever is being compiled is given up when the other side of `closing` is closed.
    pub(crate) fn new<W: World>(
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
            cache: Cache::open(compiler.cache.as_deref()),
            closing,
            compiler,
            engine,
            fit: Fit {
                check: W::check,
                world: W::NAME,
            },
            linker,
            slots: entries.into_iter().map(slot).collect(),
        }
    }

    /// Returns the entries in the order in which they are to be loaded: ours first, because a stranger's component may
    /// take its time.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
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

    fn attempt(&self, index: usize) -> Result<(Digest, Component, InstancePre<Guest>), LoadError> {
        let entry = &self.slots[index].entry;
        let mut source = Source::open(&entry.component)?;
        let (digest, is_wasm) = source.digest(None)?;
        if let Some(pinned) = &entry.sha256 {
            let found = hexadecimal(&digest);
            if !found.eq_ignore_ascii_case(pinned.trim()) {
                return Err(LoadError::Pin {
                    found,
                    pinned: pinned.clone(),
                });
            }
        }
        if !is_wasm {
            let reason = "it does not begin as one".to_owned();
            return Err(CompileError::Refused(reason).into());
        }
        let others = self.slots.iter().filter_map(|slot| slot.loaded.as_ref());
        let known = others.into_iter().find(|(other, _)| *other == digest);
        let component = match known {
            Some((_, component)) => component.clone(),
            None => self.component(&mut source, &digest)?,
        };
        check_line(&self.engine, &component)?;
        let other_world = |error: &wasmtime::Error| LoadError::OtherWorld {
            reason: one_line(&error.root_cause().to_string(), limits::TEXT_BYTES),
            world: self.fit.world,
        };
        let fitting = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| other_world(&error))?;
        (self.fit.check)(&fitting).map_err(|error| other_world(&error))?;
        Ok((digest, component, fitting))
    }

    /// Returns the component of `source`, from the cache or compiled.
    fn component(&self, source: &mut Source, digest: &Digest) -> Result<Component, LoadError> {
        let key = self.key(digest);
        if let Some(file) = self.cache.find(&key) {
            let begun = Instant::now();
            match self.deserialize(&file) {
                Ok(component) => {
                    tracing::debug!(elapsed = ?begun.elapsed(), "Component loaded.");
                    return Ok(component);
                }
                Err(error) => {
                    tracing::debug!(%error, "A compiled component cannot be used; it is compiled anew.");
                    self.cache.remove(&key);
                }
            }
        }
        let file = match self.compile(source, digest, self.cache.begin(&key)?, &key) {
            // As on a file system that is full.
            Err((true, CompileError::Unwritten(_))) => {
                let unfinished = Unfinished::in_memory()?;
                self.compile(source, digest, unfinished, &key)
            }
            other => other,
        };
        let file = file.map_err(|(_, error)| error)?;
        let component = self.deserialize(&file);
        component.map_err(|error| LoadError::Unusable {
            reason: one_line(&error.root_cause().to_string(), limits::TEXT_BYTES),
        })
    }

    /// Compiles `source` into `unfinished`; an error says whether that was on disk.
    fn compile(
        &self,
        source: &mut Source,
        digest: &Digest,
        unfinished: Unfinished<'_>,
        key: &str,
    ) -> Result<std::fs::File, (bool, CompileError)> {
        let is_on_disk = unfinished.is_on_disk();
        let failed = |error| (is_on_disk, error);
        let unwritten = |error: io::Error| failed(CompileError::Unwritten(error.to_string()));
        let begun = Instant::now();
        self.cache.prune(&unfinished.file);
        let input = source.copy(digest).map_err(failed)?;
        let output = unfinished.file.try_clone().map_err(unwritten)?;
        self.compiler
            .compile(input, output, &self.closing)
            .map_err(failed)?;
        tracing::debug!(elapsed = ?begun.elapsed(), is_on_disk, "Component compiled.");
        unfinished.keep(key).map_err(unwritten)
    }

    /// Names what a compiled component was made of: the component, and the engine with its settings, which know what
    /// the CPU can do.
    fn key(&self, digest: &Digest) -> String {
        let mut engine = StableHasher::default();
        self.engine
            .precompile_compatibility_hash()
            .hash(&mut engine);
        format!("{}-{:016x}", hexadecimal(digest), engine.finish())
    }

    #[expect(unsafe_code, reason = "loading compiled code has no safe way")]
    fn deserialize(&self, file: &std::fs::File) -> wasmtime::Result<Component> {
        // SAFETY: the file was written by a compiler process of ours and is not changed any more. It is sealed memory,
        // or lies in a directory that nobody else may enter, and got its name when it was complete.
        unsafe { Component::deserialize_file(&self.engine, cache::path_of(file)) }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    let nanoseconds = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some((found.ino(), found.size(), nanoseconds))
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
