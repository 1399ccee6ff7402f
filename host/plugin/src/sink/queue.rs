//! What waits for one sink, and what became of the rest. Bounded: the oldest goes when there is no room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{OutcomeKind, PluginOutcome, SinkTally};
use tokio::sync::Notify;

use crate::document::Document;
use crate::limits;

/// One snapshot on its way to one sink.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// How many instances it has cost already.
    pub(crate) crashes: u8,
    pub(crate) document: Arc<Document>,
}

/// The queue of one sink, filled by the collector and emptied by the sink's task.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Rung when there is something new.
    pub(crate) changed: Notify,
    content: Mutex<Content>,
}

#[derive(Debug)]
struct Content {
    /// How the sink is now.
    outcome: PluginOutcome,
    tally: SinkTally,
    /// Whether one is being delivered.
    under_way: bool,
    waiting: VecDeque<Parcel>,
}

impl Queue {
    pub(crate) fn new(outcome: PluginOutcome) -> Self {
        Self {
            changed: Notify::new(),
            content: Mutex::new(Content {
                outcome,
                tally: SinkTally::default(),
                under_way: false,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Takes a snapshot in; the oldest go where there is no room.
    pub(crate) fn push(&self, document: Arc<Document>) {
        let mut content = self.content();
        while !content.has_room_for(&document) {
            content.waiting.pop_front();
            content.drop_one("its queue is full");
        }
        content.waiting.push_back(Parcel {
            crashes: 0,
            document,
        });
        drop(content);
        self.changed.notify_one();
    }

    /// Tells whether something waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.content().waiting.is_empty()
    }

    /// Takes the oldest out to be delivered; what became of it is to be told.
    pub(crate) fn take(&self) -> Option<Parcel> {
        let mut content = self.content();
        let parcel = content.waiting.pop_front();
        content.under_way = parcel.is_some();
        parcel
    }

    /// What was taken out went its way, with so many messages.
    pub(crate) fn delivered(&self, messages: u32) {
        let mut content = self.content();
        content.under_way = false;
        content.tally.snapshots += 1;
        content.tally.delivered += u64::from(messages);
    }

    /// What was taken out is to be tried again. It is the oldest, so it goes where there is no room.
    pub(crate) fn put_back(&self, parcel: Parcel) {
        let mut content = self.content();
        content.under_way = false;
        if content.has_room_for(&parcel.document) {
            content.waiting.push_front(parcel);
        } else {
            content.drop_one("its queue is full");
        }
    }

    /// What was taken out is lost.
    pub(crate) fn lost(&self, reason: &str) {
        let mut content = self.content();
        content.under_way = false;
        content.drop_one(reason);
    }

    /// All that waits is lost. Returns how many.
    pub(crate) fn lose_all(&self, reason: &str) -> usize {
        let mut content = self.content();
        let count = content.waiting.len() + usize::from(content.under_way);
        content.waiting.clear();
        content.under_way = false;
        for _ in 0..count {
            content.drop_one(reason);
        }
        count
    }

    /// Changes how the sink is.
    pub(crate) fn set(&self, change: impl FnOnce(&mut PluginOutcome)) -> PluginOutcome {
        let mut content = self.content();
        change(&mut content.outcome);
        content.outcome.clone()
    }

    /// Returns how the sink is, for a snapshot.
    pub(crate) fn outcome(&self) -> PluginOutcome {
        let content = self.content();
        let waiting = content.waiting.len() + usize::from(content.under_way);
        let tally = SinkTally {
            queued: u32::try_from(waiting).unwrap_or(u32::MAX),
            ..content.tally.clone()
        };
        PluginOutcome {
            sink: Some(tally),
            ..content.outcome.clone()
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    /// Whether another snapshot may wait. One may always; no size is counted for a sink that keeps up.
    fn has_room_for(&self, document: &Document) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let waiting = self.waiting.iter().map(|parcel| &*parcel.document);
        let size_bytes: u64 = waiting.chain([document]).map(Document::size_bytes).sum();
        self.waiting.len() < limits::QUEUE && size_bytes <= limits::QUEUE_BYTES
    }

    fn drop_one(&mut self, reason: &str) {
        self.tally.dropped += 1;
        let message = match (&self.outcome.message, self.outcome.outcome) {
            // What keeps the queue full is the better reason.
            (Some(message), kind) if kind != OutcomeKind::Ok && !reason.contains(message) => {
                format!("{reason}: {message}")
            }
            _ => reason.to_owned(),
        };
        self.tally.last_dropped = Some(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Snapshot;
    use serde_json::json;

    /// A snapshot that is a little longer than `mebibytes` as JSON.
    fn document(mebibytes: usize) -> Arc<Document> {
        let time = "2026-11-30T01:33:20.000000Z";
        let snapshot = json!({
            "capture": {
                "completed_at": time, "duration_ms": 1.5, "id": "20261130T013320.000000Z-000007", "sequence": 7,
                "started_at": time,
            },
            "cgroup": { "files": {}, "version": 2 },
            "collector_version": "0.1.0",
            "filesystem": { "shared_memory": { "available": false, "path": "/dev/shm" } },
            "focus_files": ["x".repeat(mebibytes << 20)],
            "ipc": { "endpoints": [] },
            "processes": [],
            "schema_version": "1.1",
            "task": { "attempt": 0, "host": "h", "node": "n", "pathspec": "a/b" },
        });
        let snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
        Arc::new(Document::new(Arc::new(snapshot)))
    }

    fn queue() -> Queue {
        Queue::new(PluginOutcome {
            annotations: 0,
            duration_us: None,
            findings: 0,
            instance: "hook".to_owned(),
            memory_bytes: None,
            message: None,
            outcome: OutcomeKind::Ok,
            sink: None,
            version: None,
        })
    }

    fn counts(queue: &Queue) -> (u32, u64) {
        let tally = queue.outcome().sink.unwrap();
        (tally.queued, tally.dropped)
    }

    #[test]
    fn small_snapshots_wait_by_number_and_large_ones_by_size() {
        let small = queue();
        (0..10).for_each(|_| small.push(document(0)));
        assert_eq!(counts(&small), (8, 2));
        let large = queue();
        (0..5).for_each(|_| large.push(document(3)));
        assert_eq!(counts(&large), (2, 3));
        // One that makes all others go, and waits however large it is.
        large.push(document(9));
        assert_eq!(counts(&large), (1, 5));
        let reason = large.outcome().sink.unwrap().last_dropped;
        assert_eq!(reason.as_deref(), Some("its queue is full"));
    }

    #[test]
    fn what_is_to_be_tried_again_goes_where_there_is_no_room() {
        let queue = queue();
        queue.push(document(9));
        let parcel = queue.take().unwrap();
        queue.put_back(parcel);
        assert_eq!(counts(&queue), (1, 0));
        let parcel = queue.take().unwrap();
        queue.push(document(3));
        queue.put_back(parcel);
        assert_eq!(counts(&queue), (1, 1));
    }
}
