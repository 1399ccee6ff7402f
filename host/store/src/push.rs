//! Bringing a whole spool to a store, without a collector.

use std::fs;
use std::path::{Path, PathBuf};

use model::TaskPath;

use crate::deadline::Deadline;
use crate::drain::Drain;
use crate::leftovers::drain_place;
use crate::spool::BELONGS_TO;
use crate::spool_files::{files, strangers};
use crate::spool_handle::SpoolHandle;
use crate::{Place, SpoolSettings, Store, StoreError};

/// What became of a spool.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Snapshots that were brought to the store.
    pub stored: u64,
    /// Records that were brought to the store.
    pub records: u64,
    /// Still in the spool.
    pub left: u64,
    /// Set aside, now or before, because they can never be stored.
    pub set_aside: Vec<PathBuf>,
    /// Places that a living collector has, which brings its own.
    pub busy: Vec<Place>,
    /// Files that are none of ours; left alone.
    pub strangers: Vec<PathBuf>,
    /// Why the first of those that are left could not be stored.
    pub failure: Option<StoreError>,
}

/// Brings what waits in the spool `directory` to `store`, place by place.
pub async fn push(store: &Store, directory: &Path) -> Result<Pushed, StoreError> {
    store.writing().await?;
    let settings = SpoolSettings {
        directory: directory.to_owned(),
        max_size_bytes: u64::MAX,
    };
    let spool = SpoolHandle::new(settings, None);
    // Nobody closes this one: it goes on until all is done or the store fails.
    let (_sender, deadline) = Deadline::new();
    let way = Drain {
        deadline,
        spool: spool.clone(),
        store: store.clone(),
    };
    let mut pushed = Pushed {
        strangers: strangers(directory),
        ..Pushed::default()
    };
    for place in spool.places().await.unwrap_or_default() {
        while let Some((claim, _)) = spool.claim(place.clone()).await.unwrap_or_default() {
            let (batch, is_done) = drain_place(&way, &place, claim).await;
            pushed.stored += batch.stored;
            pushed.records += batch.records;
            pushed.failure = batch.failure;
            if is_done || pushed.failure.is_some() {
                break;
            }
        }
        if pushed.failure.is_some() {
            break;
        }
        let waiting = spool.waiting(place.clone()).await;
        if waiting.is_ok_and(|keys| !keys.is_empty()) {
            pushed.busy.push(place);
        }
    }
    for file in files(directory) {
        if file.is_whole {
            pushed.left += 1;
        } else if file.is_set_aside() {
            pushed.set_aside.push(file.path);
        }
    }
    Ok(pushed)
}

/// Returns the number after the last attempt that `node` has snapshots of in the spool `directory`, 0 where it has none.
pub fn next_spooled_attempt(directory: &Path, task: &TaskPath, node: &str) -> u32 {
    let places = files(directory)
        .into_iter()
        .map(|file| file.key.place().clone());
    let attempts = places
        .filter(|place| place.task == *task && place.node == node)
        .map(|place| place.attempt.saturating_add(1));
    attempts.max().unwrap_or(0)
}

/// Returns the address of the store that the spool `directory` belongs to, as it was written there.
pub fn spool_address(directory: &Path) -> Option<String> {
    let text = fs::read_to_string(directory.join(BELONGS_TO)).ok()?;
    Some(text.trim().to_owned()).filter(|address| !address.is_empty())
}
