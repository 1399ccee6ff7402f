//! The plugins inside the binary.

use wasmtime::Engine;
use wasmtime::component::Component;

/// In the order in which they run without settings: what follows may use what was said before.
const NAMES: &[&str] = &["torchrun-ranks", "process-tags", "focus-files"];

/// Returns the names of the plugins that are built in, for [`crate::ComponentSource::Builtin`].
pub fn builtins() -> &'static [&'static str] {
    NAMES
}

/// Sinks; none runs without settings.
const SINKS: &[&str] = &["webhook"];

/// Returns the names of the sinks that are built in, for [`crate::ComponentSource::Builtin`].
pub fn builtin_sinks() -> &'static [&'static str] {
    SINKS
}

/// Returns the names of all plugins that are built in.
pub(crate) fn all() -> Vec<&'static str> {
    [NAMES, SINKS].concat()
}

/// A plugin inside the binary.
#[derive(Clone, Copy)]
pub(crate) struct Builtin {
    /// Its machine code for any processor of this kind, made by the build script; empty where that could not make it.
    pub(crate) code: &'static [u8],
    /// The component that the code was made of.
    pub(crate) component: &'static [u8],
}

/// Returns the built-in plugin `name`.
pub(crate) fn find(name: &str) -> Option<Builtin> {
    let (code, component): (&[u8], &[u8]) = match name {
        "focus-files" => (
            include_bytes!(env!("CODE_FOCUS_FILES")),
            include_bytes!(env!("PLUGIN_FOCUS_FILES")),
        ),
        "process-tags" => (
            include_bytes!(env!("CODE_PROCESS_TAGS")),
            include_bytes!(env!("PLUGIN_PROCESS_TAGS")),
        ),
        "torchrun-ranks" => (
            include_bytes!(env!("CODE_TORCHRUN_RANKS")),
            include_bytes!(env!("PLUGIN_TORCHRUN_RANKS")),
        ),
        "webhook" => (
            include_bytes!(env!("CODE_WEBHOOK")),
            include_bytes!(env!("PLUGIN_WEBHOOK")),
        ),
        _ => return None,
    };
    Some(Builtin { code, component })
}

/// Loads the code of a built-in plugin, unless there is none or it does not fit `engine` or this processor.
#[expect(unsafe_code, reason = "loading compiled code has no safe way")]
pub(crate) fn load(engine: &Engine, name: &str) -> Option<Component> {
    let code = find(name)?.code;
    if code.is_empty() {
        return None;
    }
    // SAFETY: wasmtime made this code while this binary was built, and it is as much a part of the binary as the code
    // that calls it: whoever could change it could change us.
    let loaded = unsafe { Component::deserialize(engine, code) };
    give_back(code);
    let fits = loaded.inspect_err(|error| {
        tracing::info!(%error, "The code of {name} inside taskscope does not fit here; it is compiled.");
    });
    fits.ok()
}

/// Lets the kernel take back the pages that `bytes` of this binary were read into: they were copied, and are there again
/// when somebody reads them.
#[expect(unsafe_code, reason = "advice about memory has no safe way")]
fn give_back(bytes: &'static [u8]) {
    let page = rustix::param::page_size();
    let begin = bytes.as_ptr().align_offset(page);
    let length = bytes.len().saturating_sub(begin) / page * page;
    if length == 0 {
        return;
    }
    let whole = &bytes[begin..begin + length];
    // SAFETY: whole pages that hold nothing but constants of this binary, mapped from its file and never written, so that
    // what is read there afterwards is what was read before.
    let advised = unsafe {
        rustix::mm::madvise(
            whole.as_ptr().cast_mut().cast(),
            length,
            rustix::mm::Advice::LinuxDontNeed,
        )
    };
    if let Err(error) = advised {
        tracing::debug!(%error, "Pages of embedded code stay resident.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_has_a_component_and_code_that_fits() {
        let engine = crate::engine::engine().unwrap();
        for name in all() {
            let component = find(name).unwrap().component;
            assert!(component.starts_with(b"\0asm"), "{name}");
            assert!(load(&engine, name).is_some(), "{name}");
        }
    }
}
