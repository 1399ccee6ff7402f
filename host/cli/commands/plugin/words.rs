//! What a component imports and needs, in words.

use plugin::{Contract, Description, World};

/// Returns what a component may use: one line for each kind of thing.
pub(super) fn imports(contract: &Contract) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for import in &contract.imports {
        let name = import.name.split('@').next().unwrap_or_default();
        if name.starts_with("taskscope:plugin/") && import.functions.is_empty() {
            continue; // it needs the types alone
        }
        let Some(words) = words(name, contract.world) else {
            continue;
        };
        let line = match name {
            "taskscope:plugin/snapshot" if !import.functions.is_empty() => {
                format!("{words}: {}", import.functions.join(", "))
            }
            _ => words.to_owned(),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines
}

/// What an interface is for. Types and streams stand for nothing by themselves.
fn words(interface: &str, world: World) -> Option<&'static str> {
    Some(match interface {
        "taskscope:plugin/snapshot" => "the snapshot",
        "taskscope:plugin/log" => "lines in the collector's log",
        "taskscope:plugin/state" => "values that it keeps between snapshots",
        "taskscope:plugin/storage" => "objects in the store, under its own prefix, where granted",
        "taskscope:plugin/http" => "requests to the hosts that are granted",
        "taskscope:plugin/types" => return None,
        name if name.starts_with("wasi:io/") => return None,
        name if name.starts_with("wasi:clocks/") => "clocks",
        name if name.starts_with("wasi:random/") => "random numbers",
        name if name.starts_with("wasi:filesystem/") => match world {
            World::Enricher => "files, of which there are none",
            World::Sink => "files, in the directories that are granted",
        },
        name if name.starts_with("wasi:sockets/") => "network addresses, every one refused",
        name if name.starts_with("wasi:cli/std") => "its output, which is kept for when it crashes",
        "wasi:cli/environment" => "arguments and an environment, both empty",
        // To end itself, and whether its output is a terminal.
        name if name.starts_with("wasi:cli/") => return None,
        _ => "something that is not served",
    })
}

/// Returns the permissions that a plugin cannot work without, and those that it may be given.
pub(super) fn grants(said: &Description, contract: &Contract) -> String {
    if !said.requires.is_empty() {
        // One text is a permission, or several of which one is enough.
        let all = said.requires.join(", ");
        let each = all.split(" or ").map(|one| format!("{{ {one} }}"));
        return format!("permissions = {}", each.collect::<Vec<_>>().join(" or "));
    }
    let calls = |interface: &str, function: &str| {
        contract.imports.iter().any(|import| {
            import.name.starts_with(interface)
                && import.functions.iter().any(|name| name == function)
        })
    };
    let environment = "it reads those environment variables of processes that are granted";
    let uses = [
        (
            calls("taskscope:plugin/http@", "send"),
            "it makes requests where `http` grants hosts",
        ),
        (
            calls("taskscope:plugin/storage@", "put"),
            "it keeps objects where `storage` is granted",
        ),
        (
            calls("taskscope:plugin/snapshot@", "environment"),
            environment,
        ),
    ];
    let uses = uses.iter().filter(|(is_used, _)| *is_used);
    let words: Vec<&str> = uses.map(|&(_, words)| words).collect();
    [&["no permission"][..], &words].concat().join("; ")
}

/// Returns the names of the settings that a JSON Schema describes.
pub(super) fn settings(schema: &str) -> String {
    let schema: Option<serde_json::Value> = serde_json::from_str(schema).ok();
    let properties = schema
        .as_ref()
        .and_then(|schema| schema["properties"].as_object());
    match properties {
        Some(properties) => list_or(
            &properties.keys().map(String::as_str).collect::<Vec<_>>(),
            "none",
        ),
        None => "described by a schema that names none".to_owned(),
    }
}

/// Returns `words` with commas, or `none` where there are none.
pub(super) fn list_or(words: &[&str], none: &str) -> String {
    if words.is_empty() {
        none.to_owned()
    } else {
        words.join(", ")
    }
}
