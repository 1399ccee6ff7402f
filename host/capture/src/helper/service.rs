//! What every helper process does: it makes itself quiet and harmless, and ends with the collector.
//!
//! It kills itself, whatever it is doing, when the other end of its input closes: an orderly exit would run the ends of
//! libraries, which may wait for what hangs. (The kernel's parent-death signal is no use here: it comes when the *thread*
//! that started the helper ends.)

use std::ffi::CStr;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{self, Resource, Rlimit, getpid, kill_process, setrlimit};

use super::frame;

/// Makes this process quiet and harmless. `name`, of 15 bytes at most, is what `ps` and `top` call it; it may map
/// `most_memory` bytes, because what it reads may hold any length. Nothing here is needed for its work, so failures are
/// ignored.
pub(crate) fn settle(name: &CStr, most_memory: u64) {
    let _ = rustix::thread::set_name(name);
    let _ = std::env::set_current_dir("/");
    // The inherited mask goes. What ends or stops a program politely is not for us: a service manager that sends
    // SIGTERM to all of its processes still wants the last snapshot.
    let deaf = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGTSTP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];
    let _ = deaf.into_iter().collect::<SigSet>().thread_set_mask();
    let most = Rlimit {
        current: Some(most_memory),
        maximum: Some(most_memory),
    };
    let _ = setrlimit(Resource::As, most);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
}

/// Reads requests on a thread of their own, which notices the end of `input` while a read hangs, and then **kills this
/// process**. The requests end at something that `decode` does not understand.
pub(crate) fn listen<T: Send + 'static>(
    mut input: impl Read + Send + 'static,
    decode: impl Fn(&[u8]) -> io::Result<T> + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        loop {
            match frame::read_payload(&mut input) {
                Ok(payload) => {
                    let request = decode(&payload);
                    if !request.is_ok_and(|request| sender.send(request).is_ok()) {
                        return;
                    }
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::UnexpectedEof {
                        let _ = kill_process(getpid(), process::Signal::KILL);
                    }
                    return;
                }
            }
        }
    });
    receiver
}
