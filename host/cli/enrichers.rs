//! Which enrichers run: the built-in ones, and what `[[enricher]]` adds, replaces or takes away; and what compiles them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use helper::Register;
use plugin::{CompileLimits, Compiler, ComponentSource, Entry};

use crate::commands::plugin_compile;
use crate::config::{BUILTIN, CaptureSettings, EnricherEntry, Loaded};
use crate::environment;

/// Returns the enrichers that the settings ask for: those that are built in, and the entries, which add to them or, with
/// the same name, replace them.
pub(crate) fn enrichers(loaded: &Loaded) -> anyhow::Result<Vec<Entry>> {
    let listed = listed(loaded)?.into_iter();
    listed
        .filter(|listed| listed.enabled)
        .map(|listed| listed.entry)
        .collect()
}

/// A plugin of the settings, whether it runs or not.
pub(crate) struct Listed<T> {
    pub(crate) enabled: bool,
    /// What its entry stands for; an error says what is wrong with it.
    pub(crate) entry: anyhow::Result<T>,
    pub(crate) name: String,
    /// `builtin:NAME` or a path.
    pub(crate) origin: String,
}

/// Returns all enrichers that the settings know of, those that are switched off too.
pub(crate) fn listed(loaded: &Loaded) -> anyhow::Result<Vec<Listed<Entry>>> {
    let entries = &loaded.settings.enricher;
    let mut chosen: Vec<EnricherEntry> = plugin::builtins()
        .iter()
        .map(|name| {
            let own = entries.iter().find(|entry| entry.name == *name);
            own.cloned().unwrap_or_else(|| EnricherEntry::builtin(name))
        })
        .collect();
    for (index, entry) in entries.iter().enumerate() {
        anyhow::ensure!(
            entries[..index]
                .iter()
                .all(|other| other.name != entry.name),
            "two [[enricher]] entries are called `{}`; give each a name of its own",
            entry.name
        );
        if chosen.iter().all(|other| other.name != entry.name) {
            chosen.push(entry.clone());
        }
    }
    let listed = |entry: &EnricherEntry| Listed {
        enabled: entry.enabled,
        entry: plugin_entry(entry, loaded),
        name: entry.name.clone(),
        origin: entry.origin(),
    };
    Ok(chosen.iter().map(listed).collect())
}

/// Returns what an entry of the settings stands for.
pub(crate) fn plugin_entry(entry: &EnricherEntry, loaded: &Loaded) -> anyhow::Result<Entry> {
    let plugins = &loaded.settings.plugins;
    let wasm = entry.origin();
    let builtin = wasm.strip_prefix(BUILTIN);
    if let Some(name) = builtin {
        let known = plugin::builtins();
        anyhow::ensure!(
            known.contains(&name),
            "[[enricher]] `{}`: there is no built-in plugin `{name}`; give `wasm` a path, or one of {}",
            entry.name,
            known
                .iter()
                .map(|name| format!("`{BUILTIN}{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    let granted = &entry.permissions.environment;
    let environment = match (builtin, granted.is_empty()) {
        // Ours may see all that was captured, which is the allow-list already.
        (Some(_), true) => vec!["*".to_owned()],
        _ => granted.clone(),
    };
    Ok(Entry {
        instance: entry.name.clone(),
        component: match builtin {
            Some(name) => ComponentSource::Builtin(name.to_owned()),
            None => ComponentSource::File(loaded.directory().join(&wasm)),
        },
        config_json: config_json(entry, builtin, &loaded.settings.capture)?,
        environment,
        memory_bytes: entry.limits.memory.unwrap_or(plugins.memory).bytes(),
        deadline: entry.limits.deadline.unwrap_or(plugins.deadline).duration(),
        sha256: entry.sha256.clone(),
    })
}

/// The `config` of an entry as JSON. focus-files is told what `[capture]` says, unless the entry says otherwise;
/// process-tags sees in each process whether the pattern matches.
fn config_json(
    entry: &EnricherEntry,
    builtin: Option<&str>,
    capture: &CaptureSettings,
) -> anyhow::Result<String> {
    let mut config = BTreeMap::new();
    if builtin == Some("focus-files") {
        let files = serde_json::to_value(&capture.focus_files)?;
        config.insert("focus-files".to_owned(), files);
    }
    config.append(&mut config_of(entry.config.as_ref())?);
    Ok(serde_json::to_string(&config)?)
}

/// The `config` of an entry as JSON values.
pub(crate) fn config_of(
    config: Option<&BTreeMap<String, toml::Value>>,
) -> anyhow::Result<BTreeMap<String, serde_json::Value>> {
    let values = config.into_iter().flatten();
    let values = values.map(|(key, value)| Ok((key.clone(), serde_json::to_value(value)?)));
    values.collect()
}

/// Returns what compiles plugins: our own binary, in a process that `helpers` knows.
pub(crate) fn compiler(loaded: &Loaded, helpers: Register) -> Compiler {
    let chosen = loaded.settings.plugins.cache_dir.as_ref();
    let chosen = chosen.map(|directory| loaded.directory().join(directory));
    let of_the_user = || {
        Some(
            environment::cache_directory()?
                .join("taskscope")
                .join("plugins"),
        )
    };
    Compiler {
        arguments: vec![plugin_compile::NAME.into()],
        cache: chosen.or_else(of_the_user),
        helpers,
        limits: CompileLimits::default(),
        program: PathBuf::from("/proc/self/exe"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    fn chosen(text: &str) -> anyhow::Result<Vec<Entry>> {
        enrichers(&config::parse(text, Path::new("collector.toml")).unwrap())
    }

    fn names(text: &str) -> Vec<String> {
        let entries = chosen(text).unwrap().into_iter();
        entries.map(|entry| entry.instance).collect()
    }

    #[test]
    fn entries_add_replace_and_take_away() {
        let all = ["torchrun-ranks", "process-tags", "focus-files"];
        assert_eq!(names(""), all);
        let more = "[[enricher]]\nname = \"mine\"\nwasm = \"mine.wasm\"\n";
        assert_eq!(names(more), [all[0], all[1], all[2], "mine"]);
        let fewer = "[[enricher]]\nname = \"process-tags\"\nenabled = false\n";
        assert_eq!(names(fewer), [all[0], all[2]]);
        let replaced = "[[enricher]]\nname = \"focus-files\"\nwasm = \"mine.wasm\"\n";
        assert_eq!(names(replaced), all);
        let replaced = chosen(replaced).unwrap();
        assert!(matches!(replaced[2].component, ComponentSource::File(_)));
        assert_eq!(replaced[2].config_json, "{}");
    }

    #[test]
    fn the_files_in_focus_reach_the_plugin_unless_its_entry_names_others() {
        let capture = "[capture]\nfocus-files = [\"train.py\"]\n";
        let config = |text: &str| chosen(text).unwrap()[2].config_json.clone();
        assert_eq!(config(""), r#"{"focus-files":[]}"#);
        assert_eq!(config(capture), r#"{"focus-files":["train.py"]}"#);
        let entry =
            "[[enricher]]\nname = \"focus-files\"\nconfig = { focus-files = [\"other.py\"] }\n";
        let both = capture.to_owned() + entry;
        assert_eq!(config(&both), r#"{"focus-files":["other.py"]}"#);
    }

    #[test]
    fn two_entries_with_one_name_are_refused() {
        let entry = "[[enricher]]\nname = \"mine\"\nwasm = \"mine.wasm\"\n";
        let error = chosen(&entry.repeat(2)).unwrap_err().to_string();
        assert_eq!(
            error,
            "two [[enricher]] entries are called `mine`; give each a name of its own"
        );
        let unknown = "[[enricher]]\nname = \"mine\"\n";
        let error = chosen(unknown).unwrap_err().to_string();
        assert!(
            error.contains("`builtin:torchrun-ranks`, `builtin:process-tags`"),
            "{error}"
        );
    }
}
