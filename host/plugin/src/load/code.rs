//! Machine code of one component: out of the cache, or made by a compiler.

use std::hash::{Hash, Hasher};
use std::io;
use std::time::Instant;

use wasmtime::component::Component;

use super::{LoadError, Loader};
use crate::cache::{self, Cache, Unfinished};
use crate::compiler::CompileError;
use crate::limits;
use crate::source::{Digest, Source, StableHasher, hexadecimal};
use crate::text::one_line;

impl Loader {
    /// Returns the component of `source`, from the cache or compiled.
    pub(super) fn component(
        &self,
        source: &mut Source,
        digest: &Digest,
    ) -> Result<Component, LoadError> {
        let key = self.key(digest);
        if let Some(file) = self.cache().find(&key) {
            let begun = Instant::now();
            match self.deserialize(&file) {
                Ok(component) => {
                    tracing::debug!(elapsed = ?begun.elapsed(), "Component loaded.");
                    return Ok(component);
                }
                Err(error) => {
                    tracing::debug!(%error, "A compiled component cannot be used; it is compiled anew.");
                    self.cache().remove(&key);
                }
            }
        }
        let file = match self.compile(source, digest, self.cache().begin(&key)?, &key) {
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
        self.cache().prune(&unfinished.file);
        let input = source.copy(digest).map_err(failed)?;
        let output = unfinished.file.try_clone().map_err(unwritten)?;
        self.compiler
            .compile(input, output, &self.closing)
            .map_err(failed)?;
        tracing::debug!(elapsed = ?begun.elapsed(), is_on_disk, "Component compiled.");
        unfinished.keep(key).map_err(unwritten)
    }

    pub(super) fn cache(&self) -> &Cache {
        let directory = self.compiler.cache.as_deref();
        self.cache.get_or_init(|| Cache::open(directory))
    }

    /// Names what a compiled component was made of: the component, and the engine with its settings, which know what
    /// the CPU can do.
    pub(super) fn key(&self, digest: &Digest) -> String {
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
