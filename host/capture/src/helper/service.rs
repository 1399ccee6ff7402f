//! What every helper process does: it makes itself quiet, small and harmless, and ends with the collector.
//!
//! It kills itself, whatever it is doing, when the other end of its input closes: an orderly exit would run the ends of
//! libraries, which may wait for what hangs. (The kernel's parent-death signal is no use here: it comes when the *thread*
//! that started the helper ends.)

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{self, Resource, Rlimit, getpid, getrlimit, kill_process, setrlimit};

use super::frame;
use super::passing::Inbox;
use crate::allocator::forget_start;

/// Makes this process quiet, small and harmless. `name`, of 15 bytes at most, is what `ps` and `top` call it; it may map
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
    forget_start();
}

/// Lets this process have as many descriptors as it may: it keeps one of each memory that it is handed.
pub(crate) fn have_many_descriptors() {
    let most = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    let _ = setrlimit(Resource::Nofile, limit);
}

/// What a collector says.
#[derive(Debug)]
pub(crate) enum Said<T> {
    /// What it wants.
    Request(T),
    /// The memory that the helper asked for, if it could be had.
    Memory(Option<File>),
}

/// Reads requests on a thread of their own, which notices the end of `input` while a read hangs, and then **kills this
/// process**. The requests end at something that `decode` does not understand.
pub(crate) fn listen<T: Send + 'static>(
    input: impl AsFd + Send + 'static,
    decode: impl Fn(&[u8]) -> io::Result<T> + Send + 'static,
) -> Receiver<Said<T>> {
    let (sender, receiver) = channel();
    let mut input = Inbox::of(input);
    std::thread::spawn(move || {
        loop {
            match frame::read_payload(&mut input) {
                Ok(payload) => {
                    let descriptor = input.descriptor();
                    let said = if payload.is_empty() {
                        Ok(Said::Memory(descriptor.map(File::from)))
                    } else {
                        decode(&payload).map(Said::Request)
                    };
                    if !said.is_ok_and(|said| sender.send(said).is_ok()) {
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
