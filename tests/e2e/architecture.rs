//! The walls of ARCHITECTURE.md, as cargo sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates of ours and which of ours they may use.
const OURS: [(&str, &[&str]); 11] = [
    ("taskscope-model", &[]),
    ("taskscope-helper", &[]),
    (
        "taskscope-capture",
        &["taskscope-model", "taskscope-helper"],
    ),
    ("taskscope-plugin", &["taskscope-model", "taskscope-helper"]),
    ("taskscope-diagnose", &["taskscope-model"]),
    ("taskscope-store", &["taskscope-model"]),
    ("taskscope-monitor", &["taskscope-model"]),
    ("taskscope-supervise", &["taskscope-model"]),
    (
        "taskscope-view",
        &[
            "taskscope-model",
            "taskscope-monitor",
            "taskscope-store",
            "taskscope-diagnose",
        ],
    ),
    ("taskscope-testkit", &[]),
    (
        "taskscope",
        &[
            "taskscope-model",
            "taskscope-helper",
            "taskscope-capture",
            "taskscope-plugin",
            "taskscope-diagnose",
            "taskscope-store",
            "taskscope-monitor",
            "taskscope-supervise",
            "taskscope-view",
        ],
    ),
];

/// Dependencies that have an owner, and who else may name them.
const OWNED: [(&str, &[&str]); 29] = [
    ("anyhow", &["taskscope"]),
    ("axum", &["taskscope-view"]),
    ("bytesize", &["taskscope"]),
    ("clap", &["taskscope"]),
    ("fast-glob", &["taskscope-capture", "taskscope-diagnose"]),
    ("flate2", &["taskscope-store", "taskscope-plugin"]),
    ("futures-core", &["taskscope-store"]),
    ("hyper", &["taskscope-view"]),
    ("hyper-util", &["taskscope-view"]),
    ("jiff", &["taskscope-model", "taskscope"]),
    ("libc", &["taskscope-capture"]),
    ("maud", &["taskscope-view"]),
    ("nix", &["taskscope-supervise", "taskscope-capture"]),
    ("nvml-wrapper", &["taskscope-capture"]),
    ("opendal", &["taskscope-store"]),
    ("opendal-http-transport-reqwest", &["taskscope-store"]),
    ("postcard", &["taskscope-capture"]),
    ("procfs", &["taskscope-capture"]),
    ("pulldown-cmark", &["taskscope-view"]),
    ("py-spy", &["taskscope-capture"]),
    ("regex", &["taskscope-capture", "taskscope"]),
    ("reqwest", &["taskscope-plugin"]),
    ("rustls", &["taskscope-store", "taskscope-plugin"]),
    ("syscalls", &["taskscope-capture"]),
    ("tempfile", &["taskscope-testkit"]),
    ("toml", &["taskscope"]),
    ("tracing-subscriber", &["taskscope"]),
    ("wasmtime", &["taskscope-plugin"]),
    ("wasmtime-wasi", &["taskscope-plugin"]),
];

fn metadata(manifest: &Path) -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--locked",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Package name to the names of its dependencies, without those for tests alone.
fn dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            (
                name(package),
                dependencies
                    .filter(|it| it["kind"] != "dev")
                    .map(name)
                    .collect(),
            )
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_crate_keeps_to_the_walls() {
    let seen = dependencies(&metadata(&root().join("Cargo.toml")));
    let known: BTreeSet<&str> = OURS.iter().map(|(name, _)| *name).collect();
    let present: BTreeSet<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(
        present, known,
        "ARCHITECTURE.md, The walls: a new crate needs a row there and here"
    );
    for (name, allowed) in OURS {
        let ours: Vec<&String> = seen[name]
            .iter()
            .filter(|other| other.starts_with("taskscope"))
            .collect();
        for other in ours {
            let reason = "ARCHITECTURE.md, The walls: crates of ours that it may use";
            assert!(
                allowed.contains(&other.as_str()),
                "{name} uses {other}. {reason}: {allowed:?}"
            );
        }
    }
}

#[test]
fn every_heavy_dependency_has_one_owner() {
    for (name, dependencies) in dependencies(&metadata(&root().join("Cargo.toml"))) {
        for (dependency, owners) in OWNED {
            let fine = !dependencies.contains(dependency) || owners.contains(&name.as_str());
            let reason = "ARCHITECTURE.md, The walls: `owns`";
            assert!(
                fine,
                "{name} names {dependency}, which belongs to {owners:?}. {reason}"
            );
        }
    }
}

#[test]
fn plugins_know_the_contract_and_no_host_crate() {
    for (name, dependencies) in dependencies(&metadata(&root().join("plugins/Cargo.toml"))) {
        for dependency in dependencies {
            let host = OURS.iter().any(|(ours, _)| *ours == dependency);
            assert!(
                !host,
                "plugin {name} uses {dependency}. ARCHITECTURE.md, The walls: plugins use `wit` alone"
            );
        }
    }
}
