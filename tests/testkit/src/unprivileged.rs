//! Running a program as a user who has no rights over the processes of the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A program that can be started without rights.
#[derive(Debug)]
pub struct Unprivileged {
    /// `setpriv … PROGRAM`; give it its arguments, a working directory and an environment.
    pub command: Command,
    // Holds the copy of the program that anybody can reach.
    directory: TempDir,
}

impl Unprivileged {
    /// A directory that the unprivileged user can write to.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Wraps a program so that it runs as user 65534 without any capability.
/// The error says why that cannot be done here: only root can give up rights that a target would not have given.
pub fn unprivileged(program: &Path) -> Result<Unprivileged, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can start a process of another user".to_owned());
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        return Err("setpriv is not in PATH".to_owned());
    }
    let directory = tempfile::Builder::new()
        .prefix("unprivileged-")
        .tempdir()
        .expect("a temporary folder can be made");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777))
        .expect("the folder is ours");
    let copy = directory
        .path()
        .join(program.file_name().expect("a program has a name"));
    // Build and home directories are often closed to others. A link is free where both are on one file system.
    if fs::hard_link(program, &copy).is_err() {
        fs::copy(program, &copy).map_err(|error| format!("{}: {error}", program.display()))?;
    }
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    command.arg(&copy);
    Ok(Unprivileged { command, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_runs_as_nobody_or_the_reason_is_told() {
        match unprivileged(Path::new("/usr/bin/id")) {
            Ok(mut unprivileged) => {
                let output = unprivileged.command.arg("-u").output().unwrap();
                assert_eq!(String::from_utf8_lossy(&output.stdout), "65534\n");
            }
            Err(reason) => assert!(
                reason.contains("root") || reason.contains("setpriv"),
                "{reason}"
            ),
        }
    }
}
