//! What connects the processes of a task with each other and with the outside: facts, no verdicts.

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The `ipc` object of a snapshot. An empty list means that the task has none, unless a gap says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipc {
    /// Every pipe, FIFO and socket that a watched process holds, sorted by target.
    pub endpoints: Vec<Endpoint>,
    /// Every eventfd that a watched process holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eventfds: Vec<Eventfd>,
    /// The futexes that threads wait for, by process and address; at most 8192.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub futexes: Vec<Futex>,
    /// The file locks that a watched process holds or waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<FileLock>,
    /// Files in memory (memfd and `/dev/shm`) that watched processes hold or map, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_memory: Vec<SharedFile>,
    /// System V objects that watched processes use, by kind and id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sysv: Vec<SysvObject>,
}

/// One pipe, FIFO or socket and who holds a descriptor of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// What it is; absent where that could not be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EndpointKind>,
    /// The watched processes that hold it, in the order of processes, then of descriptors. Others may hold it as well.
    pub owners: Vec<Owner>,
    /// The target of the socket at the other end: of a unix socket whoever holds it; of a TCP socket only where a
    /// watched process of the same network namespace holds it. Of a unix connection that is not accepted yet, the
    /// listening socket where a watched process holds it. Absent: there is none, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// What the kernel says of a pipe or FIFO; absent for sockets, and where a gap `ipc/pipe` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipe: Option<PipeFacts>,
    /// What the kernel says of a socket that is neither TCP nor unix; also of a TCP socket that is neither bound nor
    /// connected, of which it says its protocol alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketFacts>,
    /// `pipe:[INODE]` or `socket:[INODE]`, the link text of `/proc/PID/fd/FD`; of a FIFO its path.
    pub target: String,
    /// What the kernel says of a TCP socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpFacts>,
    /// What the kernel says of a unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<UnixFacts>,
}

/// What an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointKind {
    /// A pipe without a name.
    Pipe,
    /// A pipe with a path.
    Fifo,
    /// A TCP socket, IPv4 or IPv6.
    Tcp,
    /// A unix socket.
    Unix,
    /// A UDP socket, IPv4 or IPv6.
    Udp,
    /// A netlink socket: a line to the kernel.
    Netlink,
    /// A raw socket, IPv4 or IPv6.
    Raw,
    /// A socket for echo requests, IPv4 or IPv6.
    Icmp,
    /// A packet socket: all that passes a network interface.
    Packet,
    /// A socket of another kind; its protocol says which.
    Other,
}

/// One descriptor of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Which end of a pipe or FIFO it is, from `flags` of `/proc/PID/fdinfo/FD`; absent for sockets and files, and
    /// where `fdinfo` could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<PipeEnd>,
    /// The descriptor number, as text (schema 1.0).
    pub fd: String,
    /// The process.
    pub identity: ProcessId,
    /// Its PID.
    pub pid: i32,
}

/// What a descriptor of a pipe is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeEnd {
    /// `O_RDONLY`.
    Read,
    /// `O_WRONLY`.
    Write,
    /// `O_RDWR`, which only a FIFO (or a pipe that was opened again through `/proc`) can be.
    Both,
}

/// How full a pipe is. Read through a copy of one descriptor (`pidfd_getfd`, since Linux 5.6) that is closed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeFacts {
    /// Bytes that were written and not read yet (`FIONREAD`).
    pub bytes_waiting: u64,
    /// How many bytes fit (`F_GETPIPE_SZ`). A writer may have to wait with fewer in it: each small write takes a page.
    pub capacity_bytes: u64,
    /// Whether anyone at all can read from it; known where the copy was of a write end (`POLLERR`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_readers: Option<bool>,
    /// Whether anyone at all can write to it; known where the copy was of a read end (`POLLHUP`). Of a FIFO that no
    /// one has written to yet the kernel does not say that there is no writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_writers: Option<bool>,
}

/// A socket that is neither TCP nor unix, from the lists in `/proc/PID/net`: `udp`, `icmp`, `raw`, their twins for IPv6,
/// `netlink` and `packet`. A socket that is in none of them (unbound, or of another family) has its protocol alone, as the
/// attribute `system.sockprotoname` of its descriptor names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketFacts {
    /// Messages that were thrown away because they did not fit into its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
    /// Its address and port; of a raw socket with its protocol's number for the port, of a netlink socket its port id, of
    /// a packet socket the index of its interface. Absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// `udp`, `icmp`, `raw`; of a netlink socket its family such as `route` or `kobject_uevent`, of a packet socket the
    /// Ethernet protocol in hexadecimal; of others the kernel's name, such as `TCP`, `UDPv6` or `AF_VSOCK`.
    pub protocol: String,
    /// Memory of what came and its holder has not read, bytes with the kernel's overhead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_queue: Option<u64>,
    /// The other side's address and port; `0.0.0.0:0` or `[::]:0` where it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Memory of what was sent and has not left yet, bytes with the kernel's overhead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_queue: Option<u64>,
    /// `established` (it was connected) or `unconnected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A unix socket, from `sock_diag(7)` (`UNIX_DIAG`); in another network namespace from `/proc/PID/net/unix`, which
/// knows neither peer nor queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnixFacts {
    /// Its path; of an abstract name with `@` for the NUL it begins with. Absent: it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Bytes that its holder has not read; of a listening socket the connections that wait to be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_queue: Option<u32>,
    /// Memory of what was sent and the peer has not read, bytes with the kernel's overhead; of a listening socket
    /// how many connections may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_queue: Option<u32>,
    /// `stream`, `datagram` or `seqpacket`.
    pub socket_type: String,
    /// `established`, `listen`, `closed` (also: never connected), `connecting` or `disconnecting`.
    pub state: String,
}

/// A TCP socket, from `sock_diag(7)` (`INET_DIAG`); in another network namespace from `/proc/PID/net/tcp` and `tcp6`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpFacts {
    /// Bytes that the other side has acknowledged over the life of the connection (`tcpi_bytes_acked`, since Linux 4.1),
    /// its beginning and its end counted as one each; only from `sock_diag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_acknowledged: Option<u64>,
    /// Bytes that have arrived in order over the life of the connection (`tcpi_bytes_received`, since Linux 4.1), its end
    /// counted as one; only from `sock_diag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Milliseconds since data last arrived (`tcpi_last_data_recv`); only from `sock_diag`, and not while it connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_received_ms: Option<u32>,
    /// Milliseconds since data was last sent (`tcpi_last_data_sent`); only from `sock_diag`, and not while it connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent_ms: Option<u32>,
    /// Our address and port.
    pub local: String,
    /// Bytes that its holder has not read; of a listening socket the connections that wait to be accepted.
    pub receive_queue: u32,
    /// The other side's address and port; port 0 of a listening socket.
    pub remote: String,
    /// How often what is on its way now was sent again without an answer (`idiag_retrans`).
    pub retransmits: u32,
    /// Bytes that the other side has not acknowledged; of a listening socket how many connections may wait.
    pub send_queue: u32,
    /// The state as in `ss`: `established`, `syn_sent`, `close_wait`, `listen` and so on.
    pub state: String,
    /// Segments sent again over the life of the connection (`tcpi_total_retrans`); only from `sock_diag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_retransmits: Option<u32>,
}

/// One eventfd, from `/proc/PID/fdinfo/FD`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eventfd {
    /// `eventfd-count`: who reads it waits while this is 0.
    pub count: u64,
    /// `eventfd-id`, the same in each process that holds it (since Linux 5.2); without it each descriptor stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Who holds it.
    pub owners: Vec<Owner>,
}

/// One futex that threads of a process wait for (`futex(2)`), from their `syscall` and the word in their memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Futex {
    /// Where the word is in the process, as `0x7f…`. A shared futex has other addresses in other processes.
    pub address: String,
    /// What the waiter expects the word to be (`val`); it was so when it began to wait. Absent for the operations that
    /// expect nothing, such as `lock_pi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u32>,
    /// The process.
    pub identity: ProcessId,
    /// `wait`, `wait_bitset`, `wait_requeue_pi`, `lock_pi`, `lock_pi2`, or `waitv`: one of several that a `futex_waitv` waits for
    /// at once.
    pub operation: String,
    /// How [`Futex::owner_tid`] is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_source: Option<FutexOwnerSource>,
    /// The thread that holds the lock. Absent: the lock does not keep its owner (semaphores, condition variables,
    /// most locks of languages), it has none, or the process counts its threads in another PID namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_tid: Option<i32>,
    /// Whether only threads of this process can use it (`FUTEX_PRIVATE_FLAG`).
    pub private: bool,
    /// The word when we looked; absent where a gap `ipc/futex` says why, or it was unmapped since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
    /// The TIDs of the threads that wait for it, in order.
    pub waiters: Vec<i32>,
}

/// How the owner of a futex is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FutexOwnerSource {
    /// The kernel's own rule for priority inheritance: the word is the owner's TID.
    PiWord,
    /// The word has the bit that says "others wait", and its other bits are the TID of a thread of the task: a robust
    /// mutex.
    RobustWord,
    /// The word is that of a mutex of glibc that others wait for (2), and where glibc keeps a mutex's owner stands the
    /// TID of a thread of the same process.
    MutexField,
}

/// One file lock, from `/proc/locks`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLock {
    /// `READ` or `WRITE`, as the kernel writes it.
    pub access: String,
    /// `FLOCK`, `POSIX`, `OFDLCK`, `LEASE` or `DELEG`, as the kernel writes it.
    pub class: String,
    /// `MAJOR:MINOR` of the file system, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The last byte it covers; absent: to the end of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The process that took it, if it is a watched one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<ProcessId>,
    /// The PID of the process that took it, which may have ended since; absent where the kernel does not say (open
    /// file description locks, other PID namespaces, remote holders).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_pid: Option<i32>,
    /// The inode of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// The descriptors through which watched processes hold it (`lock:` in their `fdinfo`).
    pub owners: Vec<Owner>,
    /// The file as the descriptors of watched processes name it; absent where none of them has that inode open, or
    /// they name different files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first byte it covers.
    pub start: u64,
    /// Who waits for it.
    pub waiters: Vec<LockWaiter>,
}

/// One that waits for a file lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaiter {
    /// `READ` or `WRITE`.
    pub access: String,
    /// The process, if it is a watched one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ProcessId>,
    /// Its PID; absent where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// One file that is in memory only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// Its inode; absent where the kernel's `fdinfo` has none (before Linux 5.14) and no one maps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Who maps it, and how much of it; from `/proc/PID/maps` of processes whose `RssShmem` is not 0.
    pub mapped: Vec<SharedMapping>,
    /// `/dev/shm/NAME` or `/memfd:NAME`, with ` (deleted)` where it has no name any more.
    pub name: String,
    /// Who has it open.
    pub owners: Vec<Owner>,
    /// Its length; it may take less memory. Absent where it could not be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// How much of a file in memory one process maps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMapping {
    /// Address space, whether touched or not.
    pub bytes: u64,
    /// The process.
    pub identity: ProcessId,
}

/// One System V object, from `/proc/sysvipc/shm`, `sem` and `msg` of our own IPC namespace (`sysvipc(7)`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysvObject {
    /// How many times a segment is attached (`nattch`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<u64>,
    /// The size of a segment, or the bytes in a message queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its id in the kernel.
    pub id: i64,
    /// The key it was made with, as the kernel writes it; 0 is a private one.
    pub key: i64,
    /// What it is.
    pub kind: SysvKind,
    /// Messages in a queue (`qnum`), or semaphores in a set (`nsems`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u64>,
    /// The watched processes that made it or used it last, map it or wait for it; the kernel keeps no more.
    pub users: Vec<ProcessId>,
}

/// What a System V object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SysvKind {
    /// A message queue.
    Messages,
    /// A set of semaphores.
    Semaphores,
    /// A segment of shared memory.
    SharedMemory,
}
