//! A stored snapshot as it was before a plugin spoke, and what the plugin says to it now.

use std::time::Duration;

use anyhow::Context;
use model::{Annotation, Finding, OutcomeKind, PluginOutcome, Snapshot, SnapshotId};
use plugin::Plugins;
use serde::Serialize;

/// What a plugin says to one snapshot.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) annotations: Vec<Annotation>,
    pub(super) findings: Vec<Finding>,
    pub(super) outcome: PluginOutcome,
    pub(super) recorded: Recorded,
    pub(super) snapshot: SnapshotId,
}

/// How that compares to what the snapshot has of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Recorded {
    Same,
    Different,
    /// The run did not have this plugin, or it gave no answer there.
    Nothing,
}

impl Answer {
    /// Whether the plugin now rests, so that it would not be asked about the snapshots that follow.
    pub(super) fn ends_the_test(&self) -> bool {
        !matches!(
            self.outcome.outcome,
            OutcomeKind::Ok | OutcomeKind::Refused | OutcomeKind::OverLimit
        ) || self.outcome.outcome == OutcomeKind::OverLimit && self.annotations.is_empty()
    }
}

/// Asks the one plugin of `plugins`, `instance`, about `snapshot`.
pub(super) async fn replay(
    plugins: &mut Plugins,
    instance: &str,
    mut snapshot: Snapshot,
    patience: Duration,
) -> anyhow::Result<Answer> {
    let recorded = take(&mut snapshot, instance);
    let before = (snapshot.annotations.len(), snapshot.findings.len());
    let mut snapshot = plugins.enrich(snapshot, patience).await;
    let outcome = snapshot.plugins.pop();
    let mut answer = Answer {
        annotations: snapshot.annotations.split_off(before.0),
        findings: snapshot.findings.split_off(before.1),
        outcome: outcome.context("the plugin has no outcome")?,
        recorded: Recorded::Nothing,
        snapshot: snapshot.capture.id,
    };
    if let Some((annotations, findings)) = recorded {
        let is_same = annotations == answer.annotations && findings == answer.findings;
        answer.recorded = if is_same {
            Recorded::Same
        } else {
            Recorded::Different
        };
    }
    Ok(answer)
}

/// Takes out of `snapshot` what `instance` and the plugins after it said. Returns what `instance` said, if it answered.
fn take(snapshot: &mut Snapshot, instance: &str) -> Option<(Vec<Annotation>, Vec<Finding>)> {
    let mut plugins = snapshot.plugins.iter();
    let position = plugins.position(|outcome| outcome.instance == instance)?;
    let later: Vec<String> = snapshot.plugins[position..]
        .iter()
        .map(|outcome| outcome.instance.clone())
        .collect();
    let is_later = |plugin: &str| later.iter().any(|later| later == plugin);
    let is_ours = |plugin: &str| plugin == instance;
    let (annotations, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut snapshot.annotations)
        .into_iter()
        .filter(|said| is_ours(&said.plugin) || !is_later(&said.plugin))
        .partition(|said| is_ours(&said.plugin));
    snapshot.annotations = kept;
    let of = |found: &Finding| found.plugin.clone().unwrap_or_default();
    let (findings, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut snapshot.findings)
        .into_iter()
        .filter(|found| is_ours(&of(found)) || !is_later(&of(found)))
        .partition(|found| is_ours(&of(found)));
    snapshot.findings = kept;
    let answered = snapshot.plugins[position].outcome == OutcomeKind::Ok;
    snapshot.plugins.truncate(position);
    answered.then_some((annotations, findings))
}
