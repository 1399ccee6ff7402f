//! The loop: a snapshot at once, one each interval by deadline, one on request, until it is told to finish.

use std::pin::pin;
use std::time::Duration;

use model::Trigger;
use plugin::Hurry;
use store::Summary;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use crate::ledger::Ledger;
use crate::pipeline::{Kept, look};
use crate::session::Opening;

/// How long a turn that is under way may go on once the task has ended.
const TURN_GRACE: Duration = Duration::from_secs(2);
/// And how long where the task lives on and nobody waits for its exit: the last snapshot is worth more than a quick end.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long the last writes, and sinks beside them, may take once the task has ended.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// What the collector is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Take a snapshot now, for this reason.
    Snapshot(Trigger),
    /// The task has ended: write what there is and stop.
    TaskEnded,
    /// Nobody wants more: do what was asked for, write what there is and stop.
    Stop,
}

impl Request {
    /// How long a turn may go on after this.
    fn turn_grace(self) -> Duration {
        match self {
            Self::TaskEnded => TURN_GRACE,
            Self::Snapshot(_) | Self::Stop => STOP_GRACE,
        }
    }

    /// How long the end may be held up at most: the turn under way, at a stop the one that was asked for too, the last
    /// writes, and a little.
    pub(crate) fn finish_grace(self) -> Duration {
        let turns = match self {
            Self::TaskEnded => 1,
            Self::Snapshot(_) | Self::Stop => 2,
        };
        self.turn_grace() * turns + CLOSE_GRACE + Duration::from_secs(1)
    }
}

/// Runs until it is told to stop or until nobody can ask any more.
pub(crate) async fn collect(
    opening: Opening,
    mut ledger: Ledger,
    mut requests: UnboundedReceiver<Request>,
) -> Summary {
    let mut schedule = Schedule::new(Instant::now(), ledger.interval());
    let start = ledger.begin(Trigger::Start, 0, Instant::now());
    let (eye, clock) = (opening.eye.clone(), opening.clock);
    let hurry = opening.plugins.hurry();
    let mut next = None;
    let (hurried, is_hurried) = watch::channel(false);
    // The task may be short: look while the store is still being opened.
    let opening = async { tokio::join!(look(&eye, start, clock), opening.open(is_hurried)) };
    let ((first, mut line), early) =
        Box::pin(open(opening, &mut requests, &mut next, &hurried)).await;
    let mut end = match (first, early) {
        (Ok(snapshot), None) => {
            let turn = line.keep(snapshot);
            drive(turn, &mut ledger, &mut requests, &mut next, &hurry).await
        }
        (Ok(snapshot), Some(end)) => {
            hurry.up(); // an end is not held up by a compiler
            finish(line.keep(snapshot), end).await;
            early
        }
        (Err(error), _) => {
            note(&error);
            early
        }
    };
    capture::forget_start();
    while end != Some(Request::TaskEnded) {
        let trigger = match (next.take(), end) {
            (Some(trigger), _) => trigger,
            (None, Some(_)) => break,
            (None, None) => tokio::select! {
                request = requests.recv() => match request {
                    Some(Request::Snapshot(trigger)) => trigger,
                    Some(Request::TaskEnded | Request::Stop) | None => break,
                },
                () = sleep_until(schedule.due()) => Trigger::Interval,
            },
        };
        let cause = ledger.begin(trigger, schedule.take_missed(), Instant::now());
        let turn = line.turn(cause);
        if let Some(end) = end {
            finish(turn, end).await;
            continue;
        }
        end = drive(turn, &mut ledger, &mut requests, &mut next, &hurry).await;
        if trigger == Trigger::Interval {
            schedule.advance(Instant::now(), ledger.interval());
        }
    }
    if let Some(ends) = &line.ends {
        ends.close();
    }
    let (summary, ()) = tokio::join!(
        line.writer.close(CLOSE_GRACE),
        line.sinks.close(CLOSE_GRACE)
    );
    summary
}

/// Opens what there is to open while taking requests; one to end says `hurried`, and is returned.
async fn open<T>(
    opening: impl Future<Output = T>,
    requests: &mut UnboundedReceiver<Request>,
    next: &mut Option<Trigger>,
    hurried: &watch::Sender<bool>,
) -> (T, Option<Request>) {
    let mut opening = pin!(opening);
    let mut end = None;
    loop {
        tokio::select! {
            biased;
            opened = &mut opening => return (opened, end),
            request = requests.recv(), if end.is_none() => match request {
                Some(Request::Snapshot(trigger)) => *next = Some(trigger),
                other => {
                    hurried.send_replace(true);
                    end = Some(other.unwrap_or(Request::Stop));
                }
            },
        }
    }
}

/// Runs one turn to its end while taking requests, and books it; returns the request to end, if it came. From then on the
/// turn has the time that the request allows and is then given up.
async fn drive(
    turn: impl Future<Output = anyhow::Result<Kept>>,
    ledger: &mut Ledger,
    requests: &mut UnboundedReceiver<Request>,
    next: &mut Option<Trigger>,
    hurry: &Hurry,
) -> Option<Request> {
    let mut turn = pin!(turn);
    loop {
        tokio::select! {
            biased;
            done = &mut turn => {
                ledger.end(done.as_ref().ok(), Instant::now());
                if let Err(error) = done {
                    note(&error);
                }
                return None;
            }
            request = requests.recv() => match request {
                Some(Request::Snapshot(trigger)) => *next = Some(trigger),
                end => {
                    hurry.up(); // an end is not held up by a compiler
                    let end = end.unwrap_or(Request::Stop);
                    finish(turn, end).await;
                    return Some(end);
                }
            },
        }
    }
}

/// Gives a turn as long as `end` allows.
async fn finish<T>(turn: impl Future<Output = anyhow::Result<T>>, end: Request) {
    match timeout(end.turn_grace(), turn).await {
        Ok(Err(error)) => debug!("{error:#}"),
        Err(_) => warn!("The end came while a snapshot was being taken; that snapshot is lost."),
        Ok(Ok(_)) => {}
    }
}

/// Says that a turn failed; "nothing to look at" is how every task ends and is no news.
fn note(error: &anyhow::Error) {
    if matches!(
        error.downcast_ref(),
        Some(capture::CaptureError::NothingLeft { .. })
    ) {
        debug!("{error:#}");
    } else {
        warn!("No snapshot this time: {error:#}.");
    }
}

/// When the next cycle is due. Deadlines are whole intervals apart, whatever a cycle takes; those that pass while a cycle
/// is at work are missed, not caught up.
#[derive(Debug)]
struct Schedule {
    due: Instant,
    interval: Duration,
    missed: u64,
}

impl Schedule {
    fn new(start: Instant, interval: Duration) -> Self {
        Self {
            due: start + interval,
            interval,
            missed: 0,
        }
    }

    fn due(&self) -> Instant {
        self.due
    }

    /// Moves on after the cycle that was due, at `now`, by the `interval` in force from here on.
    fn advance(&mut self, now: Instant, interval: Duration) {
        self.interval = interval;
        self.due += self.interval;
        let late = now.saturating_duration_since(self.due);
        if late > Duration::ZERO {
            let passed =
                u64::try_from(late.as_nanos() / self.interval.as_nanos()).unwrap_or(u64::MAX) + 1;
            self.missed = self.missed.saturating_add(passed);
            self.due += self.interval * u32::try_from(passed).unwrap_or(u32::MAX);
        }
    }

    fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn cycles_in_time_keep_to_the_deadlines() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.advance(start + SECOND + SECOND / 2, SECOND);
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 2 * SECOND, 0)
        );
    }

    #[test]
    fn deadlines_that_passed_are_missed_and_counted_once() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.advance(start + 4 * SECOND + SECOND / 2, SECOND); // due at 1; 2, 3 and 4 passed meanwhile
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 5 * SECOND, 3)
        );
        schedule.advance(start + 5 * SECOND, SECOND);
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 6 * SECOND, 0)
        );
    }

    #[test]
    fn a_longer_interval_counts_from_the_deadline_that_was_due() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.advance(start + SECOND + SECOND / 2, 3 * SECOND);
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 4 * SECOND, 0)
        );
    }
}
