//! What a process hears from outside: few bytes, now and then, are progress as well.

use std::collections::HashMap;
use std::time::Duration;

use model::{Process, Snapshot};

use crate::case::main_thread;
use crate::wait::{self, Wait};

/// When something last came over a connection with somebody who is not of the task.
pub(super) type Heard<'a> = HashMap<&'a str, Duration>;

/// Returns it by what a descriptor leads to.
pub(super) fn heard(snapshot: &Snapshot) -> Heard<'_> {
    let outward = snapshot.ipc.endpoints.iter().filter(|it| it.peer.is_none());
    let heard = outward.filter_map(|endpoint| {
        let tcp = endpoint.tcp.as_ref()?;
        let ago = tcp
            .last_received_ms
            .filter(|_| tcp.bytes_received.is_some_and(|it| it > 0))?;
        Some((endpoint.target.as_str(), Duration::from_millis(ago.into())))
    });
    heard.collect()
}

/// Whether the main thread reads from a connection over which something came in the last so many seconds.
pub(super) fn hears(process: &Process, heard: &Heard<'_>, seconds: f64) -> bool {
    let wait = main_thread(process).map(wait::of);
    let Some(Wait::Read { target, .. }) = wait else {
        return false;
    };
    heard
        .get(target.as_str())
        .is_some_and(|ago| ago.as_secs_f64() <= seconds)
}
