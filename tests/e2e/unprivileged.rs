//! The same tests once more as a user without any rights.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::unprivileged;

use crate::support::{REPETITIONS_VARIABLE, ROOT_VARIABLE, binary, four_ranks};

/// The modules that run the program; the others look at the source tree.
const MODULES: [&str; 14] = [
    "attach::",
    "control::",
    "deadline::",
    "doctor::",
    "ends::",
    "entrypoint::",
    "exhaustion::",
    "job::",
    "leftovers::",
    "our_failures::",
    "read::",
    "run::",
    "settings::",
    "terminal::",
];

fn copy_readable(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_readable(&entry.path(), &to.join(entry.file_name()));
        }
    } else if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).unwrap();
    }
}

#[test]
fn the_same_tests_pass_without_any_rights() {
    let this = std::env::current_exe().unwrap();
    let mut nobody = match unprivileged(&this) {
        Ok(nobody) => nobody,
        Err(reason) => return eprintln!("SKIPPED: {reason}"),
    };
    let root = nobody.directory().to_owned();
    copy_readable(&binary(), &root.join("taskscope"));
    copy_readable(&four_ranks(), &root.join("four-ranks"));
    let command: &mut Command = &mut nobody.command;
    command
        .args(MODULES)
        .current_dir(&root)
        .env(ROOT_VARIABLE, &root)
        .env("HOME", &root);
    // How often what depends on the instant is tried is for the first pass.
    command.env(REPETITIONS_VARIABLE, "4");
    // Some interpreters in PATH are not this user's to run; there is at least the system's.
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("INSTA_WORKSPACE_ROOT", &root);
    let output = command.output().unwrap();
    // Not at the begin of a line, where it would look like what is said of this run's own tests.
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\n', "\n  ");
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "  {stdout}\n  {stderr}");
    assert!(
        stdout.contains("test result: ok. ") && !stdout.contains("ok. 0 passed"),
        "{stdout}"
    );
}
