//! Words to stderr that never hold anybody up: whoever reads it may have stopped, and the task must end all the same.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// How long a line waits for a pipe or terminal that is full. After one has waited in vain the next do not.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a pipe that says it has room takes without waiting (`PIPE_BUF`, pipe(7)).
const PIPE_BUF: usize = 4096;

/// How many lines were not written since the last that was.
static LOST: Mutex<usize> = Mutex::new(0);

/// Our standard error. Writing whole lines keeps them whole; a closed one is no error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stderr;

impl Stderr {
    /// Writes `bytes` if that can be done now; who calls has something more urgent to do than to wait.
    pub(crate) fn offer(bytes: &[u8]) {
        // Somebody else waits for it.
        let Ok(mut lost) = LOST.try_lock() else {
            return;
        };
        if !write_all(bytes, Instant::now()) {
            *lost += 1;
        }
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = if *lost == 0 { PATIENCE } else { Duration::ZERO };
        let until = Instant::now() + patience;
        let is_written = if *lost == 0 {
            write_all(bytes, until)
        } else {
            let words = format!(
                "[taskscope] warning: {lost} lines are missing here, for nobody read them\n"
            );
            write_all(&[words.as_bytes(), bytes].concat(), until)
        };
        *lost = if is_written { 0 } else { *lost + 1 };
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether all of it was written, or nobody can read it any more.
fn write_all(bytes: &[u8], until: Instant) -> bool {
    bytes
        .chunks(PIPE_BUF)
        .all(|chunk| write_chunk(chunk, until))
}

fn write_chunk(mut chunk: &[u8], until: Instant) -> bool {
    let stderr = io::stderr();
    // A file says now and then that it would have to wait, and poll that it would not.
    let is_file = fstat(&stderr)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    while !chunk.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let ready = poll(
            &mut [PollFd::new(&stderr, PollFlags::OUT)],
            timeout.as_ref(),
        );
        match ready {
            Ok(0) => return false,
            Err(Errno::INTR) | Ok(_) => {}
            Err(_) => return true,
        }
        let written = if is_file {
            rustix::io::write(&stderr, chunk)
        } else {
            // Somebody else may have taken the room meanwhile. An offset of -1 is the end, as for write(2).
            let parts = [io::IoSlice::new(chunk)];
            match pwritev2(&stderr, &parts, u64::MAX, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) => {
                    rustix::io::write(&stderr, chunk)
                }
                other => other,
            }
        };
        match written {
            Ok(count) => chunk = &chunk[count..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            // A closed stderr must never be the end of a task.
            Err(_) => return true,
        }
    }
    true
}
