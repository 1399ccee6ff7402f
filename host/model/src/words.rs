//! Facts as people write them: the same words on a terminal and on a page.

use crate::{GapCode, Scheduling, SchedulingPolicy};

/// Returns a number of bytes with three significant digits and a binary unit.
pub fn size_words(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.995 {
        2
    } else {
        usize::from(value < 99.95)
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Returns a time in seconds as people write it: `3h02m01s`.
pub fn span_words(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, minutes) => format!("{minutes}m{rest:02}s"),
        (hours, minutes) => format!("{hours}h{minutes:02}m{rest:02}s"),
    }
}

/// Returns a state letter of `proc_pid_stat(5)` as a word.
pub fn state_words(state: char) -> &'static str {
    match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "disk sleep (D)",
        'Z' => "zombie",
        'T' => "stopped",
        't' => "traced",
        'I' => "idle",
        'X' | 'x' => "dead",
        'P' => "parked",
        _ => "?",
    }
}

/// Returns a gap's code as words.
pub fn code_words(code: GapCode) -> &'static str {
    match code {
        GapCode::Vanished => "gone when it was read",
        GapCode::Denied => "denied",
        GapCode::Reused => "the PID was reused",
        GapCode::Unsupported => "not supported",
        GapCode::BlockedRead => "the read hung",
        GapCode::TimedOut => "timed out",
        GapCode::Truncated => "cut at the limit",
        GapCode::Malformed => "not understood",
        GapCode::Torn => "changed while it was read",
        GapCode::Off => "switched off",
        GapCode::NoReader => "no py-spy found",
        GapCode::Skipped => "skipped",
        GapCode::Failed => "failed",
    }
}

/// Returns what is out of the ordinary in how something is scheduled.
pub fn scheduling_words(scheduling: &Scheduling) -> Option<String> {
    let policy = match scheduling.policy {
        SchedulingPolicy::Other if scheduling.nice == 0 => return None,
        SchedulingPolicy::Other => return Some(format!("nice {}", scheduling.nice)),
        SchedulingPolicy::Fifo => "real time, first in first out",
        SchedulingPolicy::RoundRobin => "real time, in turns",
        SchedulingPolicy::Batch => "batch",
        SchedulingPolicy::Idle => "only when the CPU is idle",
        SchedulingPolicy::Deadline => "deadline",
        SchedulingPolicy::Extension => "scheduled by a BPF program",
        SchedulingPolicy::Unknown => "an unknown scheduling policy",
    };
    Some(match scheduling.realtime_priority {
        Some(priority) => format!("{policy}, priority {priority}"),
        None => policy.to_owned(),
    })
}
