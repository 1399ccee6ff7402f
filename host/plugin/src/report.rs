//! What the user is told about a plugin: once per change, not once per snapshot.

use model::{OutcomeKind, PluginOutcome};

/// What was told last.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How it went, and whether something was to be said of it.
    last: Option<(OutcomeKind, bool)>,
}

impl Report {
    /// Tells of `outcome`, unless the one before was alike. Rests after a failure are no news.
    pub(crate) fn tell(&mut self, outcome: &PluginOutcome) {
        if matches!(
            outcome.outcome,
            OutcomeKind::NotReady | OutcomeKind::BackedOff
        ) {
            return;
        }
        let now = (outcome.outcome, outcome.message.is_some());
        let before = self.last.replace(now);
        if before == Some(now) {
            return;
        }
        let plugin = &outcome.instance;
        let kind = outcome.outcome;
        match (&outcome.message, before) {
            (Some(message), _) => {
                tracing::warn!("Plugin {plugin} {}: {message}.", verb(kind));
            }
            (None, Some(_)) => tracing::info!("Plugin {plugin} works again."),
            (None, None) => tracing::debug!("Plugin {plugin} works."),
        }
    }
}

/// What the plugin did, as the middle of a sentence.
fn verb(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Ok => "said something unusable",
        OutcomeKind::NotReady => "is not ready",
        OutcomeKind::LoadFailed => "could not be loaded",
        OutcomeKind::ConfigRefused => "refuses its settings",
        OutcomeKind::Refused => "has no answer",
        OutcomeKind::Trapped => "crashed",
        OutcomeKind::OutOfTime => "was too slow",
        OutcomeKind::OverLimit => "went over a limit",
        OutcomeKind::BackedOff => "rests",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn told(outcomes: &[(OutcomeKind, Option<&str>)]) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(tracing::Level::INFO)
            .with_target(false)
            .with_ansi(false)
            .without_time()
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let mut report = Report::default();
            for &(outcome, message) in outcomes {
                report.tell(&PluginOutcome {
                    annotations: 0,
                    duration_us: None,
                    findings: 0,
                    instance: "ranks".to_owned(),
                    memory_bytes: None,
                    message: message.map(str::to_owned),
                    outcome,
                    sink: None,
                    version: None,
                });
            }
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn only_changes_are_told() {
        let trapped = (OutcomeKind::Trapped, Some("panicked at x.rs: no"));
        let resting = (OutcomeKind::BackedOff, Some("it rests"));
        let ok = (OutcomeKind::Ok, None);
        let text = told(&[
            (OutcomeKind::NotReady, None),
            ok,
            ok,
            trapped,
            resting,
            trapped,
            trapped,
            ok,
            ok,
            trapped,
        ]);
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        assert_eq!(
            lines,
            [
                "WARN Plugin ranks crashed: panicked at x.rs: no.",
                "INFO Plugin ranks works again.",
                "WARN Plugin ranks crashed: panicked at x.rs: no.",
            ]
        );
    }
}
