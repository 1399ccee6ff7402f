//! What a collector was asked for while it was at work, and has not done yet.

use std::time::Duration;

use model::Trigger;
use tokio::time::Instant;

use crate::collect::Request;
use crate::control::Board;
use crate::judging::Judging;
use crate::ledger::Ledger;
use crate::schedule::Schedule;
use crate::ui;

/// How often to look; none: as the settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval(Option<Duration>);

/// The latest wish of each kind counts.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// A snapshot, and why.
    next: Option<Trigger>,
    interval: Option<Interval>,
    pause: Option<bool>,
}

impl Wishes {
    /// Notes a request; returns the one to end. None means that nobody can ask any more.
    pub(crate) fn note(&mut self, request: Option<Request>) -> Option<Request> {
        match request {
            // What is wanted of us comes before what we want.
            Some(Request::Snapshot(Trigger::Burst)) => {
                self.next.get_or_insert(Trigger::Burst);
            }
            Some(Request::Snapshot(trigger)) => self.next = Some(trigger),
            Some(Request::Interval(interval)) => self.interval = Some(Interval(interval)),
            Some(Request::Pause) => self.pause = Some(true),
            Some(Request::Resume) => self.pause = Some(false),
            end => return Some(end.unwrap_or(Request::Stop)),
        }
        None
    }

    /// Takes the wish for a snapshot; one for a closer look where nothing is gained by it is dropped.
    pub(crate) fn take_next(&mut self, judging: &Judging, ledger: &Ledger) -> Option<Trigger> {
        let gains = judging.gains_by_closer_looks(ledger.interval());
        let next = self.next.take();
        next.filter(|next| gains || *next != Trigger::Burst)
    }

    /// Grants all wishes but a snapshot; returns how long a pause was that ends with the next one.
    pub(crate) fn apply(
        &mut self,
        ledger: &mut Ledger,
        schedule: &mut Schedule,
        board: &Board,
    ) -> Option<Duration> {
        let now = Instant::now();
        if let Some(Interval(interval)) = self.interval.take() {
            ledger.set_interval(interval);
            schedule.restart(now, ledger.interval());
            board.interval_is_asked_for(interval.is_some());
        }
        let mut paused = None;
        match self.pause.take() {
            Some(true) if !schedule.is_paused() => {
                schedule.pause(now);
                board.paused(true);
                ui::say(
                    "paused: no snapshots until `taskscope ctl resume`, but those that are asked for",
                );
            }
            Some(false) => {
                paused = schedule.resume(now);
                if let Some(paused) = paused {
                    self.next.get_or_insert(Trigger::Requested);
                    board.paused(false);
                    ui::say(&format!(
                        "goes on after a pause of {:.1} s",
                        paused.as_secs_f64()
                    ));
                }
            }
            _ => {}
        }
        board.scheduled(schedule, ledger);
        paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_wish_of_each_kind_counts_and_an_end_is_returned() {
        let mut wishes = Wishes::default();
        let second = Some(Duration::from_secs(1));
        for request in [
            Request::Pause,
            Request::Interval(None),
            Request::Snapshot(Trigger::Signal),
            Request::Resume,
            Request::Interval(second),
            Request::Snapshot(Trigger::Requested),
            Request::Snapshot(Trigger::Burst),
        ] {
            assert_eq!(wishes.note(Some(request)), None);
        }
        assert_eq!(wishes.next, Some(Trigger::Requested));
        assert_eq!(wishes.interval, Some(Interval(second)));
        assert_eq!(wishes.pause, Some(false));
        assert_eq!(
            wishes.note(Some(Request::TaskEnded)),
            Some(Request::TaskEnded)
        );
        assert_eq!(wishes.note(None), Some(Request::Stop));
    }
}
