//! Unix sockets: the question about one by its inode, and the answer (`linux/unix_diag.h`); and `/proc/PID/net/unix`.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use model::UnixFacts;

use super::netlink::{Client, attributes, u32_at};

const FAMILY: u8 = 1;
const ANY_COOKIE: u32 = u32::MAX;
const SHOW_NAME: u32 = 0x1;
const SHOW_PEER: u32 = 0x4;
const SHOW_WAITING: u32 = 0x8;
const SHOW_QUEUES: u32 = 0x10;
const NAME: u16 = 0;
const PEER: u16 = 2;
const WAITING: u16 = 3;
const QUEUES: u16 = 4;
const FIXED: usize = 16;

/// So many questions go in one call, so that the answers fit into the socket's buffer.
const BATCH: usize = 64;

/// One unix socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) facts: UnixFacts,
    pub(super) inode: u64,
    /// The inode of the socket at the other end; absent where there is none, or its holder has closed it.
    pub(super) peer: Option<u64>,
    /// The inodes of those that have connected and wait to be accepted.
    pub(super) waiting: Vec<u64>,
}

/// For more than so many it is cheaper to have all sockets listed: the kernel looks through half of them for each.
const FEW: usize = 32;

/// So long the kernel may take to list them.
const LIST_PATIENCE: Duration = Duration::from_millis(20);

/// Returns those of `inodes` that are unix sockets of our network namespace.
pub(super) fn ask(inodes: &BTreeSet<u64>) -> io::Result<Vec<Socket>> {
    if inodes.len() > FEW
        && let Some(sockets) = list(inodes)?
    {
        return Ok(sockets);
    }
    let inodes: Vec<u64> = inodes.iter().copied().collect();
    each(&mut Client::open()?, &inodes)
}

/// Has all sockets listed and returns those that are wanted; nothing if that takes too long.
fn list(inodes: &BTreeSet<u64>) -> io::Result<Option<Vec<Socket>>> {
    let mut sockets = Vec::new();
    let deadline = Instant::now() + LIST_PATIENCE;
    let is_whole = Client::open()?.dump(&request(0), deadline, |payload| {
        let inode = u32_at(payload, 4).map(u64::from);
        if inode.is_some_and(|inode| inodes.contains(&inode)) {
            sockets.extend(parse(payload));
        }
        true
    })?;
    Ok(is_whole.then_some(sockets))
}

/// Asks about each of `inodes`.
pub(super) fn each(client: &mut Client, inodes: &[u64]) -> io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    for batch in inodes.chunks(BATCH) {
        // The kernel asks with 32 bits; no inode of a socket has more.
        let requests = batch.iter().filter_map(|&inode| u32::try_from(inode).ok());
        let requests: Vec<_> = requests.map(request).collect();
        client.ask(&requests, |payload| sockets.extend(parse(payload)))?;
    }
    Ok(sockets)
}

/// Parses `/proc/PID/net/unix` and returns the sockets that `wanted` accepts. It knows neither peers nor queues.
pub(super) fn parse_file(bytes: &[u8], wanted: impl Fn(u64) -> bool) -> Vec<Socket> {
    let lines = bytes.split(|&byte| byte == b'\n').skip(1);
    lines.filter_map(|line| file_line(line, &wanted)).collect()
}

/// A line is `Num: RefCount Protocol Flags Type St Inode Path`.
fn file_line(line: &[u8], wanted: &impl Fn(u64) -> bool) -> Option<Socket> {
    let line = String::from_utf8_lossy(line);
    let mut rest: &str = &line;
    let mut fields = [""; 7];
    for field in &mut fields {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        (*field, rest) = rest.split_at(end);
    }
    let [_, _, _, flags, kind, state, inode] = fields;
    let inode = inode.parse().ok().filter(|&inode| wanted(inode))?;
    let path = rest.strip_prefix(' ').unwrap_or(rest);
    // __SO_ACCEPTCON: the socket listens; `St` alone does not say so.
    let listens = u32::from_str_radix(flags, 16).ok()? & 0x1_0000 != 0;
    let state = match state {
        _ if listens => "listen",
        "01" => "closed",
        "02" => "connecting",
        "03" => "established",
        "04" => "disconnecting",
        _ => return None,
    };
    Some(Socket {
        facts: UnixFacts {
            path: (!path.is_empty()).then(|| path.to_owned()),
            socket_type: type_name(u8::from_str_radix(kind, 16).ok()?),
            state: state.to_owned(),
            ..UnixFacts::default()
        },
        inode,
        peer: None,
        waiting: Vec::new(),
    })
}

fn request(inode: u32) -> Vec<u8> {
    let mut bytes = vec![FAMILY, 0, 0, 0];
    let show = SHOW_NAME | SHOW_PEER | SHOW_WAITING | SHOW_QUEUES;
    for number in [u32::MAX, inode, show, ANY_COOKIE, ANY_COOKIE] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes
}

fn parse(payload: &[u8]) -> Option<Socket> {
    let fixed = payload.get(..FIXED)?;
    let mut socket = Socket {
        facts: UnixFacts {
            socket_type: type_name(fixed[1]),
            state: state_name(fixed[2]).to_owned(),
            ..UnixFacts::default()
        },
        inode: u64::from(u32_at(fixed, 4)?),
        peer: None,
        waiting: Vec::new(),
    };
    for (kind, value) in attributes(&payload[FIXED..]) {
        match kind {
            NAME => socket.facts.path = name(value),
            PEER => socket.peer = u32_at(value, 0).filter(|&peer| peer != 0).map(u64::from),
            WAITING => {
                let inodes = value.chunks(4).filter_map(|inode| u32_at(inode, 0));
                socket.waiting = inodes.filter(|&inode| inode != 0).map(u64::from).collect();
            }
            QUEUES => {
                socket.facts.receive_queue = u32_at(value, 0);
                socket.facts.send_queue = u32_at(value, 4);
            }
            _ => {}
        }
    }
    Some(socket)
}

/// An abstract name begins with a NUL, and may have more; a path ends before one.
fn name(value: &[u8]) -> Option<String> {
    let (first, rest) = value.split_first()?;
    let shown: Vec<u8> = if *first == 0 {
        let rest = rest.iter();
        let shown = rest.map(|&byte| if byte == 0 { b'@' } else { byte });
        std::iter::once(b'@').chain(shown).collect()
    } else {
        value
            .iter()
            .copied()
            .take_while(|&byte| byte != 0)
            .collect()
    };
    Some(String::from_utf8_lossy(&shown).into_owned())
}

fn type_name(number: u8) -> String {
    match number {
        1 => "stream".to_owned(),
        2 => "datagram".to_owned(),
        5 => "seqpacket".to_owned(),
        other => other.to_string(),
    }
}

/// The states of TCP are used for unix sockets as well.
fn state_name(number: u8) -> &'static str {
    match number {
        1 => "established",
        2 => "connecting",
        10 => "listen",
        7 => "closed",
        _ => "disconnecting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &[u8] = b"Num       RefCount Protocol Flags    Type St Inode Path\n000000007a1e3f2b: 00000002 00000000 00010000 0001 01  1234 /run/my socket\n0000000000000000: 00000003 00000000 00000000 0001 03  1653\n00000000b2d7c1f0: 00000002 00000000 00000000 0002 01  1700 @abstract@x\nodd line\n";

    #[test]
    fn the_kernels_file_is_read_with_names_that_have_spaces() {
        let sockets = parse_file(REAL, |_| true);
        let seen: Vec<_> = sockets
            .iter()
            .map(|socket| {
                let facts = &socket.facts;
                let path = facts.path.as_deref().unwrap_or("-");
                (
                    socket.inode,
                    facts.socket_type.as_str(),
                    facts.state.as_str(),
                    path,
                )
            })
            .collect();
        let expected = [
            (1234, "stream", "listen", "/run/my socket"),
            (1653, "stream", "established", "-"),
            (1700, "datagram", "closed", "@abstract@x"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(parse_file(REAL, |inode| inode == 1700).len(), 1);
    }

    #[test]
    fn an_answer_of_the_kernel_is_read() {
        let mut payload = vec![FAMILY, 1, 10, 0];
        for number in [99_u32, 1, 2] {
            payload.extend(number.to_ne_bytes());
        }
        for (kind, value) in [
            (NAME, &b"\0ab\0c"[..]),
            (PEER, &98_u32.to_ne_bytes()[..]),
            (WAITING, &[7, 0, 0, 0, 0, 0, 0, 0][..]),
            (QUEUES, &[1, 0, 0, 0, 5, 0, 0, 0][..]),
        ] {
            let length = u16::try_from(4 + value.len()).unwrap();
            payload.extend(length.to_ne_bytes());
            payload.extend(kind.to_ne_bytes());
            payload.extend(value);
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
        let socket = parse(&payload).unwrap();
        assert_eq!((socket.inode, socket.peer), (99, Some(98)));
        #[cfg(target_endian = "little")]
        assert_eq!(socket.waiting, [7]);
        assert_eq!(socket.facts.path.as_deref(), Some("@ab@c"));
        assert_eq!(socket.facts.state, "listen");
        assert!(socket.facts.receive_queue.is_some() && socket.facts.send_queue.is_some());
        assert_eq!(name(b"/run/a\0"), Some("/run/a".to_owned()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = parse_file(&bytes, |_| true);
        }
    }
}
