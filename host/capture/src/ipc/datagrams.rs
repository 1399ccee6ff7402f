//! Sockets that are neither TCP nor unix, as the lists in `/proc/PID/net` have them: `udp`, `icmp`, `raw` (and their twins
//! for IPv6), `netlink` and `packet`.

use model::{EndpointKind, SocketFacts};

use super::tcp;

/// One list: its file, what the sockets in it are, the name of their protocol, and how a line is read.
pub(super) struct List {
    pub(super) file: &'static str,
    pub(super) kind: EndpointKind,
    line: fn(&[&str]) -> Option<(SocketFacts, u64)>,
}

/// The lists, those first in which most sockets are.
pub(super) const LISTS: [List; 8] = [
    list("net/udp", EndpointKind::Udp, udp),
    list("net/udp6", EndpointKind::Udp, udp),
    list("net/netlink", EndpointKind::Netlink, netlink),
    list("net/raw", EndpointKind::Raw, raw),
    list("net/raw6", EndpointKind::Raw, raw),
    list("net/icmp", EndpointKind::Icmp, icmp),
    list("net/icmp6", EndpointKind::Icmp, icmp),
    list("net/packet", EndpointKind::Packet, packet),
];

/// `include/uapi/linux/netlink.h`; the numbers that are left out are of no protocol, or of one that is gone.
const NETLINK: [(&str, &str); 15] = [
    ("0", "route"),
    ("2", "usersock"),
    ("4", "sock_diag"),
    ("5", "nflog"),
    ("6", "xfrm"),
    ("7", "selinux"),
    ("8", "iscsi"),
    ("9", "audit"),
    ("10", "fib_lookup"),
    ("11", "connector"),
    ("12", "netfilter"),
    ("15", "kobject_uevent"),
    ("16", "generic"),
    ("21", "crypto"),
    ("22", "smc"),
];

const fn list(
    file: &'static str,
    kind: EndpointKind,
    line: fn(&[&str]) -> Option<(SocketFacts, u64)>,
) -> List {
    List { file, kind, line }
}

impl List {
    /// Returns the sockets that `wanted` accepts, each with its inode.
    pub(super) fn parse(
        &self,
        bytes: &[u8],
        wanted: impl Fn(u64) -> bool,
    ) -> Vec<(SocketFacts, u64)> {
        let lines = bytes.split(|&byte| byte == b'\n').skip(1);
        let found = lines.filter_map(|line| {
            let text = std::str::from_utf8(line).ok()?;
            let fields: Vec<&str> = text.split_ascii_whitespace().collect();
            (self.line)(&fields).filter(|(_, inode)| wanted(*inode))
        });
        found.collect()
    }
}

fn udp(fields: &[&str]) -> Option<(SocketFacts, u64)> {
    internet("udp", fields)
}

fn icmp(fields: &[&str]) -> Option<(SocketFacts, u64)> {
    internet("icmp", fields)
}

/// Where others have their port, it has the number of its protocol.
fn raw(fields: &[&str]) -> Option<(SocketFacts, u64)> {
    internet("raw", fields)
}

/// `sl local remote st tx:rx timer:when retrnsmt uid timeout inode ref pointer drops`, as in `net/tcp`.
fn internet(protocol: &str, fields: &[&str]) -> Option<(SocketFacts, u64)> {
    let &[_, local, remote, state, queues, _, _, _, _, inode, ..] = fields else {
        return None;
    };
    let (send_queue, receive_queue) = queues.split_once(':')?;
    let facts = SocketFacts {
        drops: fields.get(12).and_then(|drops| drops.parse().ok()),
        local: Some(tcp::file_address(local)?),
        protocol: protocol.to_owned(),
        receive_queue: u64::from_str_radix(receive_queue, 16).ok(),
        remote: Some(tcp::file_address(remote)?),
        send_queue: u64::from_str_radix(send_queue, 16).ok(),
        state: Some(match state {
            "01" => "established".to_owned(),
            "07" => "unconnected".to_owned(),
            other => other.to_owned(),
        }),
    };
    Some((facts, inode.parse().ok()?))
}

/// `sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode`; before Linux 2.6.39 without the last two.
fn netlink(fields: &[&str]) -> Option<(SocketFacts, u64)> {
    let &[
        _,
        protocol,
        port,
        _,
        receive_queue,
        send_queue,
        _,
        _,
        drops,
        inode,
    ] = fields
    else {
        return None;
    };
    let known = NETLINK.iter().find(|(number, _)| *number == protocol);
    let facts = SocketFacts {
        drops: drops.parse().ok(),
        local: Some(port.to_owned()).filter(|port| port != "0"),
        protocol: known.map_or(protocol, |(_, name)| name).to_owned(),
        receive_queue: receive_queue.parse().ok(),
        send_queue: send_queue.parse().ok(),
        ..SocketFacts::default()
    };
    Some((facts, inode.parse().ok()?))
}

/// `sk RefCnt Type Proto Iface R Rmem User Inode`.
fn packet(fields: &[&str]) -> Option<(SocketFacts, u64)> {
    let &[_, _, _, protocol, interface, _, receive_queue, _, inode] = fields else {
        return None;
    };
    let facts = SocketFacts {
        local: Some(interface.to_owned()),
        protocol: format!("0x{protocol}"),
        receive_queue: receive_queue.parse().ok(),
        ..SocketFacts::default()
    };
    Some((facts, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UDP: &[u8] = b"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops            \n 2451: 0100007F:0277 00000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 4714 2 0000000000000000 5         \n";
    const NETLINK: &[u8] = b"sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n0000000000000000 15  4242       00000001 768      0        0     2        3        4715    \n0000000000000000 99  0          00000000 0        0        0     2        0        4716    \n";
    const PACKET: &[u8] = b"sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n0000000000000000 3      3    0003   2     1 1536   0      4717  \n";

    fn all(file: &str, bytes: &[u8]) -> Vec<(SocketFacts, u64)> {
        let list = LISTS.iter().find(|list| list.file == file).unwrap();
        list.parse(bytes, |_| true)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_datagram_socket_has_its_addresses_its_queues_and_what_was_lost() {
        let expected = SocketFacts {
            drops: Some(5),
            local: Some("127.0.0.1:631".to_owned()),
            protocol: "udp".to_owned(),
            receive_queue: Some(768),
            remote: Some("0.0.0.0:0".to_owned()),
            send_queue: Some(0),
            state: Some("unconnected".to_owned()),
        };
        assert_eq!(all("net/udp", UDP), [(expected, 4714)]);
        let list = &LISTS[0];
        assert_eq!(list.parse(UDP, |inode| inode == 1), []);
    }

    #[test]
    fn a_netlink_and_a_packet_socket_name_their_protocol() {
        let found = all("net/netlink", NETLINK);
        let (facts, inode) = &found[0];
        assert_eq!((facts.protocol.as_str(), *inode), ("kobject_uevent", 4715));
        assert_eq!(facts.local.as_deref(), Some("4242"));
        assert_eq!((facts.receive_queue, facts.drops), (Some(768), Some(3)));
        assert_eq!(found[1].0.protocol, "99");
        assert_eq!(found[1].0.local, None);
        let (facts, inode) = &all("net/packet", PACKET)[0];
        assert_eq!((facts.protocol.as_str(), *inode), ("0x0003", 4717));
        assert_eq!(facts.receive_queue, Some(1536));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for list in &LISTS {
                let _ = list.parse(&bytes, |_| true);
            }
        }
    }
}
