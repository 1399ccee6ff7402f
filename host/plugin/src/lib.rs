//! A snapshot to annotations through WebAssembly components: the only crate that runs foreign code.
//!
//! Plugins are strangers. Memory, time and output of each are bounded, what it says is checked against the snapshot,
//! and whatever it does costs one outcome under `plugins` in the snapshot and nothing else. [`Plugins`] owns one
//! thread that loads and one that calls, so neither a large component nor an endless loop holds up the caller. Compiling
//! is done by a process of its own, once, and kept on disk.

mod answer;
mod bindings;
mod builtin;
mod cache;
mod call;
mod compile;
mod compiler;
mod contract;
mod convert;
mod document;
mod encode;
mod engine;
mod entry;
mod failure;
mod grants;
mod guest;
mod inspect;
mod interface;
mod limits;
mod load;
mod plugin;
mod plugins;
mod report;
mod requires;
mod sink;
mod source;
mod text;
mod words;
mod worker;
mod world;

pub use builtin::{builtin_sinks, builtins};
pub use compile::compile_plugin;
pub use compiler::{CompileLimits, Compiler};
pub use contract::{CONTRACT, Contract, Import, World};
pub use entry::{About, ComponentSource, Description, Entry};
pub use inspect::{Inspection, Inspector};
pub use load::CodeState;
pub use plugins::{Hurry, Plugins};
pub use sink::{
    Access, Directory, HttpGrant, ParseGrantError, Rehearsal, Rehearsed, Reply, Secret, SinkEntry,
    SinkGrants, Sinks, Storage, StorageError, StorageRequest,
};
