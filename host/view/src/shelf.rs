//! Snapshots that were read, decoded, as many as a bounded memory holds; the longest unused go first. Of those that are not
//! held any more, what the matrix and the curves need of them stays ([`Digest`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Snapshot;
use store::{Key, Store, StoreError};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use crate::digest::Digest;
use crate::runs::words;
use crate::work::Work;

/// Text of a snapshot that is decoded, bytes: a job of a thousand ranks on one node has a tenth of it.
const TEXT_LIMIT_BYTES: u64 = 128 << 20;
/// Text of a snapshot that is large, bytes: decoding it takes so long that others are not to wait for it. Eight times that of a
/// node of 64 processes.
const LARGE_BYTES: usize = 16 << 20;
/// Memory that a decoded snapshot takes for a byte of its compressed object, about.
const EXPANSION: u64 = 40;
/// A compressed object whose size is not known is taken to have so many bytes.
const USUAL_BYTES: u64 = 40 << 10;
/// Digests that are held.
const DIGESTS: usize = 60_000;
/// How long an object that could not be had is taken to be so, and one that is torn, foreign or too large, which takes long to
/// find out.
const RETRY: Duration = Duration::from_secs(10);
const RETRY_DAMAGED: Duration = Duration::from_mins(5);
/// Objects that are fetched at a time: a service takes its time for each.
const FETCHES: usize = 16;
/// Snapshots that are on their way, beyond which those are forgotten that nobody waits for any more.
const ON_THEIR_WAY: usize = 1024;

/// A snapshot, or why it cannot be read.
pub(crate) type Loaded = Result<Arc<Snapshot>, Arc<str>>;
/// A digest, or why there is none.
pub(crate) type Digested = Result<Arc<Digest>, Arc<str>>;

/// What was read.
#[derive(Debug)]
pub(crate) struct Shelf {
    coming: Mutex<HashMap<Key, Arc<OnceCell<Read>>>>,
    digests: Mutex<Held<Key, Digested>>,
    fetches: Semaphore,
    /// For decoded snapshots, as estimated.
    memory_bytes: u64,
    snapshots: Mutex<Held<Key, Loaded>>,
    store: Store,
    work: Work,
}

/// What came of reading one snapshot.
#[derive(Clone, Debug)]
struct Read {
    digested: Digested,
    /// When it is to be read anew; never where it is absent.
    ends: Option<Instant>,
    loaded: Loaded,
}

/// Things by name, of a bounded weight together.
#[derive(Debug)]
pub(crate) struct Held<K, T> {
    limit: u64,
    things: HashMap<K, Thing<T>>,
    uses: u64,
    weight: u64,
}

#[derive(Debug)]
struct Thing<T> {
    /// When it is to be got anew; never where it is absent.
    ends: Option<Instant>,
    last_use: u64,
    it: T,
    weight: u64,
}

impl<K: Clone + Eq + Hash, T: Clone> Held<K, T> {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            things: HashMap::new(),
            uses: 0,
            weight: 0,
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<T> {
        self.uses += 1;
        let thing = self.things.get_mut(key)?;
        if thing.ends.is_some_and(|ends| ends <= Instant::now()) {
            return None;
        }
        thing.last_use = self.uses;
        Some(thing.it.clone())
    }

    pub(crate) fn put(&mut self, key: K, it: T, weight: u64, ends: Option<Instant>) {
        self.uses += 1;
        let thing = Thing {
            ends,
            last_use: self.uses,
            it,
            weight,
        };
        self.weight += weight;
        if let Some(before) = self.things.insert(key, thing) {
            self.weight -= before.weight;
        }
        if self.weight > self.limit {
            self.drop_half();
        }
    }

    /// Drops the half that was not used for the longest time; one by one would be a search each time.
    fn drop_half(&mut self) {
        let mut uses: Vec<u64> = self.things.values().map(|thing| thing.last_use).collect();
        uses.sort_unstable();
        let middle = uses[uses.len() / 2];
        self.things.retain(|_, thing| thing.last_use > middle);
        self.weight = self.things.values().map(|thing| thing.weight).sum();
    }
}

impl Shelf {
    pub(crate) fn new(store: Store, memory_bytes: u64, work: Work) -> Self {
        Self {
            coming: Mutex::default(),
            digests: Mutex::new(Held::new(DIGESTS as u64)),
            fetches: Semaphore::new(FETCHES),
            snapshots: Mutex::new(Held::new(memory_bytes)),
            memory_bytes,
            store,
            work,
        }
    }

    /// Returns the snapshot at `key`, whose object has `size_bytes` where that is known.
    pub(crate) async fn snapshot(&self, key: &Key, size_bytes: Option<u64>) -> Loaded {
        if let Some(known) = lock(&self.snapshots).get(key) {
            return known;
        }
        let read = self.read(key).await;
        let weight = match &read.loaded {
            Ok(_) => {
                let size = size_bytes.unwrap_or(USUAL_BYTES);
                size.saturating_mul(EXPANSION).min(self.memory_bytes / 4)
            }
            Err(_) => USUAL_BYTES,
        };
        lock(&self.digests).put(key.clone(), read.digested, 1, read.ends);
        lock(&self.snapshots).put(key.clone(), read.loaded.clone(), weight, read.ends);
        read.loaded
    }

    /// Returns the digest of the snapshot at `key` where it is known without reading it.
    pub(crate) fn known_digest(&self, key: &Key) -> Option<Digested> {
        lock(&self.digests).get(key)
    }

    /// Reads the snapshot at `key` for its digest alone; it does not push out those that are looked at.
    pub(crate) async fn digest(&self, key: &Key) -> Digested {
        if let Some(known) = self.known_digest(key) {
            return known;
        }
        // Whoever put a snapshot here put its digest beside it, which may have gone first.
        let known = lock(&self.snapshots).get(key);
        let read = match known {
            Some(loaded) => {
                let retry = loaded.is_err().then_some(RETRY);
                Read::of(loaded, retry)
            }
            None => self.read(key).await,
        };
        if read.loaded.is_err() {
            lock(&self.snapshots).put(key.clone(), read.loaded, USUAL_BYTES, read.ends);
        }
        lock(&self.digests).put(key.clone(), read.digested.clone(), 1, read.ends);
        read.digested
    }

    /// Reads the snapshot at `key`, once for all who ask for it meanwhile.
    async fn read(&self, key: &Key) -> Read {
        let cell = {
            let mut coming = lock(&self.coming);
            if coming.len() >= ON_THEIR_WAY {
                coming.retain(|_, cell| Arc::strong_count(cell) > 1);
            }
            Arc::clone(coming.entry(key.clone()).or_default())
        };
        let read = cell.get_or_init(|| self.load(key)).await.clone();
        lock(&self.coming).remove(key);
        read
    }

    async fn load(&self, key: &Key) -> Read {
        let fetched = {
            let Ok(_turn) = self.fetches.acquire().await else {
                return Read::of(Err("the page is being closed".into()), Some(RETRY));
            };
            self.store.object(key).await
        };
        let bytes = match fetched {
            Ok(bytes) => bytes,
            Err(error) => return Read::failed(&error),
        };
        let (is_large, key) = (text_bytes(&bytes) > LARGE_BYTES, key.clone());
        let decode = move || match store::decode_within(&bytes, &key, TEXT_LIMIT_BYTES) {
            Ok(snapshot) => Read::of(Ok(Arc::new(snapshot)), None),
            Err(error) => Read::failed(&error),
        };
        let decoded = self.work.done(is_large, decode).await;
        decoded.unwrap_or_else(|words| Read::of(Err(words.into()), Some(RETRY)))
    }
}

impl Read {
    fn of(loaded: Loaded, retry: Option<Duration>) -> Self {
        let digested = loaded.as_ref().map(|it| Arc::new(Digest::of(it)));
        Self {
            digested: digested.map_err(Arc::clone),
            ends: retry.map(|retry| Instant::now() + retry),
            loaded,
        }
    }

    fn failed(error: &StoreError) -> Self {
        let retry = match error {
            StoreError::Format { .. } => RETRY_DAMAGED,
            _ => RETRY,
        };
        Self::of(Err(words(error).into()), Some(retry))
    }
}

/// Returns how much text an object holds, as far as it says so: a gzip has the lower 32 bits of it at its end (RFC 1952).
fn text_bytes(object: &[u8]) -> usize {
    let said = object.last_chunk().map_or(0, |it| u32::from_le_bytes(*it));
    usize::try_from(said)
        .unwrap_or(usize::MAX)
        .max(object.len())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_long_goes_first_and_the_weight_is_bounded() {
        let mut held: Held<u32, u32> = Held::new(10);
        for number in 0..10 {
            held.put(number, number, 1, None);
        }
        assert_eq!(held.get(&0), Some(0));
        held.put(10, 10, 1, None);
        assert_eq!((held.get(&0), held.get(&10)), (Some(0), Some(10)));
        assert_eq!(held.get(&1), None);
        assert!(held.weight <= 10);
        held.put(11, 11, 1000, None);
        held.put(12, 12, 1000, None);
        assert!(held.things.len() <= 2 && held.get(&12) == Some(12));
    }

    #[test]
    fn what_has_ended_is_got_anew() {
        let mut held: Held<u32, u32> = Held::new(10);
        held.put(1, 1, 1, Some(Instant::now() + RETRY));
        held.put(2, 2, 1, Some(Instant::now()));
        assert_eq!((held.get(&1), held.get(&2)), (Some(1), None));
    }
}
