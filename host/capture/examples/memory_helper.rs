//! A memory helper as a program of its own, which this crate's tests start. `taskscope` does the same in a hidden command.

use std::process::ExitCode;

fn main() -> ExitCode {
    taskscope_capture::memory_helper(std::io::stdin(), std::io::stdout())
}
