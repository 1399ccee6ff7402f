//! One sink at work: takes what waits, gives it to the plugin, and does what its answer asks for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep_until, timeout_at};

use super::queue::{Parcel, Queue};
use crate::engine::Ticker;
use crate::entry::Description;
use crate::limits;
use crate::load::Loaded;
use crate::plugin::{Plugin, Written};
use crate::world::Outlet;

/// A call that nothing cuts short but the deadline of its entry.
const UNBOUNDED: Duration = Duration::from_hours(24);
/// A snapshot that has cost so many instances costs no more.
const CRASHES: u8 = 2;

/// What a sink is told.
pub(super) enum Command {
    /// What loading its component gave, at the start or after its file changed.
    Loaded(Loaded),
    /// Say what it is, when that is known.
    Describe(oneshot::Sender<Result<Description, String>>),
}

/// One sink at work.
pub(super) struct Delivery {
    asked: Vec<oneshot::Sender<Result<Description, String>>>,
    commands: mpsc::UnboundedReceiver<Command>,
    end: watch::Receiver<Option<Instant>>,
    plugin: Plugin<Outlet>,
    queue: Arc<Queue>,
    /// How often in a row it could not do anything.
    refusals: u32,
    rest_until: Option<Instant>,
    ticker: Arc<Ticker>,
}

impl Delivery {
    pub(super) fn new(
        plugin: Plugin<Outlet>,
        queue: Arc<Queue>,
        commands: mpsc::UnboundedReceiver<Command>,
        end: watch::Receiver<Option<Instant>>,
        ticker: Arc<Ticker>,
    ) -> Self {
        Self {
            asked: Vec::new(),
            commands,
            end,
            plugin,
            queue,
            refusals: 0,
            rest_until: None,
            ticker,
        }
    }

    /// Delivers until the end comes; then what is left, as long as the end allows. Whoever is gone without a word leaves
    /// nothing to be done.
    pub(super) async fn run(mut self) {
        loop {
            self.catch_up().await;
            if self.end.borrow().is_some() {
                break;
            }
            let rest = self.rest();
            if self.plugin.is_ready()
                && rest.is_none()
                && let Some(parcel) = self.queue.take()
            {
                self.deliver(parcel, UNBOUNDED).await;
                continue;
            }
            let rested = async {
                match rest {
                    Some(until) => sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = self.end.changed() => if ended.is_err() {
                    return;
                },
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                () = self.queue.changed.notified() => {}
                () = rested => {}
            }
        }
        let until = *self.end.borrow();
        if let Some(until) = until {
            self.finish(until).await;
        }
    }

    /// Does what it was told meanwhile.
    async fn catch_up(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        self.plugin.take_over(&self.ticker).await;
        if self.plugin.is_compiling() {
            return;
        }
        for reply in std::mem::take(&mut self.asked) {
            let _ = reply.send(self.plugin.describe(&self.ticker).await);
        }
        if let Some(failure) = self.plugin.disabled() {
            let reason = failure.message.clone();
            self.queue.lose_all(&reason);
            let outcome = self.plugin.tell_untried();
            self.queue.set(|it| *it = outcome);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Loaded(loaded) => {
                let is_first = self.plugin.is_compiling();
                self.plugin.loaded(loaded);
                if is_first {
                    let outcome = self.plugin.untried();
                    self.queue.set(|it| *it = outcome);
                }
            }
            Command::Describe(reply) => self.asked.push(reply),
        }
    }

    /// When it may be called again, where that is not now.
    fn rest(&self) -> Option<Instant> {
        let now = Instant::now();
        let rests = [self.rest_until, self.plugin.rest_until()];
        rests
            .into_iter()
            .flatten()
            .filter(|until| *until > now)
            .max()
    }

    async fn deliver(&mut self, mut parcel: Parcel, most: Duration) {
        let begun = Instant::now();
        let written = self
            .plugin
            .write(&parcel.document, &self.ticker, most)
            .await;
        let outcome = self.plugin.tried(&written, begun);
        self.queue.set(|it| *it = outcome);
        self.rest_until = None;
        match written {
            Written::Taken(receipt) => self.queue.delivered(receipt.delivered),
            Written::Again(_, rest) => {
                self.refusals = self.refusals.saturating_add(1);
                let rest = rest.unwrap_or_else(|| backoff(self.refusals));
                self.rest_until = Some(Instant::now() + rest);
                self.queue.put_back(parcel);
                return;
            }
            Written::Refused(failure) | Written::Disabled(failure) => {
                self.queue.lost(&failure.message);
            }
            Written::Crashed(failure) => {
                parcel.crashes += 1;
                if parcel.crashes < CRASHES {
                    self.queue.put_back(parcel);
                } else {
                    self.queue
                        .lost(&format!("it crashed twice: {}", failure.message));
                }
            }
        }
        self.refusals = 0;
    }

    /// Delivers what is left and closes, until `until` at the latest; a third of the time is kept for the closing.
    async fn finish(&mut self, until: Instant) {
        let left = || until.saturating_duration_since(Instant::now());
        let last_write = until.checked_sub(left() / 3).unwrap_or(until);
        while !self.queue.is_empty() && self.plugin.is_compiling() {
            match timeout_at(last_write.into(), self.commands.recv()).await {
                Ok(Some(command)) => self.obey(command),
                Ok(None) | Err(_) => return,
            }
        }
        self.catch_up().await;
        while self.plugin.is_ready() {
            match self.rest() {
                Some(rest) if rest >= last_write => break,
                Some(rest) if !self.queue.is_empty() => sleep_until(rest.into()).await,
                _ => {}
            }
            let most = last_write.saturating_duration_since(Instant::now());
            if most.is_zero() {
                break;
            }
            let Some(parcel) = self.queue.take() else {
                break;
            };
            self.deliver(parcel, most).await;
        }
        if let Err(failure) = self.plugin.close(&self.ticker, left()).await {
            let plugin = self.plugin.instance();
            tracing::warn!("Sink {plugin} did not flush: {}.", failure.message);
        }
    }
}

/// One second, doubled with every refusal in a row, five minutes at most.
fn backoff(refusals: u32) -> Duration {
    let seconds = 2_u64.saturating_pow(refusals.saturating_sub(1).min(16));
    Duration::from_secs(seconds).min(limits::LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_five_minutes() {
        let rests = [1, 2, 3, 9, 10, u32::MAX].map(|refusals| backoff(refusals).as_secs());
        assert_eq!(rests, [1, 2, 4, 256, 300, 300]);
    }
}
