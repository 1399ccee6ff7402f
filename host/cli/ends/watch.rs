//! The thread that looks for new processes between snapshots, at how much memory is left, and writes obituaries out.

use std::sync::Weak;
use std::thread;
use std::time::{Duration, Instant};

use capture::MemoryCgroup;
use model::Trigger;
use tracing::warn;

use super::pressure::{Forecast, is_worth_watching};
use super::{Ends, Shared};
use crate::fault;

/// How often memory is looked at.
const TICK: Duration = Duration::from_millis(250);
/// New processes are looked for when no sample has for so long; at first each time, because that is when a task begins most of its
/// processes.
const DISCOVERY: Duration = Duration::from_millis(1500);
const BEGINNING: Duration = Duration::from_secs(3);
/// So long after the start there is another look, where somebody has come since that stays: who dies early is to have a stack too.
const FIRST_LOOKS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(15)];
/// So many cgroups of a task are watched for memory.
const MOST_CGROUPS: usize = 8;

/// Starts the thread. It ends with the last [`Ends`]; trouble is a warning.
pub(super) fn start(ends: &Ends, ask: impl Fn(Trigger) + Send + 'static) {
    let shared = std::sync::Arc::downgrade(&ends.0);
    let started = thread::Builder::new()
        .name("ends".to_owned())
        .spawn(move || run(&shared, &ask));
    if let Err(error) = started {
        warn!(%error, "Processes are looked for at snapshots alone, and no memory running out is foreseen.");
    }
}

fn run(shared: &Weak<Shared>, ask: &impl Fn(Trigger)) {
    let begun = Instant::now();
    let mut forecast = Forecast::default();
    let mut first_looks = FIRST_LOOKS.as_slice();
    let mut ticks = 0_u64;
    while let Some(shared) = shared.upgrade() {
        let ends = Ends(shared);
        if ends.is_closed() {
            return;
        }
        fault::provoke("ends");
        let now = Instant::now();
        let looked = ends.lock().looked();
        let is_due = looked.is_none_or(|last| now.duration_since(last) >= DISCOVERY);
        if is_due || now.duration_since(begun) < BEGINNING {
            ends.discover();
        }
        let is_whole_second = ticks.is_multiple_of(4);
        if is_whole_second || now.duration_since(begun) < BEGINNING {
            ends.follow_moves(now);
        }
        // The memory of the machine is much, and costs more to ask for.
        let with_machine = is_whole_second;
        ticks += 1;
        let is_looked_at = is_whole_second || !forecast.is_calm();
        if is_looked_at && ends.foresees(&mut forecast, now, with_machine) {
            ask(Trigger::Pressure);
        }
        if ends.is_time_to_look(now.duration_since(begun), &mut first_looks) {
            ask(Trigger::Start);
        }
        if is_whole_second {
            ends.count_births();
        }
        ends.write_some();
        drop(ends);
        thread::sleep(TICK);
    }
}

impl Ends {
    /// Notes who has been moved to another cgroup.
    fn follow_moves(&self, now: Instant) {
        let chosen = self.lock().may_have_moved(now);
        for process in chosen {
            if let Some(cgroup) = MemoryCgroup::of(&self.0.machine, process) {
                self.lock().is_in(process, cgroup);
            }
        }
    }

    /// Whether one of the first looks is due and worth it; then it is no longer among `looks`.
    fn is_time_to_look(&self, since_start: Duration, looks: &mut &[Duration]) -> bool {
        let Some((_, later)) = looks.split_first().filter(|(due, _)| since_start >= **due) else {
            return false;
        };
        *looks = later;
        self.lock().is_anybody_strange(Instant::now())
    }

    fn discover(&self) {
        _ = self.look();
        // Of those that nobody tells about.
        self.look_after_unheld();
    }

    /// Whether memory of a cgroup of the task, or of the machine, is about to run out.
    fn foresees(&self, forecast: &mut Forecast, now: Instant, with_machine: bool) -> bool {
        let cgroups = self.lock().cgroups.all();
        let mut rooms = Vec::new();
        for cgroup in cgroups.iter().take(MOST_CGROUPS) {
            if let Some(room) = cgroup.tightest() {
                let path = room.path.as_deref().filter(|_| is_worth_watching(&room));
                let spare = path.and_then(|path| cgroup.reclaimable(path));
                let needed = room.usage_bytes.saturating_sub(spare.unwrap_or(0));
                rooms.push((room, needed));
            }
        }
        forecast.look_over(rooms.iter().map(|(room, _)| room));
        if with_machine && let Some(room) = capture::machine_room(&self.0.machine) {
            let needed = room.usage_bytes;
            rooms.push((room, needed));
        }
        forecast.keep(|path| path.is_none() || rooms.iter().any(|(room, _)| room.path == *path));
        let mut is_foreseen = false;
        for (room, needed) in &rooms {
            is_foreseen |= forecast.note(now, room, *needed);
        }
        is_foreseen
    }
}
