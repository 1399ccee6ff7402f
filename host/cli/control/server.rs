//! The thread that listens. It sleeps until somebody speaks, reads in rounds that are bounded in number and size, and never
//! waits for anybody.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::net::sockopt::{set_socket_passcred, socket_peercred};
use rustix::process::Pid;
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::board::{Board, Tally};
use super::client::{Client, State};
use super::desk::Desk;
use super::owners::Owners;
use super::place::{Socket, clean};
use super::stages::SharedStages;
use crate::collect::Request;
use crate::ends::Ends;
use crate::fault;

/// So many connections at once; further ones are closed.
const CLIENTS: usize = 256;
/// So many connections are taken in a round.
const ACCEPTED: usize = 8;
/// So many connections are read in a round, 16 KiB of each.
const READ: usize = 16;
/// Rounds follow each other at once until so many have; then there is one a pause.
const ROUNDS: u32 = 64;
const PAUSE: Duration = Duration::from_millis(1);
/// How long nobody is taken where no descriptor can be had.
const SHORTAGE: Duration = Duration::from_millis(100);
/// How much is read of each connection at the end, in rounds: more than a socket holds.
const LAST_ROUNDS: usize = 128;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const DEATH: u64 = 2;

/// The listening thread. Dropping it ends the thread and removes the socket.
#[derive(Debug)]
pub(crate) struct Server {
    _socket: Arc<Socket>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to listen; trouble is a warning, and nobody is heard then.
    pub(crate) fn start(
        socket: Socket,
        board: Board,
        requests: UnboundedSender<Request>,
        stages: SharedStages,
        ends: Ends,
    ) -> Option<Self> {
        let desk = |owners| Desk {
            board,
            owners,
            requests,
            tally: Tally::default(),
        };
        Owners::new(stages, ends)
            .and_then(|owners| Self::try_start(Arc::new(socket), desk(owners)))
            .inspect_err(|error| warn!("Nobody listens at the control socket: {error}."))
            .ok()
    }

    fn try_start(socket: Arc<Socket>, desk: Desk) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let room = Room::new(&socket.listener, &stop, desk)?;
        let ours = Arc::clone(&socket);
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                clean(&ours);
                fault::provoke("control");
                room.serve(&ours.listener);
            })?;
        Ok(Self {
            _socket: socket,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let rung = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| rung) {
            _ = thread.join(); // it waits for nobody, so it ends at once
        }
    }
}

/// All connections, and who takes their lines.
#[derive(Debug)]
struct Room {
    clients: BTreeMap<u64, Client>,
    desk: Desk,
    next: u64,
    ready: OwnedFd,
    rounds: Rounds,
}

impl Room {
    fn new(listener: &UnixListener, stop: &OwnedFd, desk: Desk) -> io::Result<Self> {
        // Connections inherit it, so that what is sent before they are taken says who wrote it, too.
        set_socket_passcred(listener, true)?;
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let sources = [
            (listener.as_fd(), LISTENER),
            (stop.as_fd(), STOP),
            (desk.owners.bell(), DEATH),
        ];
        for (source, token) in sources {
            let token = epoll::EventData::new_u64(token);
            epoll::add(&ready, source, token, epoll::EventFlags::IN)?;
        }
        Ok(Self {
            clients: BTreeMap::new(),
            desk,
            next: DEATH + 1,
            ready,
            rounds: Rounds::new(Instant::now()),
        })
    }

    /// Listens until it is told to stop.
    fn serve(mut self, listener: &UnixListener) {
        let mut events = Vec::with_capacity(READ);
        loop {
            events.clear();
            let waited = epoll::wait(
                &self.ready,
                rustix::buffer::spare_capacity(&mut events),
                None,
            );
            match waited {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return warn!("Nobody listens at the control socket any more: {error}.");
                }
            }
            let tokens: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
            for token in tokens {
                match token {
                    LISTENER => self.accept(listener),
                    STOP => {
                        self.read_all(listener);
                        return self.desk.owners.close();
                    }
                    DEATH => {
                        self.read_all(listener); // what they said last comes first
                        self.desk.owners.bury();
                    }
                    client => _ = self.read(client),
                }
            }
            if let Some(pause) = self.rounds.next(Instant::now()) {
                std::thread::sleep(pause);
            }
        }
    }

    fn accept(&mut self, listener: &UnixListener) {
        for _ in 0..ACCEPTED {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It would be ready at once again.
                Err(_) => return std::thread::sleep(SHORTAGE),
            };
            if self.take_in(stream).is_none() {
                self.desk.tally.refused_clients += 1;
            }
        }
    }

    /// Takes a connection of this user or root, where there is room for it; else it is closed.
    fn take_in(&mut self, stream: UnixStream) -> Option<()> {
        let peer = socket_peercred(&stream).ok()?;
        let is_known = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        if !is_known || self.clients.len() >= CLIENTS {
            return None;
        }
        let token = self.next;
        self.next += 1;
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.ready, &stream, data, epoll::EventFlags::IN).ok()?;
        self.clients.insert(token, Client::new(stream, peer));
        self.desk.tally.clients = self.clients.len() as u64;
        Some(())
    }

    /// Reads a round of one connection; returns whether there may be more.
    fn read(&mut self, token: u64) -> bool {
        let Some(client) = self.clients.get_mut(&token) else {
            return false;
        };
        let desk = &mut self.desk;
        let state = client.read(|writer, line| desk.take(Pid::as_raw(Some(writer.pid)), line));
        if state == State::Over {
            self.clients.remove(&token); // which closes it, and epoll forgets it
            self.desk.tally.clients = self.clients.len() as u64;
            self.desk.owners.look_for_unheld();
        }
        state == State::Reading
    }

    /// Reads what has been sent by now, to its end.
    fn read_all(&mut self, listener: &UnixListener) {
        self.accept(listener);
        let tokens: Vec<u64> = self.clients.keys().copied().collect();
        for token in tokens {
            for _ in 0..LAST_ROUNDS {
                if !self.read(token) {
                    break;
                }
            }
        }
    }
}

/// How fast rounds may follow each other: whoever speaks without a pause is heard once a millisecond, and what it says
/// waits in its own socket meanwhile.
#[derive(Debug)]
struct Rounds {
    left: u32,
    since: Instant,
}

impl Rounds {
    fn new(now: Instant) -> Self {
        Self {
            left: ROUNDS,
            since: now,
        }
    }

    /// Counts a round; returns how long to wait before the next.
    fn next(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.since).as_millis();
        if passed > 0 {
            let earned = u32::try_from(passed).unwrap_or(ROUNDS);
            self.left = self.left.saturating_add(earned).min(ROUNDS);
            self.since = now;
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Some(PAUSE);
        };
        self.left = left;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_a_pause_are_heard_once_a_millisecond() {
        let start = Instant::now();
        let mut rounds = Rounds::new(start);
        for _ in 0..ROUNDS {
            assert_eq!(rounds.next(start), None);
        }
        assert_eq!(rounds.next(start), Some(PAUSE));
        assert_eq!(rounds.next(start + PAUSE), None);
        assert_eq!(rounds.next(start + PAUSE), Some(PAUSE));
        // Who was quiet may speak again, but no longer than at first.
        let later = start + Duration::from_hours(1);
        for _ in 0..ROUNDS {
            assert_eq!(rounds.next(later), None);
        }
        assert_eq!(rounds.next(later), Some(PAUSE));
    }
}
