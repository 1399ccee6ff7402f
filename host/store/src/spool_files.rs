//! The files of a spool: found by their names alone.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::claim::LOCK;
use crate::record::ObjectKey;
use crate::spool::{BELONGS_TO, EVICTED};

/// Our files that wait for nothing.
const NOTES: [&str; 3] = [BELONGS_TO, EVICTED, LOCK];

/// Follows the name of a file that still grows.
pub(crate) const PART: &str = ".part";
/// Follows the name of a file that was set aside.
pub(crate) const BAD: &str = ".bad";

/// A file of ours.
pub(crate) struct SpooledFile {
    pub(crate) key: ObjectKey,
    /// Whether it waits to be stored: neither half-written nor set aside.
    pub(crate) is_whole: bool,
    pub(crate) modified: SystemTime,
    pub(crate) path: PathBuf,
    pub(crate) size_bytes: u64,
}

impl SpooledFile {
    pub(crate) fn is_set_aside(&self) -> bool {
        self.path.to_string_lossy().ends_with(BAD)
    }
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn total(found: &[SpooledFile]) -> u64 {
    found.iter().map(|file| file.size_bytes).sum()
}

/// Returns every file below `directory` whose name is one of ours; links are not followed.
pub(crate) fn files(directory: &Path) -> Vec<SpooledFile> {
    let mut found = Vec::new();
    walk(directory, |path, metadata| {
        if let Ok(modified) = metadata.modified()
            && let Some((key, is_whole)) = parse(directory, &path)
        {
            found.push(SpooledFile {
                key,
                is_whole,
                modified,
                path,
                size_bytes: metadata.len(),
            });
        }
    });
    found
}

/// Returns the files below `directory` that are none of ours.
pub(crate) fn strangers(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(directory, |path, _| {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_note = name.is_some_and(|name| NOTES.contains(&name));
        if !is_note && parse(directory, &path).is_none() {
            found.push(path);
        }
    });
    found.sort();
    found
}

fn walk(directory: &Path, mut take: impl FnMut(PathBuf, &Metadata)) {
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() {
                take(path, &metadata);
            }
        }
    }
}

fn parse(directory: &Path, path: &Path) -> Option<(ObjectKey, bool)> {
    let name = path.strip_prefix(directory).ok()?.to_str()?;
    let whole = name.strip_suffix(PART).unwrap_or(name);
    let whole = whole.strip_suffix(BAD).unwrap_or(whole);
    let key = whole.parse().ok()?;
    Some((key, whole.len() == name.len()))
}
