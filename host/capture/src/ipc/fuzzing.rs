//! The parsers of this module, for the door of fuzz targets.

use model::{SystemCall, Thread};

use super::{datagrams, mappings, netlink, polled, selected, tcp, unix, waited};

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
    for name in ["futex", "futex_wait", "ipc", "select", "semop"] {
        let call = SystemCall {
            name: name.to_owned(),
            ..SystemCall::default()
        };
        let thread = Thread {
            call: Some(call),
            syscall: Some(text.clone().into_owned()),
            ..Thread::default()
        };
        let _ = super::futex::wait_of(&thread);
        let _ = super::system_calls::sysv_object(&thread);
        let _ = super::arguments::request(&thread);
    }
    let _ = (polled(bytes), selected(bytes, 1024), waited(bytes));
}
