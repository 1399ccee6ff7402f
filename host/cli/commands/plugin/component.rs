//! Which plugin a command means that names a component.

use plugin::{ComponentSource, Entry};

use crate::config::{BUILTIN, EnricherEntry, Loaded, SinkSettings};
use crate::enrichers;
use crate::sinks;

/// Returns the entry for a component, `builtin:NAME` or a path: the first one of the settings, else one with the defaults,
/// without any grants.
pub(super) fn entry_of(component: &str, loaded: &Loaded) -> anyhow::Result<Entry> {
    let builtin = component.strip_prefix(BUILTIN);
    if let Some(name) = builtin {
        let known = [plugin::builtins(), plugin::builtin_sinks()].concat();
        anyhow::ensure!(
            known.contains(&name),
            "there is no built-in plugin `{name}`; built in: {}",
            known.join(", ")
        );
    }
    let path = std::path::absolute(component)?;
    let is_meant = |entry: &Entry| match (&entry.component, builtin) {
        (ComponentSource::Builtin(found), Some(name)) => found == name,
        (ComponentSource::File(found), None) => {
            std::path::absolute(found).is_ok_and(|found| found == path)
        }
        _ => false,
    };
    let of_enrichers = enrichers::listed(loaded)?.into_iter();
    let sinks = loaded.settings.sink.iter();
    let of_sinks = sinks.map(|sink| sinks::plugin_entry(sink, loaded));
    // An entry that stands for nothing is of no component.
    let mut entries = of_enrichers
        .map(|listed| listed.entry)
        .chain(of_sinks)
        .flatten();
    if let Some(found) = entries.find(is_meant) {
        return Ok(found);
    }
    if let Some(name) = builtin {
        // Enrichers were found above: every one that is built in is listed.
        return sinks::plugin_entry(&SinkSettings::builtin(name), loaded);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let bare = EnricherEntry {
        wasm: Some(path.display().to_string()),
        ..EnricherEntry::builtin(&stem)
    };
    enrichers::plugin_entry(&bare, loaded)
}
