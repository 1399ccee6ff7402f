//! TCP sockets: the question about all, the answer (`linux/inet_diag.h`, `linux/tcp.h`); and `/proc/PID/net/tcp`.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use model::TcpFacts;

use super::netlink::{Client, attributes, u32_at, u64_at};

const V4: u8 = 2;
const V6: u8 = 10;
const PROTOCOL: u8 = 6;
/// All states but those that belong to no descriptor: `TIME_WAIT` (6) and `SYN_RECV` (3).
const STATES: u32 = 0xfff & !(1 << 6) & !(1 << 3) | BOUND;
/// Sockets that are bound and do nothing; listed since Linux 6.8.
const BOUND: u32 = 1 << 13;
const SHOW_INFO: u8 = 1 << 1;
const INFO: u16 = 2;
const FIXED: usize = 72;

/// The states of `net/tcp_states.h`, from 1.
const NAMES: [&str; 12] = [
    "established",
    "syn_sent",
    "syn_recv",
    "fin_wait_1",
    "fin_wait_2",
    "time_wait",
    "close",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
    "new_syn_recv",
];

/// One TCP socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) facts: TcpFacts,
    pub(super) inode: u64,
}

/// Returns the TCP sockets of our network namespace whose inode is in `wanted`, and takes those out of it; and
/// whether `deadline` let it look at all. The kernel cannot be asked for an inode, so it is asked for all.
pub(super) fn ask(
    wanted: &mut BTreeSet<u64>,
    deadline: Instant,
) -> io::Result<(Vec<Socket>, bool)> {
    let mut sockets = Vec::new();
    let mut is_whole = true;
    for family in [V4, V6] {
        if wanted.is_empty() {
            break;
        }
        is_whole &= Client::open()?.dump(&request(family), deadline, |payload| {
            let inode = u32_at(payload, FIXED - 4).map(u64::from);
            if inode.is_some_and(|inode| wanted.remove(&inode)) {
                sockets.extend(parse(payload));
            }
            !wanted.is_empty()
        })?;
    }
    Ok((sockets, is_whole))
}

/// Parses `/proc/PID/net/tcp` or `tcp6` and returns the sockets that `wanted` accepts.
pub(super) fn parse_file(bytes: &[u8], wanted: impl Fn(u64) -> bool) -> Vec<Socket> {
    let lines = bytes.split(|&byte| byte == b'\n').skip(1);
    lines
        .filter_map(|line| file_line(std::str::from_utf8(line).ok()?, &wanted))
        .collect()
}

/// Returns the addresses of the sockets in `/proc/PID/net/tcp` or `tcp6` that listen and that `wanted` accepts.
pub(crate) fn listening(bytes: &[u8], wanted: impl Fn(u64) -> bool) -> Vec<String> {
    let sockets = parse_file(bytes, wanted).into_iter();
    let listening = sockets.filter(|socket| socket.facts.state == "listen");
    listening.map(|socket| socket.facts.local).collect()
}

/// A line is `sl local remote st tx:rx timer:when retrnsmt uid timeout inode …`, numbers hexadecimal up to `retrnsmt`.
fn file_line(line: &str, wanted: &impl Fn(u64) -> bool) -> Option<Socket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, remote, state, queues, _, retransmits, _, _, inode] = fields[..] else {
        return None;
    };
    let inode = inode.parse().ok().filter(|&inode| wanted(inode))?;
    let (send_queue, receive_queue) = queues.split_once(':')?;
    Some(Socket {
        facts: TcpFacts {
            local: file_address(local)?,
            receive_queue: u32::from_str_radix(receive_queue, 16).ok()?,
            remote: file_address(remote)?,
            retransmits: u32::from_str_radix(retransmits, 16).ok()?,
            send_queue: u32::from_str_radix(send_queue, 16).ok()?,
            state: state_name(u8::from_str_radix(state, 16).ok()?),
            ..TcpFacts::default()
        },
        inode,
    })
}

/// Addresses are words of four bytes in network order that are printed as numbers of the machine.
pub(super) fn file_address(text: &str) -> Option<String> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok()
    });
    let words: Option<Vec<u32>> = words.collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), port).to_string())
}

fn request(family: u8) -> Vec<u8> {
    let mut bytes = vec![family, PROTOCOL, SHOW_INFO, 0];
    bytes.extend(STATES.to_ne_bytes());
    // Which addresses: all.
    bytes.resize(bytes.len() + 48, 0);
    bytes
}

/// The fixed part: family, state, timer, retransmits; ports and addresses (48 bytes); expiry, queues, uid, inode.
fn parse(payload: &[u8]) -> Option<Socket> {
    let fixed = payload.get(..FIXED)?;
    let mut facts = TcpFacts {
        local: address(fixed, 4, 8)?,
        receive_queue: u32_at(fixed, 56)?,
        remote: address(fixed, 6, 24)?,
        retransmits: u32::from(fixed[3]),
        send_queue: u32_at(fixed, 60)?,
        state: state_name(fixed[1]),
        ..TcpFacts::default()
    };
    let info = attributes(&payload[FIXED..]).find(|(kind, _)| *kind == INFO);
    // Of a socket that listens the kernel fills other fields in.
    if let Some((_, info)) = info.filter(|_| facts.state != "listen") {
        // Before anything was sent, the kernel counts from its own start.
        if facts.state != "syn_sent" && facts.state != "close" {
            facts.last_sent_ms = u32_at(info, 44);
            facts.last_received_ms = u32_at(info, 52);
            facts.bytes_acknowledged = u64_at(info, 120);
            facts.bytes_received = u64_at(info, 128);
        }
        facts.total_retransmits = u32_at(info, 100);
    }
    Some(Socket {
        facts,
        inode: u64::from(u32_at(fixed, 68)?),
    })
}

fn address(fixed: &[u8], port: usize, at: usize) -> Option<String> {
    let port = u16::from_be_bytes([fixed[port], fixed[port + 1]]);
    let bytes: [u8; 16] = fixed.get(at..at + 16)?.try_into().ok()?;
    let address = match fixed[0] {
        V4 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        V6 => IpAddr::V6(Ipv6Addr::from(bytes)),
        _ => return None,
    };
    // Of an IPv6 socket that speaks IPv4 the kernel gives `::ffff:a.b.c.d`, of the other side's `a.b.c.d`.
    Some(SocketAddr::new(address.to_canonical(), port).to_string())
}

fn state_name(number: u8) -> String {
    let name = usize::from(number)
        .checked_sub(1)
        .and_then(|at| NAMES.get(at));
    name.map_or_else(|| number.to_string(), |&name| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &[u8] = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0                     \n   1: 0100007F:1F90 0100007F:D431 01 00000010:0000ABCD 01:00000014 00000003     0        0 4712 1 0000000000000000 20 4 30 10 -1                    \n";
    const REAL_V6: &[u8] = b"  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_files_are_read() {
        let sockets = parse_file(REAL, |_| true);
        let connected = &sockets[1];
        assert_eq!(connected.inode, 4712);
        assert_eq!(connected.facts.local, "127.0.0.1:8080");
        assert_eq!(connected.facts.remote, "127.0.0.1:54321");
        assert_eq!(connected.facts.state, "established");
        assert_eq!(
            (connected.facts.send_queue, connected.facts.receive_queue),
            (16, 0xabcd)
        );
        assert_eq!(connected.facts.retransmits, 3);
        assert_eq!(sockets[0].facts.state, "listen");
        assert_eq!(parse_file(REAL_V6, |_| true)[0].facts.local, "[::1]:8081");
        assert!(parse_file(REAL, |inode| inode == 1).is_empty());
    }

    #[test]
    fn an_answer_of_the_kernel_is_read() {
        let mut payload = vec![V4, 8, 1, 2];
        payload.extend(8080_u16.to_be_bytes());
        payload.extend(54321_u16.to_be_bytes());
        payload.extend([127, 0, 0, 1]);
        payload.resize(24, 0);
        payload.extend([10, 0, 0, 7]);
        payload.resize(52, 0);
        for number in [5_u32, 100, 200, 0, 4712] {
            payload.extend(number.to_ne_bytes());
        }
        let mut info = vec![0; 136];
        info[44..48].copy_from_slice(&11_u32.to_ne_bytes());
        info[52..56].copy_from_slice(&12_u32.to_ne_bytes());
        info[100..104].copy_from_slice(&13_u32.to_ne_bytes());
        info[120..128].copy_from_slice(&14_u64.to_ne_bytes());
        info[128..136].copy_from_slice(&15_u64.to_ne_bytes());
        payload.extend(140_u16.to_ne_bytes());
        payload.extend(INFO.to_ne_bytes());
        payload.extend(info);
        let socket = parse(&payload).unwrap();
        let facts = TcpFacts {
            bytes_acknowledged: Some(14),
            bytes_received: Some(15),
            last_received_ms: Some(12),
            last_sent_ms: Some(11),
            local: "127.0.0.1:8080".to_owned(),
            receive_queue: 100,
            remote: "10.0.0.7:54321".to_owned(),
            retransmits: 2,
            send_queue: 200,
            state: "close_wait".to_owned(),
            total_retransmits: Some(13),
        };
        assert_eq!(socket, Socket { facts, inode: 4712 });
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = parse_file(&bytes, |_| true);
        }
    }
}
