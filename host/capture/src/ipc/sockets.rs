//! What the kernel says of the sockets among the endpoints, and which of them are the two ends of one connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use model::{Endpoint, EndpointKind, Gap, GapCode, SocketFacts};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::datagrams::LISTS;
use super::descriptor::inode_of;
use super::netlink::Client;
use super::probe::{Answer, Request};
use super::{tcp, unix};
use crate::error::gap_code;
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::Reader;
use crate::proc::reader::{open_process, read_link};

/// So long the kernel may take to list the TCP sockets of the machine.
const TCP_PATIENCE: Duration = Duration::from_millis(100);

/// More of a file in `/proc/PID/net` is not read.
const FILE_LIMIT: usize = 8 << 20;

/// What this kernel offers; asked once.
#[derive(Debug, Default)]
pub(super) struct Offered {
    /// Whether it answers for unix sockets: without that part of the kernel it says of each that there is none.
    unix: OnceLock<bool>,
}

/// The sockets that are not described yet, and those that are.
struct Sockets<'a> {
    endpoints: &'a mut [Endpoint],
    gaps: &'a mut GapList,
    machine: &'a Machine,
    /// Where the socket of an inode stands.
    positions: BTreeMap<u64, usize>,
    reader: &'a mut Reader,
    /// The network namespace in which each connection is, by local and remote address.
    connections: BTreeMap<(String, String, String), usize>,
    missing: BTreeSet<u64>,
    /// Who has connected, by inode, and the place of the socket that has not accepted it yet.
    waiting: BTreeMap<u64, usize>,
}

/// Describes the sockets among `endpoints`. `asks_kernel`: the proc root is our own machine's.
pub(super) fn describe(
    machine: &Machine,
    asks_kernel: bool,
    endpoints: &mut [Endpoint],
    reader: &mut Reader,
    gaps: &mut GapList,
) {
    let numbered = endpoints.iter().enumerate();
    let positions: BTreeMap<u64, usize> = numbered
        .filter_map(|(at, endpoint)| Some((inode_of(&endpoint.target, "socket")?, at)))
        .collect();
    if positions.is_empty() {
        return;
    }
    let mut sockets = Sockets {
        missing: positions.keys().copied().collect(),
        endpoints,
        gaps,
        machine,
        positions,
        reader,
        connections: BTreeMap::new(),
        waiting: BTreeMap::new(),
    };
    let ours = sockets.namespace_of("self");
    let is_answered = asks_kernel && sockets.ask(ours.as_deref().unwrap_or_default());
    // What the kernel did not answer for lives in another network namespace, or is of another kind.
    sockets.files(ours.as_ref().filter(|_| is_answered));
    if asks_kernel && !sockets.missing.is_empty() {
        sockets.ask_protocols();
    }
    sockets.pair();
}

impl Sockets<'_> {
    /// Asks the kernel about our own network namespace; returns whether it answered for both kinds.
    fn ask(&mut self, namespace: &str) -> bool {
        let is_offered = *self.machine.ipc.offered.unix.get_or_init(answers_for_unix);
        if is_offered {
            let asked = unix::ask(&self.missing);
            for socket in self.gaps.keep("ipc/unix_diag", asked).unwrap_or_default() {
                self.take_unix(socket);
            }
        } else {
            let detail = "this kernel does not say which unix sockets are connected";
            let gap = Gap::new("ipc/unix_diag", GapCode::Unsupported).with_detail(detail);
            self.gaps.add(gap);
        }
        if self.missing.is_empty() {
            return true;
        }
        let mut wanted = self.missing.clone();
        let asked = tcp::ask(&mut wanted, Instant::now() + TCP_PATIENCE);
        let Ok((found, is_whole)) = asked else {
            return false;
        };
        for socket in found {
            self.take_tcp(socket, namespace);
        }
        if !is_whole {
            let detail = "the machine has too many TCP sockets to look at all of them in time";
            let gap = Gap::new("ipc/inet_diag", GapCode::Skipped).with_detail(detail);
            self.gaps.add(gap);
        }
        is_offered
    }

    /// Reads the lists of each network namespace in which holders of missing sockets live. In `known` the kernel has
    /// answered for TCP and unix sockets.
    fn files(&mut self, known: Option<&String>) {
        let mut seen = BTreeSet::new();
        let positions: Vec<usize> = self
            .missing
            .iter()
            .filter_map(|inode| self.positions.get(inode).copied())
            .collect();
        let holders = positions.iter().flat_map(|&at| &self.endpoints[at].owners);
        let holders: BTreeSet<i32> = holders.map(|owner| owner.pid).collect();
        for pid in holders {
            if self.missing.is_empty() {
                return;
            }
            let namespace = self.namespace_of(&pid.to_string());
            if seen.insert(namespace.clone())
                && let Ok(directory) = open_process(&self.machine.proc, pid)
            {
                if namespace.is_none() || namespace.as_ref() != known {
                    self.lists(directory.as_fd(), &namespace.unwrap_or_default());
                }
                self.other_lists(directory.as_fd());
            }
        }
    }

    fn lists(&mut self, directory: BorrowedFd<'_>, namespace: &str) {
        for name in ["net/tcp", "net/tcp6"] {
            let missing = &self.missing;
            let read = self.reader.read_up_to(directory, name, FILE_LIMIT);
            let found = read.map(|(content, more)| {
                let is_wanted = |inode| missing.contains(&inode);
                (tcp::parse_file(content, is_wanted), more)
            });
            for socket in self.found(name, found) {
                self.take_tcp(socket, namespace);
            }
        }
        let missing = &self.missing;
        let read = self.reader.read_up_to(directory, "net/unix", FILE_LIMIT);
        let found = read.map(|(content, more)| {
            let is_wanted = |inode| missing.contains(&inode);
            (unix::parse_file(content, is_wanted), more)
        });
        for socket in self.found("net/unix", found) {
            self.take_unix(socket);
        }
    }

    fn other_lists(&mut self, directory: BorrowedFd<'_>) {
        for list in &LISTS {
            if self.missing.is_empty() {
                return;
            }
            let missing = &self.missing;
            let read = self.reader.read_up_to(directory, list.file, FILE_LIMIT);
            let found = read.map(|(content, more)| {
                let is_wanted = |inode| missing.contains(&inode);
                (list.parse(content, is_wanted), more)
            });
            for (facts, inode) in self.found(list.file, found) {
                self.take_other(inode, list.kind, facts);
            }
        }
    }

    /// Asks for the protocol of those that are in no list: they are not bound, or of another family.
    fn ask_protocols(&mut self) {
        let mut requests = BTreeMap::new();
        for inode in &self.missing {
            let owner = self.positions.get(inode);
            let owner = owner.and_then(|&at| self.endpoints[at].owners.first());
            if let Some(owner) = owner
                && let Ok(fd) = owner.fd.parse()
            {
                let request = requests.entry(owner.identity);
                let request = request.or_insert_with(|| Request::of(owner.identity));
                request.sockets.push((fd, *inode));
            }
        }
        let requests = requests.into_values().collect();
        let outcomes = self.machine.ipc.prober.read(&self.machine.proc, requests);
        for answer in outcomes.into_iter().flat_map(|outcome| outcome.answers) {
            let Answer::Protocol(inode, answer) = answer else {
                continue;
            };
            match answer {
                Ok(protocol) => {
                    let kind = kind_of(&protocol);
                    let facts = SocketFacts {
                        protocol,
                        ..SocketFacts::default()
                    };
                    self.take_other(inode, kind, facts);
                }
                // It was closed since it was listed.
                Err(error) if gap_code(&error) == GapCode::Vanished => {}
                Err(error) => self.gaps.note("ipc/socket", &error),
            }
        }
    }

    fn found<T>(&mut self, name: &str, found: io::Result<(Vec<T>, bool)>) -> Vec<T> {
        match found {
            Ok((sockets, more)) => {
                if more {
                    let detail = format!("the first {FILE_LIMIT} bytes were read");
                    let gap = Gap::new(name, GapCode::Truncated).with_detail(detail);
                    self.gaps.add(gap);
                }
                sockets
            }
            // The process ended, or the kernel was built without this protocol.
            Err(error) if gap_code(&error) == GapCode::Vanished => Vec::new(),
            Err(error) => {
                self.gaps.note(name, &error);
                Vec::new()
            }
        }
    }

    fn take_unix(&mut self, socket: unix::Socket) {
        let Some(&at) = self.positions.get(&socket.inode) else {
            return;
        };
        self.missing.remove(&socket.inode);
        let waiting = socket.waiting.into_iter();
        self.waiting.extend(waiting.map(|inode| (inode, at)));
        let endpoint = &mut self.endpoints[at];
        endpoint.kind = Some(EndpointKind::Unix);
        endpoint.peer = socket.peer.map(|peer| format!("socket:[{peer}]"));
        endpoint.unix = Some(socket.facts);
    }

    fn take_other(&mut self, inode: u64, kind: EndpointKind, facts: SocketFacts) {
        let Some(&at) = self.positions.get(&inode) else {
            return;
        };
        self.missing.remove(&inode);
        let endpoint = &mut self.endpoints[at];
        endpoint.kind = Some(kind);
        endpoint.socket = Some(facts);
    }

    fn take_tcp(&mut self, socket: tcp::Socket, namespace: &str) {
        let Some(&at) = self.positions.get(&socket.inode) else {
            return;
        };
        self.missing.remove(&socket.inode);
        let facts = socket.facts;
        if facts.state != "listen" {
            let (local, remote) = (facts.local.clone(), facts.remote.clone());
            self.connections
                .insert((namespace.to_owned(), local, remote), at);
        }
        let endpoint = &mut self.endpoints[at];
        endpoint.kind = Some(EndpointKind::Tcp);
        endpoint.tcp = Some(facts);
    }

    /// The two ends of a TCP connection name the same two addresses, the other way round. Who is not accepted yet has no
    /// other end but the socket that is to accept it.
    fn pair(&mut self) {
        for (inode, &listener) in &self.waiting {
            if let Some(&at) = self.positions.get(inode) {
                let target = self.endpoints[listener].target.clone();
                self.endpoints[at].peer.get_or_insert(target);
            }
        }
        for ((namespace, local, remote), &at) in &self.connections {
            let other = (namespace.clone(), remote.clone(), local.clone());
            let peer = self.connections.get(&other).filter(|&&other| other != at);
            let peer = peer.map(|&peer| self.endpoints[peer].target.clone());
            self.endpoints[at].peer = peer;
        }
    }

    fn namespace_of(&self, process: &str) -> Option<String> {
        let directory = self.machine.proc.join(process);
        let directory = directory.to_str()?;
        let directory = crate::proc::reader::open_directory(rustix::fs::CWD, directory).ok()?;
        let link = read_link(directory.as_fd(), "ns/net").ok()?;
        Some(link.to_string_lossy().into_owned())
    }
}

/// What a socket is whose protocol the kernel names so (`struct proto`).
fn kind_of(protocol: &str) -> EndpointKind {
    match protocol {
        "TCP" | "TCPv6" => EndpointKind::Tcp,
        "UDP" | "UDPv6" => EndpointKind::Udp,
        "RAW" | "RAWv6" => EndpointKind::Raw,
        "PING" | "PINGv6" => EndpointKind::Icmp,
        "NETLINK" => EndpointKind::Netlink,
        "PACKET" => EndpointKind::Packet,
        name if name.starts_with("UNIX") => EndpointKind::Unix,
        _ => EndpointKind::Other,
    }
}

/// Asks for a socket that is there.
fn answers_for_unix() -> bool {
    let asked = || -> io::Result<bool> {
        let (one, _other) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let inode = rustix::fs::fstat(&one)?.st_ino;
        let found = unix::each(&mut Client::open()?, &[inode])?;
        Ok(found.iter().any(|socket| socket.inode == inode))
    };
    asked().unwrap_or(false)
}
