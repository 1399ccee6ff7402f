//! Snapshots on local disk that are not stored yet: a bounded directory of files named by their whole keys.
//!
//! `<directory>/<key>`, so that whoever finds a file knows where it belongs. A file grows under a name with `.part`
//! and is renamed when whole; one that can never be stored is renamed to `….bad` and blocks nobody. Beyond the size
//! limit the oldest go first. Only names that we give are ever looked at or removed. Folders and files are for their
//! owner alone, because snapshots hold command lines; a directory that was there already is left as it is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::key::parse_file_name;
use crate::{Key, Place};

/// Where snapshots wait while the store does not take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// The directory; made when first needed. Several collectors may share one.
    pub directory: PathBuf,
    /// What the files in it may take together, bytes.
    pub max_size_bytes: u64,
}

const PART: &str = ".part";
const BAD: &str = ".bad";

/// The spool. Blocking; see `SpoolHandle` for use beside other work.
#[derive(Debug)]
pub(crate) struct Spool {
    settings: SpoolSettings,
    /// At least what we ourselves have put here; counted anew when it passes the limit.
    size_bytes: u64,
    evicted: u64,
}

struct SpooledFile {
    modified: SystemTime,
    path: PathBuf,
    size_bytes: u64,
}

impl Spool {
    /// Looks at what is there; makes nothing.
    pub(crate) fn open(settings: SpoolSettings) -> Self {
        let size_bytes = total(&files(&settings.directory));
        Self {
            settings,
            size_bytes,
            evicted: 0,
        }
    }

    /// Returns how many snapshots were thrown away to stay within the limit.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Keeps `bytes` as `key`, and throws the oldest away where there is too much.
    pub(crate) fn put(&mut self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        self.make_directory(key)?;
        let path = self.path(key);
        let part = with_suffix(&path, PART);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&part, &path)) {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes > self.settings.max_size_bytes {
            self.evict();
        }
        Ok(())
    }

    /// Returns the snapshots of `place` that wait, oldest first, without those set aside.
    pub(crate) fn waiting(&self, place: &Place) -> Vec<Key> {
        let folder = self.settings.directory.join(place.snapshots_folder());
        let mut keys: Vec<Key> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| parse_file_name(entry.file_name().to_str()?))
            .map(|id| Key {
                place: place.clone(),
                id,
            })
            .collect();
        keys.sort_by_key(|key| (key.id.sequence, key.id.stamp));
        keys
    }

    /// Returns the content of `key`.
    pub(crate) fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        fs::read(self.path(key))
    }

    /// Forgets `key`, which is stored now, and the folders that are empty without it.
    pub(crate) fn remove(&mut self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        let size_bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        match fs::remove_file(&path) {
            // Another collector of the same place, which shares the spool, was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        self.size_bytes = self.size_bytes.saturating_sub(size_bytes);
        self.remove_empty_folders(&path);
        Ok(())
    }

    /// Puts `key` out of the way, because it can never be stored; returns where it is now.
    pub(crate) fn set_aside(&mut self, key: &Key) -> io::Result<PathBuf> {
        let path = self.path(key);
        let aside = with_suffix(&path, BAD);
        fs::rename(&path, &aside)?;
        Ok(aside)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.settings.directory.join(key.to_string())
    }

    fn make_directory(&self, key: &Key) -> io::Result<()> {
        let folder = key.place.snapshots_folder();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.settings.directory.join(folder))
    }

    fn evict(&mut self) {
        let mut found = files(&self.settings.directory);
        self.size_bytes = total(&found);
        found.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        for file in found {
            if self.size_bytes <= self.settings.max_size_bytes {
                return;
            }
            if fs::remove_file(&file.path).is_ok() {
                self.size_bytes -= file.size_bytes;
                self.evicted += 1;
                self.remove_empty_folders(&file.path);
            }
        }
    }

    fn remove_empty_folders(&self, path: &Path) {
        let folders = path.ancestors().skip(1);
        for folder in folders.take_while(|folder| *folder != self.settings.directory) {
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn total(found: &[SpooledFile]) -> u64 {
    found.iter().map(|file| file.size_bytes).sum()
}

/// Returns every file below `directory` whose name is one of ours; links are not followed.
fn files(directory: &Path) -> Vec<SpooledFile> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(path);
            } else if let Ok(modified) = metadata.modified()
                && is_ours(directory, &path)
            {
                found.push(SpooledFile {
                    modified,
                    path,
                    size_bytes: metadata.len(),
                });
            }
        }
    }
    found
}

fn is_ours(directory: &Path, path: &Path) -> bool {
    let relative = path.strip_prefix(directory).ok().and_then(Path::to_str);
    relative.is_some_and(|name| {
        let name = name.strip_suffix(PART).unwrap_or(name);
        let name = name.strip_suffix(BAD).unwrap_or(name);
        name.parse::<Key>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const PLACE: &str = "train/x/attempt-0/diagnostics/node-vm";

    fn key(sequence: u64) -> Key {
        format!("{PLACE}/snapshots/20261129T144054.169782Z-{sequence:06}.json.gz")
            .parse()
            .unwrap()
    }

    fn spool(directory: &Path, max_size_bytes: u64) -> Spool {
        Spool::open(SpoolSettings {
            directory: directory.join("spool"),
            max_size_bytes,
        })
    }

    fn waiting(spool: &Spool) -> Vec<u64> {
        let place = PLACE.parse().unwrap();
        let keys = spool.waiting(&place);
        keys.iter().map(|key| key.id.sequence).collect()
    }

    #[test]
    fn what_is_put_waits_oldest_first_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let mut spool = spool(root.path(), 1000);
        for sequence in [10, 2, 1] {
            spool.put(&key(sequence), b"content").unwrap();
        }
        assert_eq!(waiting(&spool), [1, 2, 10]);
        assert_eq!(spool.read(&key(2)).unwrap(), b"content");
        for sequence in [1, 2, 10] {
            spool.remove(&key(sequence)).unwrap();
        }
        assert_eq!(waiting(&spool), [0; 0]);
        let left: Vec<_> = fs::read_dir(root.path().join("spool")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn nobody_else_can_look_into_it() {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = tempfile::tempdir().unwrap();
        let mut made = spool(root.path(), 1000);
        made.put(&key(0), b"content").unwrap();
        assert_eq!(mode(&root.path().join("spool")), 0o700);
        assert_eq!(mode(&made.path(&key(0))), 0o600);

        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join("spool");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        spool(root.path(), 1000).put(&key(0), b"content").unwrap();
        assert_eq!(mode(&shared), 0o755);
        assert_eq!(mode(&shared.join("train")), 0o700);
    }

    #[test]
    fn beyond_the_limit_the_oldest_go_and_strangers_stay() {
        let root = tempfile::tempdir().unwrap();
        let mut spool = spool(root.path(), 250);
        let stranger = root.path().join("spool/letter.txt");
        fs::create_dir(stranger.parent().unwrap()).unwrap();
        fs::write(&stranger, [0; 500]).unwrap();
        let mut modified = fs::metadata(&stranger).unwrap().modified().unwrap();
        for sequence in 0..4 {
            spool.put(&key(sequence), &[0; 100]).unwrap();
            modified += std::time::Duration::from_secs(1);
            let file = fs::File::options()
                .append(true)
                .open(spool.path(&key(sequence)));
            // Not there where it was the one to go.
            if let Ok(file) = file {
                file.set_modified(modified).unwrap();
            }
        }
        assert_eq!(spool.evicted(), 2);
        assert_eq!(waiting(&spool).len(), 2);
        assert!(stranger.exists());
    }

    #[test]
    fn one_that_alone_is_too_large_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let mut spool = spool(root.path(), 50);
        spool.put(&key(0), &[0; 100]).unwrap();
        assert_eq!((waiting(&spool).len(), spool.evicted()), (0, 1));
    }

    #[test]
    fn what_is_set_aside_no_longer_waits_but_counts() {
        let root = tempfile::tempdir().unwrap();
        let mut first = spool(root.path(), 1000);
        first.put(&key(0), &[0; 100]).unwrap();
        let aside = first.set_aside(&key(0)).unwrap();
        assert!(aside.ends_with("20261129T144054.169782Z-000000.json.gz.bad"));
        assert_eq!(waiting(&first), [0; 0]);
        assert_eq!(spool(root.path(), 1000).size_bytes, 100);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("spool"), b"a file").unwrap();
        let mut spool = spool(root.path(), 1000);
        assert!(spool.put(&key(0), b"content").is_err());
    }
}
