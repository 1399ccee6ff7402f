//! What connects living processes: for each way to wait for another, the facts that prove it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use model::{
    Endpoint, EndpointKind, FileLock, Futex, FutexOwnerSource, GapCode, Ipc, PipeEnd, Snapshot,
    SocketFacts, SysvKind,
};
use rustix::process::{Gid, Pid, Signal, Uid, kill_process_group};
use testkit::{DEADLINE, newest_python, wait_until};

use super::{local, local_in_place, look};
use crate::gaps::GapList;
use crate::ipc;
use crate::proc::Reader;

/// A Python and all it started; they are killed with the value.
pub(super) struct Job(Child);

impl Job {
    /// Runs `code`, after which the interpreter waits.
    pub(super) fn start(code: &str) -> Self {
        Self::start_under(&[], code)
    }

    fn start_under(wrapper: &[&str], code: &str) -> Self {
        let modules = "ctypes, fcntl, mmap, os, socket, sys, threading, time";
        let code = format!("import {modules}\nlib = ctypes.CDLL(None)\n{code}\nsys.stdin.read()");
        let python = newest_python().path.display().to_string();
        let words = [wrapper, &[python.as_str(), "-c", code.as_str()]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub(super) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// Looks until `found` is there twice running, and returns the second with its snapshot.
    ///
    /// A look is not of one instant: the first may have seen one process before a step of the job
    /// and the next process after it. What it found had happened when the second look began.
    #[track_caller]
    pub(super) fn until<T>(&self, found: impl Fn(&Snapshot) -> Option<T>) -> (T, Snapshot) {
        let machine = local();
        let mut result = None;
        wait_until(DEADLINE, || {
            let seen_before = result.is_some();
            let snapshot = look(&machine, self.pid());
            result = found(&snapshot).map(|found| (found, snapshot));
            seen_before && result.is_some()
        });
        result.unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_raw(self.pid()).unwrap(), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn skip(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap();
}

fn endpoint(ipc: &Ipc, is_it: impl Fn(&Endpoint) -> bool) -> Option<Endpoint> {
    ipc.endpoints.iter().find(|one| is_it(one)).cloned()
}

/// The processes that hold it, each with its end.
fn ends(endpoint: &Endpoint) -> Vec<(i32, Option<PipeEnd>)> {
    let owners = endpoint.owners.iter();
    owners.map(|owner| (owner.pid, owner.end)).collect()
}

fn waiting(endpoint: &Endpoint) -> Option<u64> {
    endpoint.pipe.as_ref().map(|pipe| pipe.bytes_waiting)
}

#[test]
fn a_full_pipe_shows_its_bytes_and_who_has_which_end() {
    let job = Job::start(
        "r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    time.sleep(600)
os.close(r)
os.write(w, bytes(1 << 20))",
    );
    let (pipe, snapshot) = job.until(|snapshot| {
        endpoint(&snapshot.ipc, |one| {
            waiting(one) == Some(65_536) && one.owners.len() == 2
        })
    });
    assert_eq!(pipe.kind, Some(EndpointKind::Pipe));
    let child = snapshot.processes.iter().find(|one| one.ppid == job.pid());
    let child = child.unwrap().pid;
    let mut holders = ends(&pipe);
    holders.sort_by_key(|(pid, _)| *pid != job.pid());
    let expected = [
        (job.pid(), Some(PipeEnd::Write)),
        (child, Some(PipeEnd::Read)),
    ];
    assert_eq!(holders, expected);
    let facts = pipe.pipe.unwrap();
    assert_eq!(facts.capacity_bytes, 65_536);
    assert_eq!((facts.has_writers, facts.has_readers), (Some(true), None));
}

#[test]
fn a_reader_that_holds_the_last_write_end_and_one_without_a_writer_are_told_apart() {
    let job = Job::start(
        "r, w = os.pipe()
alone, gone = os.pipe()
os.close(gone)
os.read(r, 1)",
    );
    let (alone, snapshot) = job.until(|snapshot| {
        endpoint(&snapshot.ipc, |one| {
            one.pipe.as_ref().and_then(|pipe| pipe.has_writers) == Some(false)
        })
    });
    assert_eq!(ends(&alone), [(job.pid(), Some(PipeEnd::Read))]);
    let own = endpoint(&snapshot.ipc, |one| one.owners.len() == 2).unwrap();
    let both = [
        (job.pid(), Some(PipeEnd::Read)),
        (job.pid(), Some(PipeEnd::Write)),
    ];
    assert_eq!(ends(&own), both);
    assert_eq!(own.pipe.unwrap().has_writers, Some(true));
}

#[test]
fn a_fifo_is_known_by_its_path_with_both_its_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    let path = path.to_str().unwrap();
    let job = Job::start(&format!(
        "os.mkfifo('{path}')
if os.fork() == 0:
    os.open('{path}', os.O_RDONLY)
    time.sleep(600)
os.write(os.open('{path}', os.O_WRONLY), b'0123456789')"
    ));
    let (fifo, _) = job.until(|snapshot| {
        endpoint(&snapshot.ipc, |one| {
            one.target == path && waiting(one) == Some(10)
        })
    });
    assert_eq!(fifo.kind, Some(EndpointKind::Fifo));
    let mut held: Vec<_> = ends(&fifo).into_iter().map(|(_, end)| end).collect();
    held.sort_by_key(|end| *end != Some(PipeEnd::Read));
    assert_eq!(held, [Some(PipeEnd::Read), Some(PipeEnd::Write)]);
}

#[test]
fn the_two_ends_of_a_unix_socket_name_each_other() {
    let job = Job::start(
        "one, other = socket.socketpair()
if os.fork() == 0:
    one.close()
    time.sleep(600)
other.close()
one.send(b'hello')",
    );
    // Both processes have closed the end of the other by then.
    let (full, snapshot) = job.until(|snapshot| {
        let full = endpoint(&snapshot.ipc, |one| {
            let unix = one.unix.as_ref();
            unix.and_then(|unix| unix.receive_queue) == Some(5) && one.owners.len() == 1
        })?;
        let peer = |one: &Endpoint| Some(&one.target) == full.peer.as_ref();
        let peer = endpoint(&snapshot.ipc, peer)?;
        (peer.owners.len() == 1).then_some(full)
    });
    assert_eq!(full.kind, Some(EndpointKind::Unix));
    let facts = full.unix.unwrap();
    assert_eq!(
        (facts.socket_type.as_str(), facts.state.as_str()),
        ("stream", "established")
    );
    let peer = full.peer.unwrap();
    let other = endpoint(&snapshot.ipc, |one| one.target == peer).unwrap();
    assert_eq!(other.peer.as_ref(), Some(&full.target));
    assert_eq!(other.owners[0].pid, job.pid());
    assert_ne!(full.owners[0].pid, job.pid());
}

#[test]
fn many_unix_sockets_are_paired_as_few_are() {
    let job = Job::start("pairs = [socket.socketpair() for _ in range(50)]");
    let (sockets, _) = job.until(|snapshot| {
        let sockets = snapshot.ipc.endpoints.iter();
        let sockets: Vec<_> = sockets.filter(|one| one.unix.is_some()).cloned().collect();
        (sockets.len() == 100).then_some(sockets)
    });
    for socket in &sockets {
        let peer = socket.peer.as_ref().unwrap();
        let other = sockets.iter().find(|other| other.target == *peer).unwrap();
        assert_eq!(other.peer.as_ref(), Some(&socket.target));
    }
}

#[test]
fn a_tcp_connection_shows_both_addresses_and_what_waits_in_it() {
    let job = Job::start(
        "server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted = server.accept()[0]
client.send(b'1234567')",
    );
    let (full, snapshot) = job.until(|snapshot| {
        endpoint(&snapshot.ipc, |one| {
            one.tcp.as_ref().is_some_and(|tcp| tcp.receive_queue == 7)
        })
    });
    let facts = full.tcp.unwrap();
    assert_eq!(
        (facts.state.as_str(), facts.retransmits),
        ("established", 0)
    );
    assert_eq!(facts.total_retransmits, Some(0));
    assert!(facts.last_received_ms.is_some());
    let peer = full.peer.unwrap();
    let client = endpoint(&snapshot.ipc, |one| one.target == peer).unwrap();
    let client = client.tcp.unwrap();
    assert_eq!(
        (&client.local, &client.remote),
        (&facts.remote, &facts.local)
    );
    let listener = endpoint(&snapshot.ipc, |one| {
        one.tcp.as_ref().is_some_and(|tcp| tcp.state == "listen")
    });
    assert_eq!(listener.unwrap().tcp.unwrap().local, facts.local);
}

#[test]
fn a_connection_that_nobody_accepts_leads_to_who_should() {
    let job = Job::start(
        "server = socket.socket(socket.AF_UNIX)
server.bind('\\0taskscope-accept-%d' % os.getpid())
server.listen(8)
client = socket.socket(socket.AF_UNIX)
client.connect(server.getsockname())
full = socket.create_server(('127.0.0.1', 0), backlog=0)
fillers = [socket.socket() for _ in range(3)]
for filler in fillers:
    filler.setblocking(False)
    filler.connect_ex(full.getsockname())
fillers[-1].setblocking(True)",
    );
    let is_unix = |one: &Endpoint, state: &str| {
        let unix = one.unix.as_ref();
        unix.is_some_and(|unix| unix.state == state)
    };
    let (client, snapshot) = job.until(|snapshot| {
        endpoint(&snapshot.ipc, |one| {
            one.tcp.as_ref().is_some_and(|tcp| tcp.state == "syn_sent")
        })?;
        endpoint(&snapshot.ipc, |one| is_unix(one, "established"))
    });
    let listener = endpoint(&snapshot.ipc, |one| is_unix(one, "listen")).unwrap();
    assert_eq!(client.peer, Some(listener.target));
    assert_eq!(listener.unix.unwrap().receive_queue, Some(1));

    let has_state = |one: &Endpoint, state: &str| {
        let tcp = one.tcp.as_ref();
        tcp.is_some_and(|tcp| tcp.state == state)
    };
    let connecting = endpoint(&snapshot.ipc, |one| has_state(one, "syn_sent")).unwrap();
    let listener = endpoint(&snapshot.ipc, |one| has_state(one, "listen")).unwrap();
    let (connecting, listener) = (connecting.tcp.unwrap(), listener.tcp.unwrap());
    assert_eq!(connecting.remote, listener.local);
    // Nothing was ever sent or received.
    let since = (connecting.last_sent_ms, connecting.last_received_ms);
    assert_eq!(since, (None, None));
    // More than one does not fit into a queue of none.
    assert_eq!((listener.receive_queue, listener.send_queue), (1, 0));
}

/// One socket of each kind that anyone may make, bound and not.
const SOCKETS: &str = "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(('127.0.0.1', 0))
sender.connect(receiver.getsockname())
sender.send(b'12345')
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
route.bind((0, 0))
bound = socket.socket()
bound.bind(('127.0.0.1', 0))
alone = socket.socket(), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
";

/// The sockets of a job that makes `wanted` of them, by kind.
fn sockets_of(job: &Job, wanted: usize) -> impl Fn(EndpointKind) -> Vec<Endpoint> + use<> {
    let (sockets, _) = job.until(|snapshot| {
        let endpoints = snapshot.ipc.endpoints.iter();
        let sockets = endpoints.filter(|one| one.target.starts_with("socket:["));
        let sockets: Vec<Endpoint> = sockets.cloned().collect();
        (sockets.len() == wanted).then_some(sockets)
    });
    move |kind| {
        let found = sockets.iter().filter(|one| one.kind == Some(kind));
        found.cloned().collect()
    }
}

fn socket_facts(endpoint: &Endpoint) -> SocketFacts {
    endpoint.socket.clone().unwrap()
}

#[test]
fn every_socket_has_its_kind_bound_or_not() {
    let job = Job::start(SOCKETS);
    let of = sockets_of(&job, 6);
    let datagrams: Vec<_> = of(EndpointKind::Udp).iter().map(socket_facts).collect();
    let by_state = |state: Option<&str>| {
        let found = datagrams.iter().find(|one| one.state.as_deref() == state);
        found.unwrap().clone()
    };
    let (sender, receiver) = (by_state(Some("established")), by_state(Some("unconnected")));
    assert_eq!(sender.remote, receiver.local);
    assert!(receiver.receive_queue.is_some_and(|bytes| bytes >= 5));
    assert_eq!(
        (receiver.drops, receiver.protocol.as_str()),
        (Some(0), "udp")
    );
    assert_eq!(by_state(None).protocol, "UDPv6", "it is in no list");

    let route = socket_facts(&of(EndpointKind::Netlink)[0]);
    assert_eq!(route.protocol, "route");
    assert_eq!(route.local, Some(job.pid().to_string()));
    let tcp = of(EndpointKind::Tcp);
    let (bound, alone): (Vec<_>, Vec<_>) = tcp.iter().partition(|one| one.tcp.is_some());
    // Which are bound and do nothing the kernel lists since Linux 6.8.
    for one in &bound {
        let facts = one.tcp.as_ref().unwrap();
        assert_eq!((facts.state.as_str(), facts.last_sent_ms), ("close", None));
    }
    assert!(alone.iter().all(|one| socket_facts(one).protocol == "TCP"));
    assert_eq!(alone.len() + bound.len(), 2);
}

#[test]
fn sockets_of_root_have_their_kind_as_well() {
    if !is_root() {
        return skip("only root can make raw and packet sockets");
    }
    let job = Job::start(
        "raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
    );
    let of = sockets_of(&job, 2);
    let raw = socket_facts(&of(EndpointKind::Raw)[0]);
    assert_eq!(raw.local.as_deref(), Some("0.0.0.0:1"));
    let packet = socket_facts(&of(EndpointKind::Packet)[0]);
    assert_eq!(packet.protocol, "0x0000");
}

#[test]
fn sockets_of_another_network_namespace_are_described() {
    if !is_root() {
        return skip("only root can make a network namespace");
    }
    let job = Job::start_under(
        &["unshare", "-n"],
        "server = socket.create_server(('0.0.0.0', 4711))
named = socket.socket(socket.AF_UNIX)
named.bind('\\0taskscope-test')
named.listen()",
    );
    let (server, snapshot) = job.until(|snapshot| {
        let named = |one: &Endpoint| one.kind == Some(EndpointKind::Unix);
        endpoint(&snapshot.ipc, named)?;
        endpoint(&snapshot.ipc, |one| one.kind == Some(EndpointKind::Tcp))
    });
    let server = server.tcp.unwrap();
    assert_eq!(
        (server.local.as_str(), server.state.as_str()),
        ("0.0.0.0:4711", "listen")
    );
    let named = endpoint(&snapshot.ipc, |one| one.unix.is_some()).unwrap();
    let named = named.unix.unwrap();
    assert_eq!(named.path.as_deref(), Some("@taskscope-test"));
    assert_eq!(named.state, "listen");
}

#[test]
fn a_file_lock_names_its_holder_and_who_waits_for_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let job = Job::start(&format!(
        "held = open('{path}')
fcntl.flock(held, fcntl.LOCK_EX)
if os.fork() == 0:
    fcntl.flock(open('{path}'), fcntl.LOCK_EX)"
    ));
    let (lock, _) = job.until(|snapshot| {
        let mut locks = snapshot.ipc.locks.iter();
        let waiter = |lock: &&FileLock| lock.waiters.first()?.identity;
        locks.find(|lock| waiter(lock).is_some()).cloned()
    });
    assert_eq!(
        (lock.class.as_str(), lock.access.as_str()),
        ("FLOCK", "WRITE")
    );
    assert_eq!(lock.holder.map(|holder| holder.pid), Some(job.pid()));
    assert_eq!(lock.path.as_deref(), Some(path));
    let waiter = lock.waiters[0].identity.unwrap();
    assert_ne!(waiter.pid, job.pid());
    // The child was forked with the descriptor that holds the lock.
    assert!(lock.owners.iter().any(|owner| owner.identity == waiter));
    assert_eq!((lock.start, lock.end), (0, None));
}

/// What a fork hands down counts as resident only once it is touched.
#[test]
fn shared_memory_is_listed_with_a_child_that_has_not_touched_it() {
    let job = Job::start(
        "import mmap
at = os.memfd_create('board')
os.ftruncate(at, 8192)
board = mmap.mmap(at, 8192)
board[0] = 1
if os.fork() == 0:
    time.sleep(600)",
    );
    job.until(|snapshot| {
        let mut files = snapshot.ipc.shared_memory.iter();
        let board = files.find(|file| file.name.starts_with("/memfd:board"))?;
        let maps = |pid| board.mapped.iter().any(|it| it.identity.pid == pid);
        let mut processes = snapshot.processes.iter();
        let child = processes.find(|it| it.ppid == job.pid())?;
        (maps(job.pid()) && maps(child.pid)).then_some(())
    });
}

pub(super) fn futex_of(snapshot: &Snapshot, tid: i32) -> Option<Futex> {
    let mut futexes = snapshot.ipc.futexes.iter();
    futexes.find(|futex| futex.waiters.contains(&tid)).cloned()
}

#[test]
fn a_lock_of_python_shows_its_word_and_no_owner() {
    let job = Job::start("lock = threading.Lock()\nlock.acquire()\nlock.acquire()");
    let (futex, _) = job.until(|snapshot| {
        let futex = futex_of(snapshot, job.pid());
        futex.filter(|futex| futex.value.is_some())
    });
    // A semaphore: 0, and nobody owns it.
    assert_eq!((futex.value, futex.expected), (Some(0), Some(0)));
    assert_eq!((futex.owner_tid, futex.owner_source), (None, None));
    assert!(futex.private && futex.address.starts_with("0x"));
}

/// A thread that holds the mutex `m`, prepared by `attribute`, while the main thread waits for it.
fn mutex(attribute: &str) -> Job {
    Job::start(&format!(
        "m, a = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
lib.pthread_mutexattr_init(a)
{attribute}
lib.pthread_mutex_init(m, a)
locked = threading.Event()
def hold():
    lib.pthread_mutex_lock(m)
    locked.set()
    time.sleep(600)
threading.Thread(target=hold, daemon=True).start()
locked.wait()
lib.pthread_mutex_lock(m)"
    ))
}

#[test]
fn a_mutex_names_the_thread_that_holds_it() {
    let plain = ("", FutexOwnerSource::MutexField);
    let inherits = (
        "lib.pthread_mutexattr_setprotocol(a, 1)",
        FutexOwnerSource::PiWord,
    );
    let robust = (
        "lib.pthread_mutexattr_setrobust(a, 1)",
        FutexOwnerSource::RobustWord,
    );
    for (attribute, source) in [plain, inherits, robust] {
        let job = mutex(attribute);
        let (futex, snapshot) = job.until(|snapshot| {
            let futex = futex_of(snapshot, job.pid());
            futex.filter(|futex| futex.owner_tid.is_some())
        });
        let threads = &snapshot.processes[0].proc.threads;
        let holder = threads.iter().find(|one| one.tid != job.pid()).unwrap();
        assert_eq!(futex.owner_tid, Some(holder.tid), "{attribute}");
        assert_eq!(futex.owner_source, Some(source));
    }
}

#[test]
fn memory_that_is_shared_is_listed_with_who_has_it() {
    let job = Job::start(
        "fd = os.memfd_create('buffer')
os.ftruncate(fd, 8192)
m = mmap.mmap(fd, 8192)
m[0] = 1
lib.eventfd(3, 0)
lib.shmat.restype = ctypes.c_void_p
segment = lib.shmget(0, ctypes.c_size_t(12288), 0o600)
at = lib.shmat(segment, None, 0)
lib.shmctl(segment, 0, None)
ctypes.memset(at, 1, 1)",
    );
    // The segment goes with its last user.
    let (segment, snapshot) = job.until(|snapshot| {
        let mut objects = snapshot.ipc.sysv.iter();
        let segment = objects.find(|one| one.users.iter().any(|user| user.pid == job.pid()));
        segment.filter(|_| {
            snapshot
                .ipc
                .shared_memory
                .iter()
                .any(|one| !one.mapped.is_empty())
        })?;
        segment.cloned()
    });
    assert_eq!(
        (segment.kind, segment.bytes),
        (SysvKind::SharedMemory, Some(12_288))
    );
    let file = &snapshot.ipc.shared_memory[0];
    assert_eq!(
        (file.name.as_str(), file.size_bytes),
        ("/memfd:buffer (deleted)", Some(8192))
    );
    assert_eq!(
        (file.mapped[0].bytes, file.mapped[0].identity.pid),
        (8192, job.pid())
    );
    assert_eq!(file.owners[0].pid, job.pid());
    let eventfd = &snapshot.ipc.eventfds[0];
    assert_eq!((eventfd.count, eventfd.owners[0].pid), (3, job.pid()));
}

#[test]
fn what_the_kernel_refuses_is_a_gap_with_its_remedy() {
    if !is_root() {
        return skip("only root can look with the rights of another user");
    }
    let job =
        Job::start("r, w = os.pipe()\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()");
    let (_, mut snapshot) = job.until(|snapshot| futex_of(snapshot, job.pid()));
    // The descriptors are known, as under Yama, and nothing more is allowed.
    let look = move || {
        rustix::thread::set_thread_groups(&[]).unwrap();
        let (gid, uid) = (Gid::from_raw(65_534), Uid::from_raw(65_534));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let (mut gaps, mut others) = (Vec::new(), GapList::of_machine());
        let mut reader = Reader::new();
        let machine = local_in_place();
        let processes = &mut snapshot.processes;
        let ipc = ipc::read(&machine, processes, &mut reader, &mut gaps, &mut others);
        (ipc, gaps)
    };
    let (ipc, gaps) = thread::spawn(look).join().unwrap();
    for what in ["ipc/futex", "ipc/pipe"] {
        let gap = gaps.iter().find(|gap| gap.what == what);
        assert_eq!(gap.map(|gap| gap.code), Some(GapCode::Denied), "{gaps:?}");
    }
    let remedies = gaps.iter().filter_map(|gap| gap.remedy.as_deref());
    let remedies: Vec<_> = remedies.collect();
    assert_eq!(remedies.len(), 1, "{gaps:?}");
    assert!(remedies[0].contains("CAP_SYS_PTRACE"));
    assert!(ipc.endpoints.iter().all(|one| one.pipe.is_none()));
    assert_eq!(ipc.futexes[0].value, None);
}

/// Makes a page that never comes: whoever reads there waits.
const PAGE_THAT_NEVER_COMES: &str = "lib.mmap.restype = ctypes.c_void_p
page = lib.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, 0)
fault = lib.syscall(323, 0)
api = (ctypes.c_uint64 * 3)(0xaa, 0, 0)
assert fault >= 0 and lib.ioctl(fault, ctypes.c_ulong(0xc018aa3f), api) == 0
region = (ctypes.c_uint64 * 4)(page, 4096, 1, 0)
assert lib.ioctl(fault, ctypes.c_ulong(0xc020aa00), region) == 0
";

#[test]
#[cfg(target_arch = "x86_64")]
fn a_word_that_cannot_be_read_costs_one_reader_and_the_capture_ends() {
    if !is_root() {
        return skip("only root can make a page that never comes");
    }
    let futex = "lib.syscall(202, ctypes.c_void_p(page), 128, 0, None, None, 0)";
    let job = blocks(futex, "ipc/futex");
    let snapshot = look(&local(), job.pid());
    assert_eq!(futex_of(&snapshot, job.pid()).unwrap().value, None);
    blocks(
        "lib.syscall(257, -100, ctypes.c_void_p(page), 0)",
        "ipc/path",
    );
}

/// A process that waits in `call`, of which `part` cannot be read.
#[cfg(target_arch = "x86_64")]
#[track_caller]
fn blocks(call: &str, part: &str) -> Job {
    let job = Job::start(&format!("{PAGE_THAT_NEVER_COMES}{call}"));
    let machine = local();
    let blocked = |snapshot: &Snapshot| {
        let mut gaps = snapshot.gaps.iter();
        gaps.find(|gap| gap.code == GapCode::BlockedRead && gap.what.starts_with("ipc"))
            .cloned()
    };
    let mut first = None;
    wait_until(DEADLINE, || {
        first = blocked(&look(&machine, job.pid()));
        first.is_some()
    });
    assert_eq!(first.unwrap().what, part);
    let began = Instant::now();
    let again = look(&machine, job.pid());
    assert!(began.elapsed() < DEADLINE);
    let detail = blocked(&again).unwrap().detail.unwrap();
    assert!(
        detail.contains("its memory already blocks") || detail.contains("did not return"),
        "{detail}"
    );
    job
}

#[test]
fn an_uninterruptible_wait_shows_its_state_its_call_and_its_place_in_the_kernel() {
    // CLONE_VFORK without shared memory: the parent waits, killable only, until the child has ended.
    let job = Job::start(
        "number = 56 if os.uname().machine == 'x86_64' else 220
if lib.syscall(number, 0x4000 | 17, 0, 0, 0, 0) == 0:
    time.sleep(600)",
    );
    let (process, _) = job.until(|snapshot| {
        let mut processes = snapshot.processes.iter();
        let found = processes.find(|one| one.pid == job.pid())?;
        (found.state == 'D').then(|| found.clone())
    });
    let thread = &process.proc.threads[0];
    assert_eq!(thread.state, Some('D'));
    assert_eq!(thread.call.as_ref().unwrap().name, "clone");
    if is_root() {
        assert!(thread.wchan.as_deref().is_some_and(|place| place != "0"));
    }
}
