//! A compiler of plugins as a program of its own, which this crate's tests start. `taskscope` does the same in a hidden
//! command.

use std::time::Duration;

use taskscope_plugin::{CompileLimits, compile_plugin};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse());
    if let (Some(Ok(memory_bytes)), Some(Ok(seconds))) = (numbers.next(), numbers.next()) {
        compile_plugin(CompileLimits {
            cpu: Duration::from_secs(seconds),
            memory_bytes,
            ..CompileLimits::default()
        });
    }
}
