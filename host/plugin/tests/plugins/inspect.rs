//! What is said of components that are no plugins, or no plugins for this taskscope.

use std::path::Path;

use taskscope_plugin::{
    CONTRACT, CodeState, ComponentSource, Entry, Inspection, Inspector, World, builtins,
};

use crate::{compiler, guest, ranks};

/// Text with its length before it.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(text.len()).unwrap()];
    bytes.extend(text.bytes());
    bytes
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![id, u8::try_from(content.len()).unwrap()];
    bytes.extend(content);
    bytes
}

/// A component that exports empty interfaces, and imports `import` with the function `previous` in it.
fn component(import: Option<&str>, exports: &[&str]) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    if let Some(import) = import {
        // One type: an interface with a function type and a function of it.
        let mut interface = vec![1, 0x42, 2, 1, 0x40, 0, 1, 0, 4, 0];
        interface.extend(name("previous"));
        interface.extend([1, 0]);
        bytes.extend(section(7, &interface));
        let mut imports = vec![1, 0];
        imports.extend(name(import));
        imports.extend([5, 0]);
        bytes.extend(section(10, &imports));
    }
    bytes.extend(section(5, &[1, 1, 0])); // an interface without exports
    let empty = u8::from(import.is_some());
    for export in exports {
        let mut content = vec![1, 0];
        content.extend(name(export));
        content.extend([5, empty, 0]);
        bytes.extend(section(11, &content));
    }
    bytes
}

fn inspect(entry: Entry, cache: &Path) -> Inspection {
    let compiler = compiler(Some(cache.to_owned()));
    Inspector::new(vec![entry], compiler).unwrap().inspect(0)
}

#[test]
fn what_is_no_plugin_of_this_taskscope_is_told_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = "taskscope:plugin/plugin@0.1.0";
    let enrich = "taskscope:plugin/enrich@0.1.0";
    let cases: [(Vec<u8>, &str); 7] = [
        (
            component(None, &["wasi:cli/run@0.2.6"]),
            "it is a component of another kind: it exports `wasi:cli/run@0.2.6`, and a plugin exports \
             `taskscope:plugin/plugin`; build it against the world `enricher` or `sink` of wit/",
        ),
        (
            component(None, &[plugin]),
            "it exports `taskscope:plugin/plugin` and neither `taskscope:plugin/enrich`",
        ),
        (
            component(None, &["taskscope:plugin/plugin@0.2.0"]),
            "it needs a taskscope that serves taskscope:plugin >= 0.2.0; this one serves 0.1.0",
        ),
        (
            component(None, &["taskscope:plugin/plugin@0.0.3"]),
            "it was built against taskscope:plugin 0.0.3, which is older than what is served here (0.1.0)",
        ),
        (
            component(Some("taskscope:plugin/snapshot@0.1.9"), &[plugin, enrich]),
            "it needs a taskscope that serves taskscope:plugin >= 0.1.9; this one serves 0.1.0 (",
        ),
        (
            component(Some("wasi:http/types@0.2.6"), &[plugin, enrich]),
            "it imports `wasi:http/types@0.2.6`, which plugins are not given",
        ),
        (
            component(None, &[plugin, enrich]),
            "it does not fit the world `enricher` of taskscope:plugin 0.1.0: ",
        ),
    ];
    for (number, (bytes, expected)) in cases.into_iter().enumerate() {
        let path = directory.path().join(format!("{number}.wasm"));
        std::fs::write(&path, bytes).unwrap();
        let entry = Entry {
            component: ComponentSource::File(path),
            ..guest("nothing")
        };
        let found = inspect(entry, &directory.path().join("cache"));
        let problem = found.problem.unwrap();
        assert!(problem.starts_with(expected), "{problem}");
        assert!(found.sha256.is_some() && found.description.is_none());
    }
}

#[test]
fn a_plugin_says_what_it_is_without_settings_and_where_its_code_is() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    // Its settings would be refused.
    let first = inspect(guest("refuse-config"), &cache);
    assert_eq!(
        (first.problem, first.code),
        (None, Some(CodeState::Missing))
    );
    let contract = first.contract.unwrap();
    assert_eq!(
        (contract.world, contract.version.as_str()),
        (World::Enricher, CONTRACT)
    );
    let snapshot = contract.imports.iter();
    let snapshot = snapshot.filter(|import| import.name.starts_with("taskscope:plugin/snapshot@"));
    let functions: Vec<&String> = snapshot.flat_map(|import| &import.functions).collect();
    assert!(
        functions.iter().any(|name| *name == "query"),
        "{functions:?}"
    );
    assert_eq!(first.description.unwrap().name, "testing");
    let again = inspect(guest("nothing"), &cache);
    assert_eq!((again.problem, again.code), (None, Some(CodeState::Cached)));
}

#[test]
fn built_in_plugins_carry_their_code() {
    for name in builtins() {
        let entry = Entry {
            component: ComponentSource::Builtin((*name).to_owned()),
            ..ranks()
        };
        let found = inspect(entry, Path::new("/proc/no-cache-here"));
        assert_eq!(
            (found.problem, found.code),
            (None, Some(CodeState::Embedded))
        );
        assert_eq!(found.description.unwrap().name, *name);
    }
}
