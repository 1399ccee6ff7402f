//! Births and ends of all processes that descend from the task, as the kernel tells them: each one, however short it lived and
//! whoever took its status.
//!
//! The process connector (`NETLINK_CONNECTOR`, `CN_IDX_PROC`; `linux/cn_proc.h`) says of each process of the machine when it was
//! forked and by whom, and how it ended. It is there in the first PID and user namespace and for the first network namespace, so
//! seldom in a container. Only the form of Linux 6.6 and later is asked for: it leaves out what we do not use, any user may ask,
//! and it ends with the socket; before that a listener that was killed left the kernel telling its tale to nobody.
//!
//! The messages are taken from the kernel some times a second, never one by one: while no process begins or ends the thread sleeps.

mod lineage;
mod message;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, socket_recv_buffer_size,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

pub use lineage::Born;
use lineage::Lineage;
use message::{Event, MESSAGE_SIZE};

/// The multicast group of the process connector, as a mask.
const GROUP: u32 = 1;
/// Room for messages, where we may have as much.
const ROOM: usize = 8 << 20;
/// With so much room the messages are taken so seldom, else more often.
const LARGE: usize = 4 << 20;
const SELDOM: Duration = Duration::from_millis(100);
const OFTEN: Duration = Duration::from_millis(20);
/// More messages than so many a second, for so long, cost more than they are worth: about one percent of a core.
const MOST_PER_SECOND: u64 = 10_000;
const TOO_LONG: Duration = Duration::from_secs(10);
/// The answer of the kernel is there when our question has been sent. Its clock and ours differ by no more than this, unless we
/// are in a time namespace.
const SAME_CLOCK: Duration = Duration::from_mins(1);

/// Why births are not told, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum BirthsError {
    /// The kernel does not answer.
    #[error("the kernel's process connector does not answer")]
    NoAnswer,
    /// The kernel refuses.
    #[error("the kernel's process connector cannot be had: {0}")]
    Refused(#[source] io::Error),
    /// There were more messages than there was room for.
    #[error("more processes began and ended than the kernel's process connector could tell")]
    Overrun,
    /// There are so many messages that taking them is too dear.
    #[error("the processes of this machine begin and end too fast to count them")]
    TooMany,
}

/// A socket to which the kernel tells of births and ends from now on. It is not inherited by a task.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
    /// Between two times that messages are taken.
    rest: Duration,
}

/// What was told of the processes that descend from the task. Clones are the same.
#[derive(Clone, Debug)]
pub struct Births(Arc<Mutex<Told>>);

#[derive(Debug)]
struct Told {
    connector: Option<Connector>,
    lineage: Lineage,
    /// Why something may be missing.
    trouble: Option<Arc<BirthsError>>,
}

impl Connector {
    /// Asks the kernel to tell; starts no thread, and takes a few system calls.
    pub fn open() -> Result<Self, BirthsError> {
        let refused = |errno: Errno| BirthsError::Refused(errno.into());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(CONNECTOR),
        )
        .map_err(refused)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUP)).map_err(refused)?;
        // The first needs CAP_NET_ADMIN; the second gives as much as everybody may have.
        if set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            set_socket_recv_buffer_size(&socket, ROOM).map_err(refused)?;
        }
        let is_large = socket_recv_buffer_size(&socket).is_ok_and(|size| size >= LARGE);
        let own = std::process::id();
        let ask = |events| {
            let question = message::question(events, own);
            send(&socket, &question, SendFlags::empty()).map_err(refused)
        };
        // Who asks for a part alone is given no answer.
        ask(message::ALL)?;
        await_answer(&socket, own)?;
        ask(message::FORKS_AND_EXITS)?;
        Ok(Self {
            socket,
            rest: if is_large { SELDOM } else { OFTEN },
        })
    }

    /// Returns what is told of the descendants of the process `root` from the opening of the connector on. Nothing is taken from the
    /// kernel yet, so that others whose descendants count too can be adopted before.
    pub fn follow(self, root: i32) -> Births {
        let mut lineage = Lineage::default();
        lineage.adopt(root, monotonic());
        Births(Arc::new(Mutex::new(Told {
            connector: Some(self),
            lineage,
            trouble: None,
        })))
    }
}

/// The kernel answers while we ask, so that the answer is there, behind what it has told in that instant.
fn await_answer(socket: &OwnedFd, own: u32) -> Result<(), BirthsError> {
    loop {
        match next(socket) {
            Ok(Some(Event::Answer {
                errno,
                question,
                at,
            })) if question == own => {
                let is_same_clock = monotonic().abs_diff(at) < SAME_CLOCK;
                return match errno {
                    0 if is_same_clock => Ok(()),
                    _ => Err(BirthsError::NoAnswer),
                };
            }
            Ok(None) => return Err(BirthsError::NoAnswer),
            Ok(Some(_)) => {}
            Err(errno) => return Err(BirthsError::Refused(errno.into())),
        }
    }
}

/// Returns what was told next; nothing where nothing waits.
fn next(socket: &OwnedFd) -> Result<Option<Event>, Errno> {
    let mut buffer = [0; MESSAGE_SIZE];
    loop {
        match recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => return Ok(Some(message::parse(&buffer[..length]))),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl Births {
    /// Starts the thread that takes what the kernel tells.
    pub fn start(&self) -> io::Result<()> {
        let births = self.clone();
        let named = thread::Builder::new().name("births".to_owned());
        named.spawn(move || births.run()).map(drop)
    }

    /// Notes that `pid` is one of the task's that somebody has seen, so that those whom it forks from now on are known.
    pub fn adopt(&self, pid: i32) {
        self.lock().lineage.adopt(pid, monotonic());
    }

    /// Hands those over that ended longer than `age` ago, or all that have ended where they are very many. Of each `has_ended` says
    /// whether it is gone, which it is not while its first thread alone has ended; then it is not spoken of again.
    pub fn settle(&self, age: Duration, has_ended: impl FnMut(&Born) -> bool) {
        let mut told = self.lock();
        told.take();
        let before = monotonic().saturating_sub(age);
        told.lineage.settle(before, has_ended);
    }

    /// Returns the process of number `pid` that `is_it` names, where its end was told and it was not settled yet. Of one whose first
    /// thread has ended alone that is the end of this thread.
    pub fn ended(&self, pid: i32, is_it: impl FnMut(&Born) -> bool) -> Option<Born> {
        let mut told = self.lock();
        told.take();
        told.lineage.ended(pid, is_it)
    }

    /// Hands those over of which no end was told.
    pub fn unended(&self) -> Vec<Born> {
        let mut told = self.lock();
        told.take();
        told.lineage.unended()
    }

    /// Returns why something may be missing; nothing where all was told.
    pub fn trouble(&self) -> Option<Arc<BirthsError>> {
        self.lock().trouble.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes messages until there is nothing to be had any more.
    fn run(&self) {
        let Some((socket, rest)) = self.lock().connector.as_ref().and_then(Connector::twin) else {
            return self.lock().give_up(BirthsError::NoAnswer);
        };
        let mut since = Instant::now();
        let mut count = 0;
        loop {
            let mut waiting = [PollFd::new(&socket, PollFlags::IN)];
            // What goes wrong with it is found out when it is read.
            _ = poll(&mut waiting, None);
            let mut told = self.lock();
            count += told.take();
            let elapsed = since.elapsed();
            if elapsed >= TOO_LONG {
                if count > MOST_PER_SECOND * elapsed.as_secs() {
                    told.give_up(BirthsError::TooMany);
                }
                (since, count) = (Instant::now(), 0);
            }
            if told.connector.is_none() {
                return;
            }
            drop(told);
            thread::sleep(rest);
        }
    }
}

impl Connector {
    /// Returns its socket once more, to wait at without holding anybody up, and how long to rest in between.
    fn twin(&self) -> Option<(OwnedFd, Duration)> {
        let socket = rustix::io::fcntl_dupfd_cloexec(&self.socket, 0);
        Some((socket.ok()?, self.rest))
    }
}

impl Told {
    /// Takes what waits; returns how many messages that were.
    fn take(&mut self) -> u64 {
        let mut count = 0;
        while let Some(connector) = &self.connector {
            match next(&connector.socket) {
                Ok(Some(event)) => {
                    count += 1;
                    if !self.lineage.note(event) {
                        self.trouble = Some(Arc::new(BirthsError::Overrun));
                    }
                }
                Ok(None) => break,
                // Some are lost; who comes now is told of again.
                Err(Errno::NOBUFS) => self.trouble = Some(Arc::new(BirthsError::Overrun)),
                Err(errno) => self.give_up(BirthsError::Refused(errno.into())),
            }
        }
        count
    }

    fn give_up(&mut self, why: BirthsError) {
        self.connector = None;
        self.trouble = Some(Arc::new(why));
    }
}

/// The clock of the messages.
fn monotonic() -> Duration {
    clock(ClockId::CLOCK_MONOTONIC)
}

fn clock(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

impl Born {
    /// Returns when it was forked since the boot of the machine, as `/proc/PID/stat` counts; the process began some microseconds
    /// before. That clock goes on while the machine sleeps.
    pub fn since_boot(&self) -> Option<Duration> {
        let slept = clock(ClockId::CLOCK_BOOTTIME).saturating_sub(monotonic());
        Some(self.forked? + slept)
    }

    /// Returns how long ago it ended.
    pub fn ended_ago(&self) -> Option<Duration> {
        Some(monotonic().saturating_sub(self.ended?))
    }
}
