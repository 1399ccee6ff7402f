//! What lies beside the snapshots of a node, as far as retention must know: which of them obituaries name, and what the
//! samples weigh. Looked at only while retention is on; each record once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use model::{SnapshotId, Timestamp};
use serde_json::Value;

use crate::record::{Record, RecordKey, RecordKind};
use crate::{Place, Store, StoreError, format};

/// The field of an obituary that names a snapshot.
const CITATION: &str = "last_snapshot";

/// The records of one node.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    cited: BTreeSet<SnapshotId>,
    obituaries: BTreeSet<RecordKey>,
    /// With their sizes, bytes.
    samples: BTreeMap<RecordKey, u64>,
}

impl Beside {
    /// Returns the snapshots that obituaries name.
    pub(crate) fn cited(&self) -> &BTreeSet<SnapshotId> {
        &self.cited
    }

    /// Returns the size of all samples, bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.samples.values().sum()
    }

    /// Takes note of what came since the last look: a listing of each kind from the newest that is known, and the obituaries
    /// that are new.
    pub(crate) async fn look(&mut self, store: &Store, place: &Place) -> Result<(), StoreError> {
        let from = self.obituaries.last().and_then(begins);
        for key in store.records(place, RecordKind::Obituaries, from).await? {
            if self.obituaries.contains(&key) {
                continue;
            }
            match store.fetch(&key.to_string()).await {
                Ok(bytes) => self.cite(&bytes),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            self.obituaries.insert(key);
        }
        let from = self.samples.keys().next_back().and_then(begins);
        for key in store.records(place, RecordKind::Samples, from).await? {
            if let Entry::Vacant(new) = self.samples.entry(key) {
                let size_bytes = store.size(&new.key().to_string()).await?;
                new.insert(size_bytes);
            }
        }
        Ok(())
    }

    /// Takes note of the snapshots that a record of obituaries names. One that cannot be understood names none.
    pub(crate) fn cite(&mut self, obituaries: &[u8]) {
        match format::decompress(obituaries) {
            Ok(document) => citations(&document, &mut self.cited),
            Err(error) => tracing::debug!(%error, "A record of obituaries cannot be read."),
        }
    }

    /// Returns the samples that end before `time`: each ends where the next begins. Never the newest.
    pub(crate) fn samples_before(&self, time: Timestamp) -> Vec<RecordKey> {
        let next = self.samples.keys().skip(1);
        let ended = self.samples.keys().zip(next);
        ended
            .take_while(|(_, next)| begins(next).is_some_and(|begins| begins <= time))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Forgets samples that were deleted.
    pub(crate) fn forget(&mut self, deleted: &[RecordKey]) {
        for key in deleted {
            self.samples.remove(key);
        }
    }
}

fn begins(key: &RecordKey) -> Option<Timestamp> {
    match key.record {
        Record::Kept(_, name) => Some(name.at),
        Record::Report => None,
    }
}

fn citations(value: &Value, found: &mut BTreeSet<SnapshotId>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| citations(item, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str().map(str::parse) {
                    Some(Ok(id)) if name == CITATION => {
                        found.insert(id);
                    }
                    _ => citations(field, found),
                }
            }
        }
        _ => {}
    }
}
