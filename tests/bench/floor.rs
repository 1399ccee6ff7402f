//! Opens and reads the files that are named on standard input, and does nothing with them: the least that looking at
//! them can cost. One line a step: `file PATH`, `link PATH` or `list PATH`. Prints the CPU milliseconds of a round, the
//! median of as many rounds as the first argument says. Needs the standard library alone: `rustc -O floor.rs`.

use std::fs::{File, read_dir, read_link};
use std::io::{Read, stdin};

/// User and system time of this process so far, nanoseconds.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a kernel with schedstat");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("a count of rounds");
    let mut text = String::new();
    stdin().read_to_string(&mut text).expect("a list of steps");
    let steps: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut buffer = vec![0; 64 << 10];
    let mut costs: Vec<u64> = (0..rounds).map(|_| round(&steps, &mut buffer)).collect();
    costs.sort_unstable();
    println!("{:.3}", costs[rounds / 2] as f64 / 1e6);
}

fn round(steps: &[(&str, &str)], buffer: &mut [u8]) -> u64 {
    let before = cpu();
    for (kind, path) in steps {
        match *kind {
            "file" => {
                if let Ok(mut file) = File::open(path) {
                    while file.read(buffer).is_ok_and(|count| count > 0) {}
                }
            }
            "link" => _ = read_link(path),
            _ => _ = read_dir(path).map(Iterator::count),
        }
    }
    cpu() - before
}
