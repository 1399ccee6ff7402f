//! The answer of `taskscope why`: what is wrong, who is to blame, who merely waits, and what shows it.

use model::Timestamp;
use serde::Serialize;

/// How the task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing gets on, and nothing will by itself.
    Hung,
    /// It gets on, but is held back.
    Slow,
    /// It gets on, or rests by design.
    Healthy,
    /// It ended, or a part of it did, and not as it should.
    Failed,
    /// It ended as it should.
    Finished,
    /// It cannot be told.
    Unknown,
}

/// What the matter is. Each is explained to users in `docs/causes.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A rank is not where the others wait for it.
    RankBehind,
    /// A rank that the others wait for has ended.
    RankDead,
    /// Each waits for another, in a circle.
    Deadlock,
    /// A lock was held by another thread at a fork, and the child's copy stays locked.
    InheritedLock,
    /// A pipe is full and its reader does not read.
    PipeFull,
    /// Nobody is left at the other end of a pipe but who waits for it.
    PipeOrphaned,
    /// A process waits for a child that does not end.
    WaitingForChild,
    /// It waits for somebody to type or to send something into its standard input.
    WaitingForInput,
    /// It waits for an answer over a connection.
    WaitingForPeer,
    /// It waits for a lock on a file.
    FileLock,
    /// A process is stopped.
    Stopped,
    /// A file system or a disk does not answer.
    StorageStall,
    /// One thread keeps the interpreter to itself.
    GilHeld,
    /// A loop turns and gets nowhere.
    BusyLoop,
    /// A process was killed because memory ran out.
    OutOfMemory,
    /// Memory is so short that the kernel is busy with it.
    MemoryPressure,
    /// The processor quota is used up again and again.
    CpuThrottled,
    /// Shared memory (`/dev/shm`) is full.
    ShmFull,
    /// A disk is full.
    DiskFull,
    /// No more files can be opened.
    FdExhausted,
    /// Children have ended and their parent does not take notice.
    ZombieUnreaped,
    /// A process was ended by a signal.
    Crashed,
    /// It gets on.
    Progressing,
    /// It ended.
    Finished,
    /// It cannot be told.
    Unknown,
}

/// One claim, with all that it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// How the task is.
    pub verdict: State,
    /// What the matter is.
    pub cause: Cause,
    /// One sentence for a tired person.
    pub summary: String,
    /// Who is to blame.
    pub culprit: Option<Culprit>,
    /// Who merely waits for it.
    pub victims: Vec<Victim>,
    /// What else holds, the most telling first.
    pub findings: Vec<Verdict>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// Since when the one to blame has not run; of one that runs, since when the last of those on its node that wait for it has
    /// not. By the clock of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// Who is to blame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Culprit {
    /// Its node.
    pub node: String,
    /// Its rank, where it belongs to one.
    pub rank: Option<u64>,
    /// Its PID.
    pub pid: i32,
    /// `PID:START`.
    pub process: String,
    /// The kernel's id of the thread.
    pub thread: Option<i32>,
    /// The innermost frame that is not of Python's own library; else the innermost.
    pub frame: Option<Place>,
}

/// A line of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The function.
    pub function: String,
    /// The source file, as the code object has it.
    pub file: String,
    /// The line.
    pub line: i32,
}

/// One who waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Victim {
    /// Its node.
    pub node: String,
    /// Its rank, where it is one.
    pub rank: Option<u64>,
    /// Its PID.
    pub pid: i32,
}

/// A value of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// The node whose snapshot it is.
    pub node: String,
    /// The id of the snapshot.
    pub snapshot: String,
    /// An RFC 6901 pointer into its document.
    pub path: String,
    /// The value there.
    pub value: serde_json::Value,
}

impl Cause {
    /// Returns the word that stands for it in JSON and in the documentation.
    pub fn word(self) -> String {
        word(self)
    }
}

impl State {
    /// Returns the word that stands for it in JSON.
    pub fn word(self) -> String {
        word(self)
    }
}

fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
