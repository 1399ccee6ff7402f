//! Builds the plugins' workspace for `wasm32-wasip2`, makes the machine code of those that are built in, and tells the
//! crate where both lie.
//!
//! The code is made for any processor of the target's kind, with the settings of the collector's own engine. Where the
//! compiler does not know the target there is none (an empty file), and a collector compiles at its first start.
//!
//! `TASKSCOPE_PLUGINS_DIR` names a directory with components that are built already; then nothing is built here.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything by environment variables"
)]

#[path = "src/engine/config.rs"]
mod engine_config;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const TARGET: &str = "wasm32-wasip2";
/// Of a program that failed, this many of its last lines are shown.
const SHOWN_LINES: usize = 40;
const PREBUILT: &str = "TASKSCOPE_PLUGINS_DIR";
/// Library names of the plugins' workspace; each becomes the environment variable `PLUGIN_<NAME>` of the crate.
const PLUGINS: [&str; 6] = [
    "focus_files",
    "process_tags",
    "torchrun_ranks",
    "webhook",
    TESTING,
    TESTING_SINK,
];
/// Those that are not built in.
const TESTING: &str = "testing";
const TESTING_SINK: &str = "testing_sink";

fn main() -> ExitCode {
    let made = components().and_then(|directory| {
        let compiler = compiler();
        for name in PLUGINS {
            let path = directory.join(format!("{name}.wasm"));
            tell("PLUGIN", name, &path);
            if ![TESTING, TESTING_SINK].contains(&name) {
                tell("CODE", name, &code(compiler.as_ref(), name, &path)?);
            }
        }
        Ok(())
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            for line in format!("could not build the bundled plugins: {reason}").lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Sets an environment variable of the crate, such as `PLUGIN_FOCUS_FILES`.
fn tell(kind: &str, name: &str, path: &Path) {
    let name = name.to_uppercase();
    println!("cargo::rustc-env={kind}_{name}={}", path.display());
}

/// Returns what compiles for the target, if there is such a compiler. A target that is named rules out whatever this
/// machine's processor can do beyond others of its kind.
fn compiler() -> Option<wasmtime::Engine> {
    let mut config = engine_config::config();
    config.target(&env::var("TARGET").ok()?).ok()?;
    wasmtime::Engine::new(&config).ok()
}

/// Returns the file with the machine code of the component at `path`.
fn code(compiler: Option<&wasmtime::Engine>, name: &str, path: &Path) -> Result<PathBuf, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let component = std::fs::read(path).map_err(|error| failed(&error))?;
    let code = compiler
        .map(|engine| engine.precompile_component(&component))
        .transpose()
        .map_err(|error| failed(&error))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let file = out.join(format!("{name}.cwasm"));
    std::fs::write(&file, code.unwrap_or_default()).map_err(|error| failed(&error))?;
    Ok(file)
}

/// The directory with the components.
fn components() -> Result<PathBuf, String> {
    println!("cargo::rerun-if-env-changed={PREBUILT}");
    if let Some(directory) = env::var_os(PREBUILT) {
        let directory = PathBuf::from(directory);
        println!("cargo::rerun-if-changed={}", directory.display());
        return Ok(directory);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = root.join("plugins");
    watch(&root.join("wit"), &sources)?;
    see_to_target(&sources)?;
    // Shared by every variant of the host's build (dev, release, clippy): inside OUT_DIR each would build from nothing.
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let target = out
        .ancestors()
        .nth(4)
        .ok_or("OUT_DIR is not inside a target directory")?
        .join("plugins");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = clean(Command::new(cargo));
    build.current_dir(&sources);
    build
        .args([
            "build",
            "--release",
            "--locked",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(&target);
    run(
        &mut build,
        &format!(
            "cargo build --release --locked --target {TARGET} in {}",
            sources.display()
        ),
    )?;
    Ok(target.join(TARGET).join("release"))
}

/// Reruns this script when anything changes that the components are made of.
fn watch(wit: &Path, sources: &Path) -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", wit.display());
    let entries = sources
        .read_dir()
        .map_err(|error| format!("{}: {error}", sources.display()))?;
    for entry in entries {
        let path = entry
            .map_err(|error| format!("{}: {error}", sources.display()))?
            .path();
        // A target directory of somebody who works on plugins alone.
        if path.file_name().is_none_or(|name| name != "target") {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    Ok(())
}

/// Adds the target to the toolchain where it is missing: rustup does not do so by itself under
/// `RUSTUP_AUTO_INSTALL=0`.
fn see_to_target(sources: &Path) -> Result<(), String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut probe = clean(Command::new(rustc));
    probe
        .current_dir(sources)
        .args(["--print", "target-libdir", "--target", TARGET]);
    let answer = probe.output().map_err(|error| format!("rustc: {error}"))?;
    let library = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    if answer.status.success() && library.is_dir() {
        return Ok(());
    }
    let mut add = clean(Command::new("rustup"));
    add.current_dir(sources).args(["target", "add", TARGET]);
    let line = format!("rustup target add {TARGET}");
    run(&mut add, &line).map_err(|reason| {
        format!("the Rust target {TARGET} is missing; run `{line}`, then build again\n{reason}")
    })
}

fn run(command: &mut Command, line: &str) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = words.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    Err(format!("`{line}` failed ({}):\n{last}", output.status))
}

/// Takes from `command` what cargo and its wrappers set for the *host*: RUSTFLAGS, clippy's wrapper, a coverage
/// tool's flags or another target directory must not reach the guests. Where registries lie and which toolchain
/// is used stays.
fn clean(mut command: Command) -> Command {
    let kept = ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR"];
    let set = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS"];
    let exact = [
        "DEBUG",
        "HOST",
        "MAKEFLAGS",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "TARGET",
    ];
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_kept = kept.iter().any(|prefix| text.starts_with(prefix));
        let is_set = set.iter().any(|prefix| text.starts_with(prefix)) || exact.contains(&&*text);
        if is_set && !is_kept {
            command.env_remove(&name);
        }
    }
    command
}
