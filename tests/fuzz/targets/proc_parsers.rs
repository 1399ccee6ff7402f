//! Everything that reads a text of the kernel, or of a process, takes any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| capture::fuzzing::proc_parsers(bytes));
