//! How the clocks of an attempt's nodes stand to each other: asked of what they saw together, and said in words.

use model::{Timestamp, span_words};
use store::{Clock, Key, Offset, Place, Since, Store, StoreError, Timeline};

use crate::root::AROUND;
use crate::ui::Progress;

/// More nodes than these are not looked at where it is only a help: each takes a handful of requests.
const MOST_NODES: usize = 8;
const SECOND: i64 = 1_000_000;

/// Returns how far the clocks of `others` are ahead of that of the node of `key`, around its instant; nothing where there are
/// too many nodes or they cannot be read. It is a help: without it a page stands all the same.
pub(crate) async fn offsets(store: &Store, key: &Key, others: &[String]) -> Vec<(String, Offset)> {
    if others.is_empty() || others.len() > MOST_NODES {
        return Vec::new();
    }
    let Ok(timeline) = around(store, key, others).await else {
        return Vec::new();
    };
    let nodes = timeline.nodes.into_iter().skip(1);
    nodes
        .map(|node| (node.place.node, node.clock.offset))
        .collect()
}

/// The snapshots of several nodes that are of one instant, whatever the clocks say.
#[derive(Debug)]
pub(crate) struct Together {
    /// How the clock of each node stands to that of the first one.
    pub(crate) clocks: Vec<Clock>,
    /// That of each node; none where it has no snapshot.
    pub(crate) keys: Vec<Option<Key>>,
}

/// Returns the snapshots of the node of `key`, which comes first, and of `others` at the instant of `key`: of each the one that is
/// nearest.
pub(crate) async fn together(
    store: &Store,
    key: &Key,
    others: &[String],
) -> Result<Together, StoreError> {
    let timeline = around(store, key, others).await?;
    let mut keys = timeline.at(key.id.stamp);
    // Itself, whatever its clock said later.
    keys[0] = Some(key.clone());
    Ok(Together::of(&timeline, keys))
}

/// Returns of `others` the snapshots at the instant of `key`.
pub(crate) async fn others_at(
    store: &Store,
    key: &Key,
    others: &[String],
) -> Result<Vec<Key>, StoreError> {
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let together = together(store, key, others).await?;
    Ok(together.keys.into_iter().skip(1).flatten().collect())
}

/// Returns the newest snapshots of the node of `place`, which comes first, and of `others`.
pub(crate) async fn newest_together(
    store: &Store,
    place: &Place,
    others: &[String],
) -> Result<Together, StoreError> {
    let timeline = timeline(store, place, others, Since::Recent, None).await?;
    Ok(Together::of(&timeline, timeline.at_the_end()))
}

impl Together {
    fn of(timeline: &Timeline, keys: Vec<Option<Key>>) -> Self {
        Self {
            clocks: timeline.nodes.iter().map(|it| it.clock).collect(),
            keys,
        }
    }
}

/// Returns the snapshots around `key` of its node, which comes first, and of `others`.
async fn around(store: &Store, key: &Key, others: &[String]) -> Result<Timeline, StoreError> {
    since(store, key, others, key.id.stamp).await
}

/// Returns the snapshots from `first` on of the node of `key`, which comes first, and of `others`, with how their clocks stand
/// at the instant of `key`.
pub(crate) async fn since(
    store: &Store,
    key: &Key,
    others: &[String],
    first: Timestamp,
) -> Result<Timeline, StoreError> {
    let since = Since::Time(first.before(AROUND));
    timeline(store, &key.place, others, since, Some(key.id.stamp)).await
}

async fn timeline(
    store: &Store,
    place: &Place,
    others: &[String],
    since: Since,
    instant: Option<Timestamp>,
) -> Result<Timeline, StoreError> {
    let node = |node: &String| Place {
        node: node.clone(),
        ..place.clone()
    };
    let first = std::iter::once(place.clone());
    let places: Vec<Place> = first.chain(others.iter().map(node)).collect();
    let progress = Progress::new("nodes", places.len());
    let read = store.timeline(places, since, instant, |done| {
        progress.show(done);
    });
    let timeline = read.await;
    progress.end();
    timeline
}

/// Returns what is known of the clock of another node, for its line on a page.
pub(crate) fn words(offset: Offset) -> String {
    // Bounds are widened to whole seconds.
    let least = offset.least.map(|micros| micros.div_euclid(SECOND));
    let most = offset.most.map(|micros| -((-micros).div_euclid(SECOND)));
    match (least, most) {
        (Some(least), Some(most)) if least > 0 => {
            format!("its clock is {} to {} ahead", span(least), span(most))
        }
        (Some(least), Some(most)) if most < 0 => {
            format!("its clock is {} to {} behind", span(most), span(least))
        }
        (Some(least), Some(most)) => {
            format!(
                "its clock is {} behind to {} ahead",
                span(least),
                span(most)
            )
        }
        (Some(least), None) if least > 0 => {
            format!("its clock is at least {} ahead", span(least))
        }
        (None, Some(most)) if most < 0 => {
            format!("its clock is at least {} behind", span(most))
        }
        (Some(least), None) => format!("its clock is at most {} behind", span(least)),
        (None, Some(most)) => format!("its clock is at most {} ahead", span(most)),
        (None, None) => "unknown how its clock stands: times are as it says".to_owned(),
    }
}

fn span(seconds: i64) -> String {
    span_words(seconds.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_said_and_never_a_guess() {
        let said = |least: Option<i64>, most: Option<i64>| words(Offset { least, most });
        let hour = 3600 * SECOND;
        assert_eq!(
            said(Some(hour - 12 * SECOND - 1), Some(hour + SECOND)),
            "its clock is 59m47s to 1h00m01s ahead"
        );
        assert_eq!(
            said(Some(-hour), Some(-hour + 1)),
            "its clock is 59m59s to 1h00m00s behind"
        );
        assert_eq!(
            said(Some(-3 * SECOND), Some(1)),
            "its clock is 3s behind to 1s ahead"
        );
        assert_eq!(
            said(Some(hour), None),
            "its clock is at least 1h00m00s ahead"
        );
        assert_eq!(
            said(None, Some(-hour)),
            "its clock is at least 1h00m00s behind"
        );
        assert_eq!(said(Some(-1), None), "its clock is at most 1s behind");
        assert_eq!(said(None, Some(1)), "its clock is at most 1s ahead");
        assert_eq!(
            said(None, None),
            "unknown how its clock stands: times are as it says"
        );
    }
}
