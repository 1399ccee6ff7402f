//! Processes of the task that outlive its main one, and what they keep from others.

use std::thread::sleep;
use std::time::{Duration, Instant};

use capture::{Found, Holdings};

use rustix::process::Signal;

use super::Ends;
use crate::page::{count, safe};

/// What ends with the main process, such as a resource tracker that sees its pipe close, gets so long for it.
const GRACE: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_millis(5);
/// Who was sent SIGKILL is gone in a moment, unless it waits for a device.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// So many are told of by name.
const MOST_TOLD: usize = 4;

/// A process that goes on, and what it has open.
#[derive(Clone, Debug)]
pub(super) struct Leftover {
    pub(super) found: Found,
    pub(super) holdings: Holdings,
}

impl Ends {
    /// Returns what there is to say of processes that outlive the main one: a line each for the first, and how many more. Takes no time
    /// where there is none.
    ///
    /// With `grace` they are ended: by SIGTERM, and by SIGKILL who is still there after that time.
    pub(crate) fn leftovers(&self, grace: Option<Duration>) -> Vec<String> {
        let deadline = Instant::now() + GRACE;
        let mut living = self.living();
        while !living.is_empty() && Instant::now() < deadline {
            sleep(STEP);
            living = self.living();
        }
        let told: Vec<Leftover> = living
            .iter()
            .take(MOST_TOLD)
            .map(|found| Leftover {
                holdings: capture::holdings(&self.0.machine, found.process),
                found: found.clone(),
            })
            .collect();
        let mut lines = words(&told, living.len());
        if let Some(grace) = grace.filter(|_| !living.is_empty()) {
            lines.push(self.end_all(living, grace));
        }
        lines
    }

    /// Ends `living` and says how that went. Where a PID may be another process for us, nobody is signalled.
    fn end_all(&self, living: Vec<Found>, grace: Duration) -> String {
        if !self.0.machine.numbers_as_for_us() {
            return "they are not ended: --proc-root shows PIDs that are not those of taskscope's own PID namespace"
                .to_owned();
        }
        let total = living.len();
        self.signal(&living, Signal::TERM);
        let left = self.left_of(living, grace);
        let killed = left.len();
        self.signal(&left, Signal::KILL);
        let left = self.left_of(left, KILL_GRACE).len();
        match (killed, left) {
            (0, _) => format!("{} ended by SIGTERM", all(total)),
            (_, 0) => format!("{killed} of {total} had to be ended by SIGKILL"),
            _ => format!("{left} of {total} could not be ended"),
        }
    }

    fn signal(&self, living: &[Found], signal: Signal) {
        let Some(deaths) = &self.0.deaths else {
            return;
        };
        for found in living {
            // Who was found just now may not be held yet.
            let machine = &self.0.machine;
            deaths.hold(found.process, || capture::is_there(machine, found.process));
            deaths.signal(found.process, signal);
        }
    }

    /// Waits until all of `living` have ended, for `patience` at most; returns who has not.
    fn left_of(&self, mut living: Vec<Found>, patience: Duration) -> Vec<Found> {
        let deadline = Instant::now() + patience;
        loop {
            let machine = &self.0.machine;
            living.retain(|found| {
                let is_there = capture::is_there(machine, found.process);
                is_there && capture::remains(machine, found.process).is_none()
            });
            if living.is_empty() || Instant::now() >= deadline {
                return living;
            }
            sleep(STEP);
        }
    }

    /// The processes of the task that live, but for its main one.
    fn living(&self) -> Vec<Found> {
        let mut scope = self.scope();
        let root = scope.root();
        let Ok(targets) = capture::discover(&self.0.machine, &mut scope) else {
            return Vec::new();
        };
        let living = targets.found();
        living
            .filter(|found| !found.is_zombie && found.process != root)
            .collect()
    }
}

fn words(told: &[Leftover], total: usize) -> Vec<String> {
    let mut lines: Vec<String> = told
        .iter()
        .map(|leftover| {
            let Found { name, process, .. } = &leftover.found;
            let kept = kept(&leftover.holdings);
            format!(
                "{} (pid {}) outlives the task{kept}",
                safe(name),
                process.pid
            )
        })
        .collect();
    if total > told.len() {
        let more = count(total - told.len(), "more process", "more processes");
        let verb = if total - told.len() == 1 {
            "outlives"
        } else {
            "outlive"
        };
        lines.push(format!("{more} {verb} the task"));
    }
    lines
}

fn all(total: usize) -> String {
    match total {
        1 => "it was".to_owned(),
        2 => "both were".to_owned(),
        _ => format!("all {total} were"),
    }
}

fn kept(holdings: &Holdings) -> String {
    let mut parts = Vec::new();
    if holdings.our_output {
        parts.push("keeps its output open, so whoever reads it waits".to_owned());
    }
    let listens: Vec<String> = holdings.listens.iter().map(|one| safe(one)).collect();
    if !listens.is_empty() {
        parts.push(format!("listens at {}", listens.join(", ")));
    }
    let devices: Vec<String> = holdings.devices.iter().map(|one| safe(one)).collect();
    if !devices.is_empty() {
        parts.push(format!("has {} open", devices.join(", ")));
    }
    if holdings.pipes > 0 {
        parts.push(format!(
            "has {} open",
            count(holdings.pipes, "pipe", "pipes")
        ));
    }
    if !holdings.is_whole {
        parts.push("what it has open could not all be read".to_owned());
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(": {}", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ProcessId;

    fn leftover(name: &str, holdings: Holdings) -> Leftover {
        let process = ProcessId {
            pid: 7,
            start_time_ticks: 1,
        };
        let found = Found {
            is_zombie: false,
            name: name.to_owned(),
            ppid: 1,
            process,
        };
        Leftover { found, holdings }
    }

    #[test]
    fn what_a_leftover_keeps_is_said_and_the_rest_counted() {
        let whole = || Holdings {
            is_whole: true,
            ..Holdings::default()
        };
        let server = Holdings {
            devices: ["/dev/nvidia0".to_owned()].into(),
            listens: ["0.0.0.0:29500".to_owned()].into(),
            our_output: true,
            pipes: 1,
            ..whole()
        };
        let lines = words(
            &[leftover("py\u{1b}thon", server), leftover("sleep", whole())],
            3,
        );
        assert_eq!(
            lines,
            [
                "py\\u{1b}thon (pid 7) outlives the task: keeps its output open, so whoever reads it waits; listens at 0.0.0.0:29500; has /dev/nvidia0 open; has 1 pipe open",
                "sleep (pid 7) outlives the task",
                "1 more process outlives the task",
            ]
        );
        let denied = words(&[leftover("x", Holdings::default())], 1);
        assert_eq!(
            denied,
            ["x (pid 7) outlives the task: what it has open could not all be read"]
        );
        assert!(words(&[], 0).is_empty());
    }
}
