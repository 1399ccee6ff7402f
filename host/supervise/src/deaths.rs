//! Ends of processes that are not ours to wait for: each is held by a pidfd, and one thread waits for all of them. While
//! nobody ends it does not wake.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::{Ending, ProcessId};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{Errno, write};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::kernel;

/// So many ends are taken from the kernel at a time; it hands them over in the order in which they happened.
const BATCH: usize = 64;
/// What our own wake-up is called among the processes.
const WAKE: u64 = 0;

/// Holds processes and tells their ends. Clones are the same.
#[derive(Clone, Debug)]
pub struct Deaths(Arc<Shared>);

/// One process that has ended.
#[derive(Debug)]
pub struct Death<'a> {
    /// Who.
    pub process: ProcessId,
    /// When we were told, which is when it ended unless the machine is very busy.
    pub at: Instant,
    /// Whether it has been reaped: nobody will know more of it than now.
    pub is_reaped: bool,
    pidfd: &'a OwnedFd,
}

/// What became of the wish to hold a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Its end will be told.
    Held,
    /// It has ended and been reaped.
    Gone,
    /// It is not held: there are as many as may be, or the kernel has no pidfds (they came with Linux 5.3) or no descriptor.
    Refused,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    held: Mutex<Held>,
    /// How many processes may be held.
    most: usize,
    /// Wakes the thread, to answer [`Deaths::settle`].
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Held {
    /// By the number that epoll gives back, which is never used again.
    processes: BTreeMap<u64, (ProcessId, Arc<OwnedFd>)>,
    numbers: BTreeMap<ProcessId, u64>,
    last: u64,
    waiting: Vec<Sender<()>>,
}

impl Deaths {
    /// Starts the thread, which tells `on_death` of each end and should not be held up by it: what is left of a process lasts
    /// until its parent takes it. Where it returns false, for it could not find out how the process ended, it is told once more when
    /// that has been reaped (Linux 6.9). `most` processes are held at a time.
    pub fn watch(
        most: usize,
        on_death: impl FnMut(&Death<'_>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            held: Mutex::new(Held::default()),
            most,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let told = epoll::EventData::new_u64(WAKE);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&shared.epoll, &shared.wake, told, flags)?;
        let for_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("deaths".to_owned())
            .spawn(move || run(&for_thread, on_death))?;
        Ok(Self(shared))
    }

    /// Holds `process` from now on, unless it is held already. `is_it` is asked once its PID can no longer be used again, and
    /// says whether the PID still is that process.
    pub fn hold(&self, process: ProcessId, is_it: impl FnOnce() -> bool) -> Hold {
        let Some(pid) = Some(process.pid)
            .filter(|pid| *pid > 0)
            .and_then(Pid::from_raw)
        else {
            return Hold::Gone;
        };
        if self.is_held(process) {
            return Hold::Held;
        }
        if self.count() >= self.0.most {
            return Hold::Refused;
        }
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Hold::Gone,
            Err(_) => return Hold::Refused,
        };
        if !is_it() {
            return Hold::Gone;
        }
        let pidfd = Arc::new(pidfd);
        let number = {
            let mut held = self.0.lock();
            held.last += 1;
            let number = held.last;
            held.numbers.insert(process, number);
            held.processes.insert(number, (process, Arc::clone(&pidfd)));
            number
        };
        let told = epoll::EventData::new_u64(number);
        // A process that has ended by now is told of at once.
        if epoll::add(&self.0.epoll, &pidfd, told, epoll::EventFlags::IN).is_ok() {
            return Hold::Held;
        }
        self.0.lock().forget(number);
        Hold::Refused
    }

    /// Whether the end of `process` will be told.
    pub fn is_held(&self, process: ProcessId) -> bool {
        self.0.lock().numbers.contains_key(&process)
    }

    /// How many processes are held.
    pub fn count(&self) -> usize {
        self.0.lock().processes.len()
    }

    /// Sends `signal` to `process` if it is held and lives; never to another that has its PID by now.
    pub fn signal(&self, process: ProcessId, signal: Signal) -> bool {
        let held = self.0.lock();
        let pidfd = held
            .numbers
            .get(&process)
            .and_then(|number| held.processes.get(number));
        let pidfd = pidfd.map(|(_, pidfd)| Arc::clone(pidfd));
        drop(held);
        pidfd.is_some_and(|pidfd| pidfd_send_signal(&pidfd, signal).is_ok())
    }

    /// Waits until all ends that have happened so far have been told, for `patience` at most; returns whether they have.
    pub fn settle(&self, patience: Duration) -> bool {
        let (sender, done): (_, Receiver<()>) = channel();
        self.0.lock().waiting.push(sender);
        let wake = write(&self.0.wake, &1_u64.to_ne_bytes());
        wake.is_ok() && done.recv_timeout(patience).is_ok()
    }
}

impl Death<'_> {
    /// Returns how it ended, as far as the kernel tells whoever holds a process: Linux 6.15 and later do, once its parent
    /// (or we) have reaped it. Until then it is a zombie, whose `/proc/PID/stat` says the same.
    pub fn ending(&self) -> Ending {
        kernel::exit_status(self.pidfd.as_fd()).map_or(Ending::Unknown, Ending::from_wait_status)
    }
}

impl Shared {
    /// Hands an end over. A panic in there must not end the thread.
    fn tell(&self, number: u64, death: &Death<'_>, on_death: &mut impl FnMut(&Death<'_>) -> bool) {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on_death(death)));
        if told.is_err() {
            // Whoever panicked has said so.
            tracing::debug!(process = %death.process, "The receiver of an end panicked.");
        }
        // That it has been reaped is told without being asked for.
        let data = epoll::EventData::new_u64(number);
        let nothing = epoll::EventFlags::empty();
        let waits = told.is_ok_and(|is_known| !is_known)
            && !death.is_reaped
            && epoll::modify(&self.epoll, death.pidfd, data, nothing).is_ok();
        if !waits {
            self.lock().forget(number);
            _ = epoll::delete(&self.epoll, death.pidfd);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn forget(&mut self, number: u64) -> Option<(ProcessId, Arc<OwnedFd>)> {
        let held = self.processes.remove(&number)?;
        self.numbers.remove(&held.0);
        Some(held)
    }
}

fn run(shared: &Shared, mut on_death: impl FnMut(&Death<'_>) -> bool) {
    let mut events = Vec::with_capacity(BATCH);
    loop {
        events.clear();
        match epoll::wait(&shared.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return tracing::warn!(%error, "Ends of processes are no longer told.");
            }
        }
        let is_full = events.len() == BATCH;
        let mut is_woken = false;
        for event in &events {
            let number = event.data.u64();
            is_woken |= number == WAKE;
            let held = shared.lock().processes.get(&number).cloned();
            if let Some((process, pidfd)) = held {
                let flags = event.flags;
                let death = Death {
                    process,
                    at: Instant::now(),
                    is_reaped: flags.contains(epoll::EventFlags::HUP),
                    pidfd: &pidfd,
                };
                shared.tell(number, &death, &mut on_death);
            }
        }
        if is_woken && is_full {
            // More have ended than came in one piece: first those.
            _ = write(&shared.wake, &1_u64.to_ne_bytes());
        } else if is_woken {
            for waiting in std::mem::take(&mut shared.lock().waiting) {
                _ = waiting.send(());
            }
        }
    }
}
