//! What judging live costs of a real run: its snapshots, one after the other, beside what taking them had cost. Prints one row
//! of a table.
//!
//! Usage: live SNAPSHOT.json...

use std::fs;
use std::io::{Error, Write as _};
use std::time::Duration;

use model::Snapshot;
use taskscope_diagnose::{Recent, Tuning};

fn main() -> std::io::Result<()> {
    let texts = std::env::args().skip(1).map(fs::read_to_string);
    let texts = texts.collect::<std::io::Result<Vec<String>>>()?;
    let snapshots = texts.iter().map(|text| serde_json::from_str(text));
    let snapshots = snapshots.collect::<Result<Vec<Snapshot>, _>>();
    let snapshots = snapshots.map_err(Error::other)?;
    let mut recent = Recent::new(Tuning::default());
    let (mut judging, mut taking, mut told) = (Duration::ZERO, 0.0, 0);
    // The first ones have nothing before them to be judged with.
    let warm = snapshots.len() / 3;
    for (number, snapshot) in snapshots.iter().enumerate() {
        let before = cpu();
        told += recent.judge(snapshot, &[]).messages.len();
        if number >= warm {
            judging += cpu().saturating_sub(before);
            taking += snapshot.capture.cpu_ms.unwrap_or(0.0);
        }
    }
    let count = u32::try_from(snapshots.len() - warm).unwrap_or(1).max(1);
    let judging = judging.as_secs_f64() * 1e3;
    writeln!(
        std::io::stdout(),
        "| {} | {count} | {:.2} | {:.2} | {:.1} | {told} |",
        snapshots.last().map_or(0, |it| it.processes.len()),
        judging / f64::from(count),
        taking / f64::from(count),
        judging / taking * 100.0,
    )
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
