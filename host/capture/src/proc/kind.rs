//! What kind of process a `stat` line is of, which decides where its memory and descriptors can be read.

use std::os::fd::BorrowedFd;

use super::{Reader, Stat, stat};

/// What kind of process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One like most.
    Ordinary,
    /// Its main thread ended, this thread lives on: what all threads share is read from there.
    WithoutMainThread(i32),
    /// It ended and its parent has not waited for it: its memory and descriptors are gone.
    Zombie,
    /// It runs in the kernel only and has no program.
    KernelThread,
}

impl Kind {
    /// Returns the kind of the process in `directory` whose `stat` is given.
    pub(crate) fn of(reader: &mut Reader, directory: BorrowedFd<'_>, stat: &Stat) -> Self {
        if stat.kernel_thread {
            return Self::KernelThread;
        }
        if !is_dead(stat.state) {
            return Self::Ordinary;
        }
        // The main thread itself counts until the last of the others has ended.
        if stat.threads < 2 {
            return Self::Zombie;
        }
        let threads = reader.numbers(directory, "task");
        let threads = threads.map_or(Vec::new(), |(_, threads)| threads);
        threads
            .into_iter()
            .find(|&tid| tid != stat.pid && lives(reader, directory, tid))
            .map_or(Self::Zombie, Self::WithoutMainThread)
    }

    /// Returns the path of `file`, one that all threads share, below the directory of the process.
    pub(crate) fn path(self, file: &str) -> String {
        match self {
            Self::WithoutMainThread(tid) => format!("task/{tid}/{file}"),
            Self::Ordinary | Self::Zombie | Self::KernelThread => file.to_owned(),
        }
    }
}

fn lives(reader: &mut Reader, directory: BorrowedFd<'_>, tid: i32) -> bool {
    reader
        .read_record(directory, &format!("task/{tid}/stat"))
        .ok()
        .and_then(stat::parse)
        .is_some_and(|stat| !is_dead(stat.state))
}

fn is_dead(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}
