//! Which sinks run: what `[[sink]]` asks for, with what it may do outside; and the store for those that may keep objects
//! there.

use std::collections::BTreeMap;

use anyhow::Context;
use model::Task;
use plugin::{
    Access, ComponentSource, Directory, Entry, HttpGrant, Secret, SinkEntry, SinkGrants, Storage,
    StorageError, StorageRequest,
};
use store::{PluginObjects, Store};
use tokio::sync::mpsc::Receiver;

use crate::config::{BUILTIN, Loaded, Mode, SinkPermissions, SinkSettings, Span};
use crate::enrichers::{Listed, config_of};
use crate::environment;

/// How long one call of a sink may take, where its entry does not say.
const DEADLINE: Span = Span::seconds(10);

/// Returns the sinks that the settings ask for, and the other end of their way to the store. `enrichers` have names
/// that are taken.
pub(crate) fn sinks(
    loaded: &Loaded,
    enrichers: &[Entry],
) -> anyhow::Result<(Vec<SinkEntry>, Receiver<StorageRequest>)> {
    let (storage, requests) = Storage::new();
    let entries = &loaded.settings.sink;
    let mut chosen: Vec<SinkEntry> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.enabled) {
        let name = &entry.name;
        check_name(name)?;
        anyhow::ensure!(
            chosen.iter().all(|other| other.entry.instance != *name)
                && enrichers.iter().all(|other| other.instance != *name),
            "two plugins are called `{name}`; give each [[sink]] and [[enricher]] a name of its own"
        );
        let sink = sink(entry, loaded, &storage);
        chosen.push(sink.with_context(|| format!("[[sink]] `{name}`"))?);
    }
    Ok((chosen, requests))
}

/// Returns all sinks that the settings know of, those that are switched off too.
pub(crate) fn listed(
    loaded: &Loaded,
    enrichers: &[Entry],
) -> anyhow::Result<Vec<Listed<SinkEntry>>> {
    sinks(loaded, enrichers)?; // whether those that run can
    let (storage, _) = Storage::new();
    let listed = |entry: &SinkSettings| Listed {
        enabled: entry.enabled,
        entry: check_name(&entry.name).and_then(|()| sink(entry, loaded, &storage)),
        name: entry.name.clone(),
        origin: entry.origin(),
    };
    Ok(loaded.settings.sink.iter().map(listed).collect())
}

/// A sink's name is also the name of its folder in the store.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_name = (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    anyhow::ensure!(
        is_name,
        "[[sink]] `{name}`: its name is to be 1 to 64 letters, digits, `-`, `_` or `.`, and not to begin with `.`"
    );
    Ok(())
}

fn sink(entry: &SinkSettings, loaded: &Loaded, storage: &Storage) -> anyhow::Result<SinkEntry> {
    Ok(SinkEntry {
        entry: plugin_entry(entry, loaded)?,
        grants: grants(&entry.permissions, loaded, storage)?,
    })
}

/// Returns what a sink has in common with every plugin.
pub(crate) fn plugin_entry(entry: &SinkSettings, loaded: &Loaded) -> anyhow::Result<Entry> {
    let wasm = entry.origin();
    let component = match wasm.strip_prefix(BUILTIN) {
        Some(name) => {
            let known = plugin::builtin_sinks();
            anyhow::ensure!(
                known.contains(&name),
                "there is no built-in sink `{name}`; give `wasm` a path, or `{BUILTIN}{}`",
                known.join(&format!("`, `{BUILTIN}"))
            );
            ComponentSource::Builtin(name.to_owned())
        }
        None => ComponentSource::File(loaded.directory().join(&wasm)),
    };
    let plugins = &loaded.settings.plugins;
    Ok(Entry {
        component,
        config_json: serde_json::to_string(&config_of(entry.config.as_ref())?)?,
        deadline: entry.limits.deadline.unwrap_or(DEADLINE).duration(),
        environment: entry.permissions.environment.clone(),
        instance: entry.name.clone(),
        memory_bytes: entry.limits.memory.unwrap_or(plugins.memory).bytes(),
        sha256: entry.sha256.clone(),
    })
}

fn grants(
    permissions: &SinkPermissions,
    loaded: &Loaded,
    storage: &Storage,
) -> anyhow::Result<SinkGrants> {
    let http = permissions
        .http
        .iter()
        .map(|text| text.parse::<HttpGrant>());
    let mut secrets = BTreeMap::new();
    for name in &permissions.secrets {
        anyhow::ensure!(
            !name.is_empty() && !name.contains(['{', '}', '=', '\0']),
            "permissions.secrets: `{name}` is no name of an environment variable"
        );
        secrets.insert(name.clone(), environment::text(name).map(Secret::new));
    }
    let mut directories = Vec::new();
    for directory in &permissions.dirs {
        anyhow::ensure!(
            directory.guest.starts_with('/'),
            "permissions.dirs: `{}` is no path for the plugin; it is to begin with `/`",
            directory.guest
        );
        directories.push(Directory {
            access: match directory.mode {
                Mode::Ro => Access::Read,
                Mode::Rw => Access::ReadWrite,
            },
            guest: directory.guest.clone(),
            host: loaded.directory().join(&directory.host),
        });
    }
    Ok(SinkGrants {
        directories,
        http: http.collect::<Result<_, _>>().context("permissions.http")?,
        secrets,
        storage: permissions.storage.then(|| storage.clone()),
    })
}

/// Does what sinks ask of the store, in the attempt of `task`, until there is no sink any more. Without a store
/// everything is refused as unavailable.
pub(crate) async fn serve(
    mut requests: Receiver<StorageRequest>,
    store: Option<Store>,
    task: Task,
) {
    while let Some(request) = requests.recv().await {
        // Each by itself: one that hangs holds up nobody else's.
        tokio::spawn(answer(request, store.clone(), task.clone()));
    }
}

/// Answers one request; whoever asked may have gone away.
async fn answer(request: StorageRequest, store: Option<Store>, task: Task) {
    let objects = |instance: &str| match store {
        Some(store) => Ok(PluginObjects::new(store, &task, instance)),
        None => Err(StorageError::Unavailable("there is no store".to_owned())),
    };
    match request {
        StorageRequest::Put {
            instance,
            path,
            bytes,
            reply,
        } => {
            let put = async {
                objects(&instance)?
                    .put(&path, &bytes)
                    .await
                    .map_err(explain)
            };
            _ = reply.send(put.await);
        }
        StorageRequest::Get {
            instance,
            path,
            limit_bytes,
            reply,
        } => {
            let get = async { get(&objects(&instance)?, &path, limit_bytes).await };
            _ = reply.send(get.await);
        }
        StorageRequest::List {
            instance,
            folder,
            limit,
            reply,
        } => {
            let list = async { list(&objects(&instance)?, &folder, limit).await };
            _ = reply.send(list.await);
        }
        StorageRequest::Delete {
            instance,
            path,
            reply,
        } => {
            let delete = async { objects(&instance)?.delete(&path).await.map_err(explain) };
            _ = reply.send(delete.await);
        }
    }
}

async fn get(
    objects: &PluginObjects,
    path: &str,
    limit_bytes: u64,
) -> Result<Option<Vec<u8>>, StorageError> {
    match objects.size(path).await.map_err(explain)? {
        Some(size_bytes) if size_bytes > limit_bytes => Err(StorageError::OverLimit(format!(
            "`{path}` has {size_bytes} bytes, more than {} MiB",
            limit_bytes >> 20
        ))),
        Some(_) => objects.get(path).await.map_err(explain),
        None => Ok(None),
    }
}

async fn list(
    objects: &PluginObjects,
    folder: &str,
    limit: usize,
) -> Result<Vec<String>, StorageError> {
    let found = objects.list(folder, limit + 1).await.map_err(explain)?;
    if found.len() > limit {
        let message = format!("there are more than {limit} objects");
        return Err(StorageError::OverLimit(message));
    }
    Ok(found)
}

fn explain(error: store::StoreError) -> StorageError {
    StorageError::Unavailable(format!("{:#}", anyhow::Error::new(error)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;
    use crate::enrichers::enrichers;

    fn chosen(text: &str) -> anyhow::Result<Vec<SinkEntry>> {
        let loaded = config::parse(text, Path::new("/etc/collector.toml")).unwrap();
        Ok(sinks(&loaded, &enrichers(&loaded)?)?.0)
    }

    fn refused(text: &str) -> String {
        format!("{:#}", chosen(text).unwrap_err())
    }

    #[test]
    fn a_sink_may_do_nothing_that_is_not_written_down() {
        let sinks = chosen("[[sink]]\nname = \"webhook\"\n").unwrap();
        let SinkEntry { entry, grants } = &sinks[0];
        assert_eq!(
            entry.component,
            ComponentSource::Builtin("webhook".to_owned())
        );
        assert_eq!((entry.deadline.as_secs(), entry.environment.len()), (10, 0));
        assert!(
            grants.http.is_empty() && grants.secrets.is_empty() && grants.directories.is_empty()
        );
        assert!(grants.storage.is_none());
        assert!(
            chosen("[[sink]]\nname = \"webhook\"\nenabled = false\n")
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_is_written_down_is_granted() {
        let sinks = chosen(
            "[[sink]]\nname = \"mine\"\nwasm = \"mine.wasm\"\n[sink.permissions]\nhttp = [\"*.corp.example:8443\"]\n\
             secrets = [\"NO_SUCH_VARIABLE\"]\nstorage = true\ndirs = [{ host = \"out\", guest = \"/out\", mode = \"rw\" }]\n",
        );
        let SinkEntry { entry, grants } = &sinks.unwrap()[0];
        assert_eq!(
            entry.component,
            ComponentSource::File("/etc/mine.wasm".into())
        );
        assert_eq!(grants.http[0].to_string(), "https://*.corp.example:8443");
        assert!(grants.secrets["NO_SUCH_VARIABLE"].is_none());
        assert!(grants.storage.is_some());
        let out = Directory {
            access: Access::ReadWrite,
            guest: "/out".to_owned(),
            host: "/etc/out".into(),
        };
        assert_eq!(grants.directories, [out]);
    }

    #[test]
    fn what_cannot_be_granted_is_refused_by_name() {
        let sink = |name: &str, rest: &str| {
            format!("[[sink]]\nname = \"{name}\"\nwasm = \"x.wasm\"\n{rest}\n")
        };
        let http = refused(&sink(
            "mine",
            "permissions = { http = [\"https://a.example/hook\"] }",
        ));
        assert!(
            http.starts_with(
                "[[sink]] `mine`: permissions.http: `https://a.example/hook` is no host; write "
            ),
            "{http}"
        );
        let guest = "permissions = { dirs = [{ host = \"/x\", guest = \"x\" }] }";
        assert!(refused(&sink("mine", guest)).contains("`x` is no path for the plugin"));
        for name in ["", "..", "a/b", ".x", "a b"] {
            assert!(
                refused(&sink(name, "")).contains("its name is to be"),
                "{name}"
            );
        }
        let twice =
            "two plugins are called `mine`; give each [[sink]] and [[enricher]] a name of its own";
        assert_eq!(refused(&sink("mine", "").repeat(2)), twice);
        assert!(
            refused(&sink("process-tags", "")).starts_with("two plugins are called `process-tags`")
        );
        assert_eq!(
            refused("[[sink]]\nname = \"slack\"\n"),
            "[[sink]] `slack`: there is no built-in sink `slack`; give `wasm` a path, or `builtin:webhook`"
        );
    }
}
