//! A secret in an argument or variable is gone after redaction, whatever stands around it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| capture::fuzzing::frames(bytes));
