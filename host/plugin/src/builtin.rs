//! The plugins inside the binary.

const NAMES: &[&str] = &["torchrun-ranks"];

/// Returns the names of the plugins that are built in, for [`crate::ComponentSource::Builtin`].
pub fn builtins() -> &'static [&'static str] {
    NAMES
}

/// Returns the component of the built-in plugin `name`.
pub(crate) fn component(name: &str) -> Option<&'static [u8]> {
    match name {
        "torchrun-ranks" => Some(include_bytes!(env!("PLUGIN_TORCHRUN_RANKS"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_has_a_component() {
        for name in builtins() {
            assert!(
                component(name).is_some_and(|bytes| bytes.starts_with(b"\0asm")),
                "{name}"
            );
        }
    }
}
