//! The loop: a snapshot at once, one each interval by deadline, one on request, until it is told to finish.

use std::pin::pin;
use std::time::Duration;

use capture::Starts;
use model::Trigger;
use plugin::Hurry;
use store::Summary;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use crate::control::Board;
use crate::ledger::Ledger;
use crate::pipeline::{Kept, Line, look};
use crate::schedule::Schedule;
use crate::session::Opening;
use crate::wishes::Wishes;

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
    /// Look so often from here on; none: as the settings and the budget say.
    Interval(Option<Duration>),
    /// Take no snapshot but those that are asked for.
    Pause,
    /// Go on, with a snapshot at once.
    Resume,
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
            _ => STOP_GRACE,
        }
    }

    /// How long the end may be held up at most: the turn under way, at a stop the one that was asked for too, the last
    /// writes, and a little.
    pub(crate) fn finish_grace(self) -> Duration {
        let turns = match self {
            Self::TaskEnded => 1,
            _ => 2,
        };
        self.turn_grace() * turns + CLOSE_GRACE + Duration::from_secs(1)
    }
}

/// Runs until it is told to stop or until nobody can ask any more; `board` is told how it goes.
pub(crate) async fn collect(
    opening: Opening,
    mut ledger: Ledger,
    mut requests: UnboundedReceiver<Request>,
    board: Board,
) -> Summary {
    let mut schedule = Schedule::new(Instant::now(), ledger.interval());
    let start = ledger.begin(Trigger::Start, 0, Instant::now());
    let (eye, clock) = (opening.eye.clone(), opening.clock);
    let hurry = opening.plugins.hurry();
    let (mut wishes, mut starts) = (Wishes::default(), Starts::default());
    let (hurried, is_hurried) = watch::channel(false);
    board.begin();
    // The task may be short: look while the store is still being opened.
    let opening = async { tokio::join!(look(&eye, start, clock), opening.open(is_hurried)) };
    let ((first, mut line), early) =
        Box::pin(open(opening, &mut requests, &mut wishes, &hurried)).await;
    board.opened(&line.task);
    let mut end = match (first, early) {
        (Ok(snapshot), None) => {
            let turn = line.keep(snapshot);
            let turn = Box::pin(book(turn, &mut ledger, &mut schedule, &board));
            drive(turn, &mut requests, &mut wishes, &hurry).await
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
    while end != Some(Request::TaskEnded) {
        starts.done();
        let paused = wishes.apply(&mut ledger, &mut schedule, &board);
        let trigger = match (wishes.take_next(&line.judging, &ledger), end) {
            (Some(trigger), _) => trigger,
            (None, Some(_)) => break,
            (None, None) => tokio::select! {
                request = requests.recv() => {
                    end = wishes.note(request);
                    continue;
                }
                () = sleep_until(schedule.next()), if !schedule.is_paused() => schedule.trigger(),
            },
        };
        let mut cause = ledger.begin(trigger, schedule.take_missed(), Instant::now());
        cause.paused = paused;
        board.begin();
        let turn = line.turn(cause);
        if let Some(end) = end {
            finish(turn, end).await;
            continue;
        }
        let turn = Box::pin(book(turn, &mut ledger, &mut schedule, &board));
        end = drive(turn, &mut requests, &mut wishes, &hurry).await;
        if trigger == Trigger::Interval {
            schedule.advance(Instant::now(), ledger.interval());
        }
        board.scheduled(&schedule, &ledger);
    }
    board.note_pause();
    close(line).await
}

/// Writes what there is to write, within a bounded time.
async fn close(line: Line) -> Summary {
    if let Some(ends) = &line.ends {
        ends.close();
    }
    // What it keeps has to come before the writer is closed.
    if let Some(watch) = &line.watch {
        watch.finish().await;
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
    wishes: &mut Wishes,
    hurried: &watch::Sender<bool>,
) -> (T, Option<Request>) {
    let mut opening = pin!(opening);
    let mut end = None;
    loop {
        tokio::select! {
            biased;
            opened = &mut opening => return (opened, end),
            request = requests.recv(), if end.is_none() => {
                end = wishes.note(request);
                if end.is_some() {
                    hurried.send_replace(true);
                }
            }
        }
    }
}

/// Runs one turn and books what it cost and what came of it.
async fn book(
    turn: impl Future<Output = anyhow::Result<Kept>>,
    ledger: &mut Ledger,
    schedule: &mut Schedule,
    board: &Board,
) -> anyhow::Result<()> {
    let done = turn.await;
    let now = Instant::now();
    ledger.end(done.as_ref().ok(), now);
    let closer = done.as_ref().ok().and_then(|kept| kept.closer);
    schedule.look_again(closer.map(|after| now + after));
    board.end(done.as_ref());
    done.map(drop)
}

/// Runs one turn to its end while taking requests; returns the request to end, if it came. From then on the turn has the
/// time that the request allows and is then given up.
async fn drive(
    turn: impl Future<Output = anyhow::Result<()>>,
    requests: &mut UnboundedReceiver<Request>,
    wishes: &mut Wishes,
    hurry: &Hurry,
) -> Option<Request> {
    let mut turn = pin!(turn);
    loop {
        tokio::select! {
            biased;
            done = &mut turn => {
                if let Err(error) = done {
                    note(&error);
                }
                return None;
            }
            request = requests.recv() => if let Some(end) = wishes.note(request) {
                hurry.up(); // an end is not held up by a compiler
                finish(turn, end).await;
                return Some(end);
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
