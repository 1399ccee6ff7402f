//! Lists that must not be forgotten.

use std::collections::BTreeSet;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_test_file_is_a_module_of_this_binary() {
    let main = std::fs::read_to_string(root().join("tests/e2e/main.rs")).unwrap();
    let named: BTreeSet<String> = main
        .lines()
        .filter_map(|line| {
            line.strip_prefix("mod ")?
                .strip_suffix(';')
                .map(str::to_owned)
        })
        .collect();
    let present: BTreeSet<String> = std::fs::read_dir(root().join("tests/e2e"))
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".rs")
                .map(str::to_owned)
        })
        .filter(|name| name != "main")
        .collect();
    assert_eq!(named, present);
}

#[test]
fn every_plugin_is_described_and_every_example_has_a_readme() {
    for folder in ["plugins", "examples"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir()
                && name != "target"
                && !name.starts_with("testing")
                && (path.join("Cargo.toml").exists() || folder == "examples")
            {
                assert!(
                    path.join("README.md").exists(),
                    "{} has no README.md",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn the_readme_names_only_commands_that_exist() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let binary = env!("CARGO_BIN_EXE_taskscope");
    let help = std::process::Command::new(binary)
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let mut words =
        readme.split(|character: char| !(character.is_ascii_alphanumeric() || character == '-'));
    let mut checked = 0;
    while let Some(word) = words.next() {
        if word != "taskscope" {
            continue;
        }
        let Some(command) = words.clone().next().filter(|next| {
            [
                "attach", "config", "diff", "doctor", "export", "list", "plugin", "report", "run",
                "show", "snapshot", "spool", "top", "view", "why", "ctl", "stage", "jobspec",
            ]
            .contains(next)
        }) else {
            continue;
        };
        checked += 1;
        assert!(
            help.contains(&format!("\n  {command} ")),
            "README.md promises `taskscope {command}`"
        );
    }
    assert!(checked > 3, "README.md names the commands");
}
