//! Snapshots that no index lists yet: what they say of themselves.

use model::{Timestamp, Trigger};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::together::Together;
use crate::{Facts, Key, Store, StoreError, format};

/// What an index would say of it; the rest is not formed.
#[derive(Deserialize)]
struct Own {
    capture: OwnCapture,
    #[serde(default)]
    findings: Vec<IgnoredAny>,
    processes: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct OwnCapture {
    started_at: Timestamp,
    #[serde(default)]
    trigger: Option<Trigger>,
}

impl Store {
    /// Opens the snapshots at `keys`, several at a time, and returns in their order what an index would say of each, or why that
    /// cannot be told.
    pub async fn own_facts(&self, keys: Vec<Key>) -> Vec<Result<Facts, StoreError>> {
        let mut asking = Together::default();
        let mut told = Vec::new();
        for (position, key) in keys.into_iter().enumerate() {
            let store = self.clone();
            let asked = async move { (position, store.own_facts_of(&key).await) };
            told.extend(asking.add(asked).await);
        }
        told.extend(asking.rest().await);
        told.sort_by_key(|(position, _)| *position);
        told.into_iter().map(|(_, facts)| facts).collect()
    }

    async fn own_facts_of(&self, key: &Key) -> Result<Facts, StoreError> {
        let key = key.to_string();
        let bytes = self.fetch(&key).await?;
        let size_bytes = bytes.len() as u64;
        let own = self
            .aside(move || format::decompress::<Own>(&bytes))
            .await?;
        let own = own.map_err(|source| StoreError::Format { key, source })?;
        Ok(Facts {
            findings: own.findings.len() as u64,
            process_count: own.processes.len() as u64,
            size_bytes,
            started_at: own.capture.started_at,
            trigger: own.capture.trigger,
        })
    }
}
