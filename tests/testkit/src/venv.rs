//! Virtual environments with packages from the registry, kept in the target directory between runs.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Python, environment};

/// The interpreter of an environment that has these requirements, made with `python` if it is not there yet.
/// Nothing when it cannot be made, such as without a network: the reason is printed, and the test is to be skipped.
pub fn venv(python: &Python, requirements: &[&str]) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (&python.path, python.version, requirements).hash(&mut hasher);
    let directory =
        environment::target_directory().join(format!("tmp/venv-{:016x}", hasher.finish()));
    match make(python, requirements, &directory) {
        Ok(interpreter) => Some(interpreter),
        Err(reason) => {
            #[expect(
                clippy::print_stderr,
                reason = "a skipped test must not look like a passed one"
            )]
            {
                eprintln!(
                    "SKIPPED: no environment with {requirements:?} for {}: {reason}",
                    python.name
                );
            }
            None
        }
    }
}

fn make(python: &Python, requirements: &[&str], directory: &Path) -> Result<PathBuf, String> {
    let say = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(say)?;
    // Tests run in several processes at once; the lock goes with the file when we are done or dead.
    let lock = File::create(directory.join(".lock")).map_err(say)?;
    lock.lock().map_err(say)?;
    // Beside the lock, which `--clear` would remove.
    let environment = directory.join("environment");
    let interpreter = environment.join("bin/python");
    let complete = directory.join(".complete");
    if complete.exists() {
        return Ok(interpreter);
    }
    run(Command::new(&python.path)
        .args(["-m", "venv", "--clear"])
        .arg(&environment))?;
    if !requirements.is_empty() {
        let mut install = Command::new(&interpreter);
        run(install
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(requirements))?;
    }
    File::create(complete).map_err(say)?;
    Ok(interpreter)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}: {}", output.status, words.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_made_once_and_its_interpreter_runs() {
        let python = crate::newest_python();
        let first = venv(python, &[]).expect("venv is part of Python");
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        let second = venv(python, &[]).expect("venv is part of Python");
        assert_eq!(
            (&first, made),
            (&second, fs::metadata(&second).unwrap().modified().unwrap())
        );

        let output = Command::new(&first)
            .args(["-c", "import sys; print(sys.prefix != sys.base_prefix)"])
            .output();
        assert_eq!(output.unwrap().stdout, b"True\n");
    }
}
