//! A system call, in the words that tell what a thread waits for.

use std::fmt::Write as _;

use model::{CallTimeout, SystemCall};

use super::text::safe;

/// Returns the call as `read of 3 (pipe:[5])` or `futex FUTEX_WAIT_PRIVATE at 0x7f… without a timeout`.
pub(crate) fn call(call: &SystemCall) -> String {
    let mut words = safe(&call.name);
    if let Some(operation) = &call.operation {
        _ = write!(words, " {}", safe(operation));
    }
    let path = call.path.as_deref().filter(|path| !path.is_empty());
    if let Some(path) = path {
        _ = write!(words, " of {}", safe(path));
    }
    // A whole path does not begin at a descriptor.
    if path.is_none_or(|path| !path.starts_with('/')) {
        let join = if path.is_some() { "in" } else { "of" };
        match (call.fd, &call.fd_target) {
            (Some(fd), Some(target)) => _ = write!(words, " {join} {fd} ({})", safe(target)),
            (Some(-100), None) => _ = write!(words, " {join} the working directory"),
            (Some(fd), None) => _ = write!(words, " {join} {fd}"),
            (None, _) => {}
        }
    }
    if !call.fds.is_empty() {
        let fds: Vec<String> = call.fds.iter().map(i32::to_string).collect();
        _ = write!(words, " of {}", fds.join(", "));
    }
    if let Some(address) = &call.address {
        _ = write!(words, " at {}", safe(address));
    }
    match call.waits_for {
        Some(-1) => words.push_str(" for any child"),
        Some(0) => words.push_str(" for any child of its process group"),
        Some(pid @ 1..) => _ = write!(words, " for {pid}"),
        Some(group) => _ = write!(words, " for process group {}", group.unsigned_abs()),
        None => {}
    }
    match (call.timeout, call.timeout_ms) {
        (Some(CallTimeout::Infinite), _) => words.push_str(" without a timeout"),
        (_, Some(milliseconds)) => _ = write!(words, " for up to {milliseconds} ms"),
        (Some(CallTimeout::Set), None) => words.push_str(" with a timeout"),
        (None, None) => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> SystemCall {
        SystemCall {
            name: name.to_owned(),
            ..SystemCall::default()
        }
    }

    #[test]
    fn what_a_call_waits_for_is_said() {
        assert_eq!(call(&named("pause")), "pause");
        let read = SystemCall {
            fd: Some(3),
            fd_target: Some("pipe:[5]".to_owned()),
            ..named("read")
        };
        assert_eq!(call(&read), "read of 3 (pipe:[5])");
        let open = |path: &str| SystemCall {
            fd: Some(-100),
            operation: Some("O_RDONLY".to_owned()),
            path: Some(path.to_owned()),
            ..named("openat")
        };
        assert_eq!(call(&open("/run/fifo")), "openat O_RDONLY of /run/fifo");
        assert_eq!(
            call(&open("fifo")),
            "openat O_RDONLY of fifo in the working directory"
        );
        let poll = SystemCall {
            fds: vec![3, 5],
            timeout: Some(CallTimeout::Infinite),
            ..named("poll")
        };
        assert_eq!(call(&poll), "poll of 3, 5 without a timeout");
        let futex = SystemCall {
            address: Some("0x7f00".to_owned()),
            operation: Some("FUTEX_WAIT_PRIVATE".to_owned()),
            timeout: Some(CallTimeout::Infinite),
            ..named("futex")
        };
        assert_eq!(
            call(&futex),
            "futex FUTEX_WAIT_PRIVATE at 0x7f00 without a timeout"
        );
        let poll = SystemCall {
            timeout: Some(CallTimeout::Set),
            timeout_ms: Some(1500),
            ..named("poll")
        };
        assert_eq!(call(&poll), "poll for up to 1500 ms");
        let wait = |pid| SystemCall {
            waits_for: Some(pid),
            ..named("wait4")
        };
        assert_eq!(call(&wait(4711)), "wait4 for 4711");
        assert_eq!(call(&wait(-1)), "wait4 for any child");
        assert_eq!(call(&wait(-7)), "wait4 for process group 7");
    }
}
