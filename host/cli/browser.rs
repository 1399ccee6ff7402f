//! Opening a browser, where a person sits at a terminal.

use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::ui;

/// The program that opens a file as its user wishes (xdg-utils).
const OPENER: &str = "xdg-open";
/// How long the file that leads to the page is there.
const LIFETIME: Duration = Duration::from_mins(1);

/// Opens `url`, where standard input and standard error are a terminal; trouble is a line, and the address is there to be
/// opened by hand. The browser gets a file that leads to the page: arguments of a program are seen by everybody on the machine,
/// and the address has the token in it.
pub(crate) fn open(url: &str) {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return;
    }
    let opened = leading_to(url).and_then(|file| {
        let started = start(&file);
        if started.is_err() {
            _ = std::fs::remove_file(&file);
        }
        started
    });
    if let Err(error) = opened {
        ui::say(&format!("warning: no browser can be opened: {error}"));
    }
}

/// Writes a page that only we can read and that leads to `url`.
fn leading_to(url: &str) -> io::Result<PathBuf> {
    let random = std::hash::RandomState::new().build_hasher().finish();
    let path = std::env::temp_dir().join(format!("taskscope-{random:016x}.html"));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    write!(
        file,
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={url}\"><title>taskscope</title>"
    )?;
    Ok(path)
}

fn start(file: &Path) -> io::Result<()> {
    let mut opener = Command::new(OPENER)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{OPENER}: {error}")))?;
    let file = file.to_owned();
    std::thread::spawn(move || {
        _ = opener.wait();
        std::thread::sleep(LIFETIME);
        _ = std::fs::remove_file(file);
    });
    Ok(())
}
