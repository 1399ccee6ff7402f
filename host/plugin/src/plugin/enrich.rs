//! What is special about an enricher: it is asked about a snapshot, and its answer goes into it.

use std::sync::Arc;
use std::time::Instant;

use model::{OutcomeKind, PluginOutcome};

use super::{Plugin, Running};
use crate::answer::Taken;
use crate::bindings::enricher::Enricher;
use crate::bindings::enricher::exports::taskscope::plugin::enrich::Enrichment;
use crate::call::{begin_call, settle, timed};
use crate::document::Document;
use crate::engine::Ticker;
use crate::failure::Failure;

impl Plugin<Enricher> {
    /// Asks the plugin about `document`, adds what it says, and returns how it went. Never longer than the deadline
    /// for each of describe, init and run.
    pub(crate) async fn enrich(
        &mut self,
        document: &mut Arc<Document>,
        ticker: &Ticker,
    ) -> PluginOutcome {
        self.take_over(ticker).await;
        let mut outcome = self.outcome(OutcomeKind::Ok);
        if let Some(waiting) = self.waiting() {
            (outcome.outcome, outcome.message) = waiting;
            self.add_stale(&mut outcome);
            return outcome;
        }
        let begun = Instant::now();
        let answer = self.answer(document, ticker).await;
        self.measure(&mut outcome, begun);
        match answer {
            Ok(taken) => {
                self.succeeded();
                outcome.annotations = count(taken.annotations.len());
                outcome.findings = count(taken.findings.len());
                outcome.message = taken.complaint();
                if taken.is_over_limit {
                    outcome.outcome = OutcomeKind::OverLimit;
                }
                let document = Arc::make_mut(document);
                document.added_annotations.extend(taken.annotations);
                document.added_findings.extend(taken.findings);
            }
            Err(failure) => {
                outcome.outcome = failure.kind;
                outcome.message = Some(failure.message.clone());
                self.failed(failure);
            }
        }
        self.report.tell(&outcome);
        self.add_stale(&mut outcome); // told when it happened
        outcome
    }

    async fn answer(
        &mut self,
        document: &Arc<Document>,
        ticker: &Ticker,
    ) -> Result<Taken, Failure> {
        if self.is_worn() {
            self.discard();
        }
        if self.running.is_none() {
            self.start(ticker).await?;
        }
        let deadline = self.entry.deadline;
        let Some(Running {
            calls,
            store,
            world,
            ..
        }) = &mut self.running
        else {
            return Err(Failure::load("it did not start".to_owned()));
        };
        *calls += 1;
        store.data_mut().document = Some(Arc::clone(document));
        begin_call(store, deadline);
        let call = world.taskscope_plugin_enrich().call_run(&mut *store);
        let enrichment = timed(ticker, deadline, call).await;
        store.data_mut().document = None;
        let enrichment: Enrichment =
            settle(store, enrichment)?.map_err(|error| Failure::refused(&error))?;
        Ok(Taken::of(
            enrichment,
            document,
            &store.data().grants,
            &self.entry.instance,
        ))
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
