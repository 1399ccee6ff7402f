//! The plugins inside the binary.

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

/// Returns the component of the built-in plugin `name`.
pub(crate) fn component(name: &str) -> Option<&'static [u8]> {
    match name {
        "focus-files" => Some(include_bytes!(env!("PLUGIN_FOCUS_FILES"))),
        "process-tags" => Some(include_bytes!(env!("PLUGIN_PROCESS_TAGS"))),
        "torchrun-ranks" => Some(include_bytes!(env!("PLUGIN_TORCHRUN_RANKS"))),
        "webhook" => Some(include_bytes!(env!("PLUGIN_WEBHOOK"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_has_a_component() {
        for name in all() {
            assert!(
                component(name).is_some_and(|bytes| bytes.starts_with(b"\0asm")),
                "{name}"
            );
        }
    }
}
