//! What the settings grant a plugin, as a list shows it.

use plugin::{Access, SinkEntry};
use serde::Serialize;

/// What an entry grants.
#[derive(Serialize)]
pub(super) struct Grants {
    environment: Vec<String>,
    /// What only a sink can be granted.
    #[serde(flatten)]
    outside: Option<Outside>,
}

#[derive(Serialize)]
struct Outside {
    dirs: Vec<Directory>,
    http: Vec<String>,
    /// The names, never the values.
    secrets: Vec<Secret>,
    storage: bool,
}

#[derive(Serialize)]
struct Directory {
    guest: String,
    host: std::path::PathBuf,
    mode: &'static str,
}

#[derive(Serialize)]
struct Secret {
    is_set: bool,
    name: String,
}

impl Grants {
    /// Returns what `entry` grants; an enricher has nothing outside.
    pub(super) fn of(entry: &SinkEntry, is_sink: bool) -> Self {
        let SinkEntry { entry, grants } = entry;
        let directories = grants.directories.iter().map(|directory| Directory {
            guest: directory.guest.clone(),
            host: directory.host.clone(),
            mode: match directory.access {
                Access::Read => "ro",
                Access::ReadWrite => "rw",
            },
        });
        let secrets = grants.secrets.iter().map(|(name, value)| Secret {
            is_set: value.is_some(),
            name: name.clone(),
        });
        let outside = Outside {
            dirs: directories.collect(),
            http: grants.http.iter().map(ToString::to_string).collect(),
            secrets: secrets.collect(),
            storage: grants.storage.is_some(),
        };
        Self {
            environment: entry.environment.clone(),
            outside: is_sink.then_some(outside),
        }
    }

    /// In a few words.
    pub(super) fn words(&self) -> String {
        let mut words = Vec::new();
        match &self.environment[..] {
            [] => {}
            [all] if all == "*" => words.push("all captured environment".to_owned()),
            names => words.push(names.join(" ")),
        }
        if let Some(outside) = &self.outside {
            words.extend(outside.http.iter().cloned());
            words.extend(outside.secrets.iter().map(|secret| {
                let unset = if secret.is_set { "" } else { " (not set)" };
                format!("secret {}{unset}", secret.name)
            }));
            let directories = outside.dirs.iter();
            words.extend(directories.map(|it| format!("{} {}", it.mode, it.host.display())));
            if outside.storage {
                words.push("storage".to_owned());
            }
        }
        if words.is_empty() {
            return "nothing".to_owned();
        }
        words.join(", ")
    }
}
