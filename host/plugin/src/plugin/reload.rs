//! What happens when the file of a plugin changes while it is in use.

use model::PluginOutcome;

use super::{Loading, Plugin, Running};
use crate::engine::Ticker;
use crate::failure::Failure;
use crate::interface::State;
use crate::world::Exports;

impl<W: Exports> Plugin<W> {
    /// Lets what its file became take over from what runs. Where that cannot be, what runs goes on.
    pub(crate) async fn take_over(&mut self, ticker: &Ticker) {
        let Some(next) = self.next.take() else {
            return;
        };
        let plugin = &self.entry.instance;
        let runs = matches!(self.component, Loading::Ready(_));
        let reason = match next {
            Ok(component) => {
                let started = self.start_new(&component, self.state().clone(), ticker);
                match started.await {
                    Ok((running, description)) => {
                        tracing::info!("Plugin {plugin} runs its new code.");
                        let old = self.running.replace(running);
                        self.succeeded();
                        self.component = Loading::Ready(component);
                        self.description = Some(description);
                        self.stale = None;
                        return self.bid_farewell(old, ticker).await;
                    }
                    Err((failure, _)) if runs => failure.message,
                    Err((failure, _)) => {
                        self.component = Loading::Ready(component);
                        return self.failed(failure);
                    }
                }
            }
            Err(reason) if runs => reason,
            Err(reason) => {
                self.component = Loading::Disabled(Failure::load(reason));
                return;
            }
        };
        let stale =
            format!("what its file became cannot be used ({reason}); the code from before goes on");
        if self.stale.as_ref() != Some(&stale) {
            tracing::warn!("Plugin {plugin}: {stale}.");
        }
        self.stale = Some(stale);
    }

    pub(super) fn add_stale(&self, outcome: &mut PluginOutcome) {
        if let Some(stale) = &self.stale {
            let before = outcome.message.take();
            let before = before
                .map(|message| format!("{message}; "))
                .unwrap_or_default();
            outcome.message = Some(before + stale);
        }
    }

    async fn bid_farewell(&self, old: Option<Running<W>>, ticker: &Ticker) {
        if let Some(Running {
            mut store,
            mut world,
            ..
        }) = old
        {
            let deadline = self.entry.deadline;
            world.leave(&mut store, ticker, deadline).await;
        }
    }

    fn state(&self) -> &State {
        self.running
            .as_ref()
            .map_or(&self.state, |running| &running.store.data().state)
    }
}
