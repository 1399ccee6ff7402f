//! Snapshots, and records beside them, on local disk that are not stored yet: a bounded directory of files named by
//! their whole keys.
//!
//! `<directory>/<key>`, so that whoever finds a file knows where it belongs, and `<directory>/belongs-to` says to which
//! store. A file grows under a name with `.part`, is synced, and is renamed when whole; the checksum at the end of each
//! (gzip's) tells a torn one. One that can never be stored is renamed to `….bad` and blocks nobody. Beyond the size
//! limit the oldest go first, and a file `evicted` beside them counts them until the index does. Only names that we
//! give are ever looked at or removed. Folders and files are for their owner alone, because snapshots hold command
//! lines; a directory that was there already is left as it is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::claim::Claim;
use crate::record::ObjectKey;
use crate::spool_files::{BAD, PART, SpooledFile, files, total, with_suffix};
use crate::{Key, Place};

/// Where snapshots wait until they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// The directory; made when first needed. Several collectors may share one, for the same store.
    pub directory: PathBuf,
    /// What the files in it may take together, bytes.
    pub max_size_bytes: u64,
}

/// The file that names the store: its address, without secrets.
pub(crate) const BELONGS_TO: &str = "belongs-to";
/// The file of a place that counts what was thrown away.
pub(crate) const EVICTED: &str = "evicted";

/// The spool. Blocking; see `SpoolHandle` for use beside other work.
#[derive(Debug)]
pub(crate) struct Spool {
    settings: SpoolSettings,
    /// The store that the snapshots are for.
    address: Option<String>,
    /// At least what we ourselves have put here; counted anew when it passes the limit.
    size_bytes: u64,
    evicted: u64,
    /// The folder that is known to be on disk.
    settled: PathBuf,
}

impl Spool {
    /// Looks at what is there; makes nothing.
    pub(crate) fn open(settings: SpoolSettings, address: Option<String>) -> Self {
        let size_bytes = total(&files(&settings.directory));
        Self {
            settings,
            address,
            size_bytes,
            evicted: 0,
            settled: PathBuf::new(),
        }
    }

    /// Returns how many snapshots were thrown away to stay within the limit.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Keeps `bytes` as `key`, on disk when this returns, and throws the oldest away where there is too much; returns what those
    /// were, whoever put them here.
    pub(crate) fn put(&mut self, key: &ObjectKey, bytes: &[u8]) -> io::Result<Vec<ObjectKey>> {
        let path = self.path(key);
        let folder = path.parent().expect("a key has folders").to_owned();
        self.make(&folder)?;
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
        self.settle(folder);
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes > self.settings.max_size_bytes {
            return Ok(self.evict());
        }
        Ok(Vec::new())
    }

    /// Returns what waits of `place`, without what was set aside: snapshots first, oldest first.
    pub(crate) fn waiting(&self, place: &Place) -> Vec<ObjectKey> {
        let names = self.names(place);
        let keys = names.filter_map(|(folder, name)| format!("{folder}{name}").parse().ok());
        let mut keys: Vec<ObjectKey> = keys.collect();
        keys.sort_by_key(ObjectKey::turn);
        keys
    }

    /// Returns the names in the folders of `place`, each with its folder's.
    fn names(&self, place: &Place) -> impl Iterator<Item = (String, String)> {
        let folders = place.object_folders().into_iter();
        folders.flat_map(|folder| {
            let entries = fs::read_dir(self.settings.directory.join(&folder));
            let entries = entries.into_iter().flatten().flatten();
            entries.filter_map(move |entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((folder.clone(), name))
            })
        })
    }

    /// Returns the places that have anything here, sorted.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = files(&self.settings.directory)
            .into_iter()
            .map(|file| file.key.place().clone())
            .collect();
        places.sort();
        places.dedup();
        places
    }

    /// Makes the folder of `place` ours, and puts what an earlier owner left half-written out of the way; `None` while
    /// another collector has it.
    pub(crate) fn claim(&mut self, place: &Place) -> io::Result<Option<(Claim, Vec<PathBuf>)>> {
        let folder = self.settings.directory.join(place.to_string());
        self.make(&folder)?;
        let Some(claim) = Claim::of(&folder)? else {
            return Ok(None);
        };
        let mut aside = Vec::new();
        for (folder, name) in self.names(place) {
            let torn = name
                .strip_suffix(PART)
                .map(|name| format!("{folder}{name}"));
            let Some(key) = torn.and_then(|key| key.parse::<ObjectKey>().ok()) else {
                continue;
            };
            let path = self.path(&key);
            let bad = with_suffix(&path, BAD);
            if fs::rename(with_suffix(&path, PART), &bad).is_ok() {
                aside.push(bad);
            }
        }
        Ok(Some((claim, aside)))
    }

    /// Gives the folder of a place up, and takes it away where nothing is left in it.
    pub(crate) fn release(&mut self, claim: Claim, place: &Place) {
        claim.release();
        for folder in place.object_folders() {
            self.remove_empty_folders(&self.settings.directory.join(folder));
        }
        self.settled = PathBuf::new();
    }

    /// Returns the content of `key`.
    pub(crate) fn read(&self, key: &ObjectKey) -> io::Result<Vec<u8>> {
        fs::read(self.path(key))
    }

    /// Forgets `key`, which is stored now.
    fn remove(&mut self, key: &ObjectKey) -> io::Result<()> {
        let path = self.path(key);
        let size_bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        match fs::remove_file(&path) {
            // Another collector of the same place, which shares the spool, was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        self.size_bytes = self.size_bytes.saturating_sub(size_bytes);
        Ok(())
    }

    /// Forgets `key` as long as it is these bytes, which are stored now: a report may have been replaced meanwhile.
    pub(crate) fn remove_stored(&mut self, key: &ObjectKey, bytes: &[u8]) -> io::Result<()> {
        let is_newer = key.is_report() && self.read(key).is_ok_and(|there| there != bytes);
        if is_newer { Ok(()) } else { self.remove(key) }
    }

    /// Puts `key` out of the way, because it can never be stored; returns where it is now.
    pub(crate) fn set_aside(&mut self, key: &ObjectKey) -> io::Result<PathBuf> {
        let path = self.path(key);
        let aside = with_suffix(&path, BAD);
        fs::rename(&path, &aside)?;
        Ok(aside)
    }

    /// Returns how many snapshots of `place` were thrown away since the index said so last, by whoever it was.
    pub(crate) fn evicted_of(&self, place: &Place) -> u64 {
        let text = fs::read_to_string(self.evicted_file(place));
        text.map_or(0, |text| text.trim().parse().unwrap_or(0))
    }

    /// Forgets `count` of those: the index says so now.
    pub(crate) fn forget_evicted(&mut self, place: &Place, count: u64) -> io::Result<()> {
        let left = self.evicted_of(place).saturating_sub(count);
        if left > 0 {
            return self.write_evicted(place, left);
        }
        match fs::remove_file(self.evicted_file(place)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        self.settings.directory.join(key.to_string())
    }

    fn evicted_file(&self, place: &Place) -> PathBuf {
        let folder = self.settings.directory.join(place.to_string());
        folder.join(EVICTED)
    }

    fn write_evicted(&self, place: &Place, count: u64) -> io::Result<()> {
        let path = self.evicted_file(place);
        let part = with_suffix(&path, PART);
        fs::write(&part, format!("{count}\n"))?;
        fs::rename(&part, &path)
    }

    fn make(&self, folder: &Path) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let belongs_to = self.settings.directory.join(BELONGS_TO);
        if let (Some(address), false) = (&self.address, belongs_to.exists()) {
            fs::write(belongs_to, format!("{address}\n"))?;
        }
        Ok(())
    }

    /// Brings the names in `folder` to disk; the first time those of its parents as well.
    fn settle(&mut self, folder: PathBuf) {
        let levels = if self.settled == folder {
            1
        } else {
            usize::MAX
        };
        let top = &self.settings.directory;
        let above = top.parent().unwrap_or(top);
        let folders = folder.ancestors().take_while(|it| it.starts_with(above));
        for folder in folders.take(levels) {
            // A file system that cannot sync a directory has nothing better to offer.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        self.settled = folder;
    }

    fn evict(&mut self) -> Vec<ObjectKey> {
        let mut evicted = Vec::new();
        let mut found = files(&self.settings.directory);
        self.size_bytes = total(&found);
        found.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        for file in found {
            if self.size_bytes <= self.settings.max_size_bytes {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                self.size_bytes -= file.size_bytes;
                self.count_evicted(&file);
                evicted.push(file.key);
            }
        }
        evicted
    }

    fn count_evicted(&mut self, file: &SpooledFile) {
        self.evicted += 1;
        // The index counts snapshots.
        let ObjectKey::Snapshot(Key { place, .. }) = &file.key else {
            return;
        };
        if file.is_whole
            && let Err(error) = self.write_evicted(place, self.evicted_of(place) + 1)
        {
            tracing::debug!(%place, %error, "That a snapshot was thrown away cannot be noted for the index.");
        }
    }

    /// Removes `folder` and its parents up to the spool, as far as they are empty.
    fn remove_empty_folders(&self, folder: &Path) {
        let top = self.settings.directory.as_path();
        for folder in folder.ancestors().take_while(|folder| *folder != top) {
            let removed = fs::remove_dir(folder);
            if removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
