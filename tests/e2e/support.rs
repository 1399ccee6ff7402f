//! The program in a clean room, and its store read back.
//!
//! `TASKSCOPE_E2E_ROOT` names a directory with copies of the program and the examples: `unprivileged.rs` sets it, because
//! another user may not be able to reach the build directory.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use serde_json::Value;
use testkit::{DEADLINE, Sandbox, scrubbers, wait_until};

/// The variable that names the copies.
pub(crate) const ROOT_VARIABLE: &str = "TASKSCOPE_E2E_ROOT";

#[expect(
    clippy::disallowed_methods,
    reason = "the one way to tell a test binary where its copies are"
)]
fn copies() -> Option<PathBuf> {
    std::env::var_os(ROOT_VARIABLE).map(PathBuf::from)
}

/// How often what depends on the instant is tried.
pub(crate) const REPETITIONS_VARIABLE: &str = "TASKSCOPE_REPEAT";

#[expect(
    clippy::disallowed_methods,
    reason = "how patient a run of the tests is to be is said in its environment"
)]
pub(crate) fn repetitions(otherwise: u64) -> u64 {
    let wanted = std::env::var(REPETITIONS_VARIABLE).ok();
    wanted.map_or(otherwise, |text| text.parse().unwrap())
}

/// Whether all is tried of what is otherwise tried in part.
const ALL_VARIABLE: &str = "TASKSCOPE_ALL_CAUSES";

#[expect(
    clippy::disallowed_methods,
    reason = "how much a run of the tests is to try is said in its environment"
)]
pub(crate) fn is_all_wanted() -> bool {
    std::env::var_os(ALL_VARIABLE).is_some()
}

pub(crate) use testkit::FILTERED;

/// The program.
pub(crate) fn binary() -> PathBuf {
    copies().map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_taskscope")),
        |root| root.join("taskscope"),
    )
}

/// The folder of the four-rank example.
pub(crate) fn four_ranks() -> PathBuf {
    let build = || Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/four-ranks");
    copies().map_or_else(build, |root| root.join("four-ranks"))
}

/// How long a compiler may take, which comes last on a busy machine.
pub(crate) const COMPILE_DEADLINE: Duration = Duration::from_mins(9);

/// The program in an empty directory; whatever it keeps for the user stays there too, but for compiled plugins: they are
/// the same for all tests, and compiled before the first.
pub(crate) fn sandbox() -> Sandbox {
    static COMPILED: Once = Once::new();
    COMPILED.call_once(|| wait_for_plugins(&bare_sandbox()));
    bare_sandbox()
}

/// Watches a task until every plugin has answered and every sink can be called, those for tests among them where they
/// can be reached.
pub(crate) fn wait_for_plugins(sandbox: &Sandbox) {
    if misbehaving().exists() {
        let entries = format!(
            "[[enricher]]\nname = \"fine\"\nwasm = \"{}\"\n[[sink]]\nname = \"sink\"\nwasm = \"{}\"\n\
             [[sink]]\nname = \"webhook\"\nconfig = {{ url = \"http://127.0.0.1:9\", severity = \"error\" }}\n\
             permissions = {{ http = [\"http://127.0.0.1:9\"] }}\n",
            misbehaving().display(),
            testing_sink().display()
        );
        sandbox.write("collector.toml", &entries);
    }
    let task = "while [ ! -e stop ]; do sleep 0.05; done";
    let running = sandbox.spawn(["run", "--interval", "200ms", "--", "sh", "-c", task]);
    wait_until(COMPILE_DEADLINE, || {
        stored(sandbox).last().is_some_and(|id| {
            let snapshot = snapshot(sandbox, id);
            let mut outcomes = snapshot["plugins"].as_array().unwrap().iter();
            outcomes.all(|outcome| outcome["outcome"] == "ok")
        })
    });
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
}

/// The guest that misbehaves as its settings say, which the build script of `host/plugin` builds with the others.
pub(crate) fn misbehaving() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_taskscope"));
    let target = program.ancestors().nth(2).unwrap();
    target.join("plugins/wasm32-wasip2/release/testing.wasm")
}

/// The sink that does what its settings say.
pub(crate) fn testing_sink() -> PathBuf {
    misbehaving().with_file_name("testing_sink.wasm")
}

/// Where plugins are kept, compiled, once there was a [`sandbox`].
pub(crate) fn cache() -> PathBuf {
    let build = || PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    copies().unwrap_or_else(build).join("cache")
}

fn bare_sandbox() -> Sandbox {
    let sandbox = Sandbox::new(&binary());
    let (state, runtime) = (sandbox.path("state"), sandbox.path("runtime"));
    std::fs::create_dir(&runtime).unwrap();
    sandbox
        .environment("XDG_CACHE_HOME", cache().to_str().unwrap())
        .environment("XDG_STATE_HOME", state.to_str().unwrap())
        .environment("XDG_RUNTIME_DIR", runtime.to_str().unwrap())
        .environment("TMPDIR", runtime.to_str().unwrap())
        .environment("TASKSCOPE_NAME", "test/one")
}

/// Inline snapshots without what differs from run to run.
pub(crate) fn scrubbed(sandbox: &Sandbox) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    for (pattern, replacement) in scrubbers(sandbox.directory()) {
        settings.add_filter(&pattern, replacement);
    }
    settings
}

/// The ids of the snapshots that are stored, oldest first. The index may lack some of them.
pub(crate) fn stored(sandbox: &Sandbox) -> Vec<String> {
    let mut ids = Vec::new();
    for folder in folders(&sandbox.path(".taskscope"), "snapshots") {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().into_string().unwrap());
        ids.extend(names.filter_map(|name| name.strip_suffix(".json.gz").map(str::to_owned)));
    }
    ids.sort();
    ids
}

/// Every folder of a store called `name`; what begins with a dot is none of the store's documents.
pub(crate) fn folders(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, file) = (entry.path(), entry.file_name());
        if !path.is_dir() || file.to_string_lossy().starts_with('.') {
            continue;
        }
        if file == name {
            found.push(path);
        } else {
            found.extend(folders(&path, name));
        }
    }
    found
}

/// Waits until `count` snapshots are stored.
#[track_caller]
pub(crate) fn wait_for_stored(sandbox: &Sandbox, count: usize) -> Vec<String> {
    wait_until(DEADLINE, || stored(sandbox).len() >= count);
    stored(sandbox)
}

/// A command of a shell that ends when a snapshot is stored below the working directory, or waits to be; after a minute in any case.
pub(crate) const UNTIL_STORED: &str = "i=0; until find .taskscope -path '*/snapshots/*.json.gz' 2> /dev/null | grep -q . \
                                       || [ $i = 1200 ]; do i=$((i+1)); sleep 0.05; done";

/// A stored snapshot.
#[track_caller]
pub(crate) fn snapshot(sandbox: &Sandbox, id: &str) -> Value {
    let output = sandbox.run(["show", "--json", "--at", id]).success();
    serde_json::from_str(&output.stdout).unwrap()
}

/// The first stored snapshot that `is_right`, waiting for it while the task runs.
#[track_caller]
pub(crate) fn wait_for_snapshot(sandbox: &Sandbox, is_right: impl Fn(&Value) -> bool) -> Value {
    let mut looked_at = 0;
    let mut found = None;
    wait_until(DEADLINE, || {
        for id in stored(sandbox).into_iter().skip(looked_at) {
            looked_at += 1;
            let snapshot = snapshot(sandbox, &id);
            if is_right(&snapshot) {
                found = Some(snapshot);
                return true;
            }
        }
        false
    });
    found.unwrap()
}

/// The process of a snapshot whose command contains `text`.
pub(crate) fn process<'a>(snapshot: &'a Value, text: &str) -> Option<&'a Value> {
    let mut processes = snapshot["processes"].as_array().unwrap().iter();
    processes.find(|process| process["command"].as_str().unwrap().contains(text))
}

/// Every file called `name` below `directory`.
pub(crate) fn files(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found
}
