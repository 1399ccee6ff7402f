//! A compiler of plugins as a program of its own, which this crate's tests start. `taskscope` does the same in a hidden
//! command.

use std::time::Duration;

use taskscope_plugin::{CompileLimits, compile_plugin};

fn main() {
    let numbers = std::env::args().skip(1).map(|number| number.parse());
    let numbers: Result<Vec<u64>, _> = numbers.collect();
    if let Ok([seconds, memory_bytes, nice]) = numbers.as_deref() {
        compile_plugin(CompileLimits {
            cpu: Duration::from_secs(*seconds),
            memory_bytes: *memory_bytes,
            nice: u8::try_from(*nice).unwrap_or(19),
            ..CompileLimits::default()
        });
    }
}
