//! The bytes of a component: read piece by piece, because one may be as large as all the rest of us together.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, Write};

use sha2::Digest as _;
use sha2::Sha256;

use crate::compiler::CompileError;
use crate::entry::ComponentSource;
use crate::load::LoadError;
use crate::{builtin, cache, limits};

/// The SHA-256 of a component.
pub(crate) type Digest = [u8; 32];

/// What the first bytes say that the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Component,
    /// A module of the core language, which has no interfaces.
    Module,
    /// WebAssembly written as text.
    Text,
    Other,
}

impl Kind {
    fn of(start: &[u8]) -> Self {
        // The magic word, a version, and a layer: 0 is a module, 1 a component.
        match start {
            [0, b'a', b's', b'm', _, _, 1, 0] => Self::Component,
            [0, b'a', b's', b'm', ..] => Self::Module,
            [b'(', b'c' | b'm', ..] => Self::Text,
            _ => Self::Other,
        }
    }

    /// Refuses what is no component, with what to do about it.
    pub(crate) fn check(self) -> Result<(), LoadError> {
        Err(LoadError::NoComponent(match self {
            Self::Component => return Ok(()),
            Self::Module => {
                "it is a core module; build it for the target wasm32-wasip2, or wrap it by `wasm-tools component new`"
            }
            Self::Text => "it is WebAssembly as text; `wasm-tools parse` makes it binary",
            Self::Other => "it does not begin as one",
        }))
    }
}

/// Where the bytes are.
pub(crate) enum Source {
    Builtin(&'static [u8]),
    File { file: File, path: String },
}

impl Source {
    pub(crate) fn open(source: &ComponentSource) -> Result<Self, LoadError> {
        match source {
            ComponentSource::Builtin(name) => builtin::find(name)
                .map(|found| Self::Builtin(found.component))
                .ok_or_else(|| LoadError::NoBuiltin { name: name.clone() }),
            ComponentSource::File(path) => {
                let path_text = path.display().to_string();
                let failed = |source| LoadError::Read {
                    path: path_text.clone(),
                    source,
                };
                let file = File::open(path).map_err(failed)?;
                let size = file.metadata().map_err(failed)?.len();
                if size > limits::COMPONENT_BYTES {
                    return Err(LoadError::TooLarge { path: path_text });
                }
                Ok(Self::File {
                    file,
                    path: path_text,
                })
            }
        }
    }

    /// Returns the digest of the bytes, what they begin as, and how many they are; writes them to `copy`, if there is one.
    pub(crate) fn digest(
        &mut self,
        copy: Option<&mut File>,
    ) -> Result<(Digest, Kind, u64), LoadError> {
        match self {
            Self::Builtin(bytes) => digest(&mut &**bytes, copy).map_err(LoadError::Keep),
            Self::File { file, path } => {
                file.rewind()
                    .and_then(|()| digest(file, copy))
                    .map_err(|source| LoadError::Read {
                        path: path.clone(),
                        source,
                    })
            }
        }
    }

    /// Returns the bytes in a file of their own, so that what is compiled is what was checked.
    pub(crate) fn copy(&mut self, expected: &Digest) -> Result<File, CompileError> {
        let failed = |error: String| CompileError::Unwritten(error);
        let mut copy =
            cache::in_memory(c"taskscope-wasm").map_err(|error| failed(error.to_string()))?;
        let (digest, ..) = self
            .digest(Some(&mut copy))
            .map_err(|error| failed(error.to_string()))?;
        if digest != *expected {
            return Err(failed("it changed while it was read".to_owned()));
        }
        copy.rewind().map_err(|error| failed(error.to_string()))?;
        Ok(copy)
    }
}

fn digest(from: &mut impl Read, mut copy: Option<&mut File>) -> io::Result<(Digest, Kind, u64)> {
    let mut sha256 = Sha256::new();
    let mut from = from.take(limits::COMPONENT_BYTES);
    let mut chunk = vec![0; 64 << 10];
    let mut start: Vec<u8> = Vec::new();
    let mut size = 0;
    loop {
        let count = from.read(&mut chunk)?;
        if count == 0 {
            return Ok((sha256.finalize().into(), Kind::of(&start), size));
        }
        let bytes = &chunk[..count];
        size += u64::try_from(count).unwrap_or(u64::MAX);
        start.extend(bytes.iter().take(8 - start.len()));
        sha256.update(bytes);
        if let Some(copy) = &mut copy {
            copy.write_all(bytes)?;
        }
    }
}

pub(crate) fn hexadecimal(digest: &Digest) -> String {
    digest
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A hash that is the same in every process of the same program, for names of files.
#[derive(Default)]
pub(crate) struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        let first = digest.first_chunk::<8>();
        u64::from_be_bytes(*first.expect("a SHA-256 has 32 bytes"))
    }
}
