//! The parsers of this module, for the door of fuzz targets.

use super::{datagrams, mappings, netlink, tcp, unix};

/// Reads `bytes` as every text and message that this module parses.
pub(crate) fn parsers(bytes: &[u8]) {
    let _ = mappings::parse(bytes);
    let _ = tcp::parse_file(bytes, |_| true);
    let _ = unix::parse_file(bytes, |_| true);
    for list in &datagrams::LISTS {
        let _ = list.parse(bytes, |_| true);
    }
    let _ = netlink::attributes(bytes).count();
    let text = String::from_utf8_lossy(bytes);
    let _ = super::futex::wait_of(&text);
    let _ = super::system_calls::locks_a_file(&text);
    let _ = super::system_calls::sysv_object(&text);
}
