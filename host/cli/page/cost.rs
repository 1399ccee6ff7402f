//! What watching costs, in one line at the end of a page.

use std::fmt::Write as _;

use model::{Detail, Snapshot};

use super::{table, text};

/// Returns the line with an empty one before it; nothing for a single snapshot.
pub(super) fn line(snapshot: &Snapshot) -> String {
    let capture = &snapshot.capture;
    let Some(spending) = &capture.spending else {
        return String::new();
    };
    let mut words = Vec::new();
    if let Some(used) = spending.used_percent {
        words.push(format!("{used:.2} % of one core"));
    }
    if let Some(budget) = spending.budget_percent {
        words.push(format!("{budget} % allowed"));
    }
    if let Some(helpers) = capture.helper_count {
        words.push(text::count(helpers, "helper", "helpers"));
    }
    if let Some(longest) = spending.longest_cycle_ms {
        words.push(format!("longest cycle {longest:.0} ms"));
    }
    if spending.written_bytes > 0 {
        words.push(format!("{} written", table::bytes(spending.written_bytes)));
    }
    if words.is_empty() {
        words.push("cost not known".to_owned());
    }
    let mut line = format!("\nWatching: {}", words.join(", "));
    if let (Some(wanted), Some(interval)) = (spending.wanted_interval_s, capture.interval_s)
        && interval > wanted
    {
        let [interval, wanted] = [interval, wanted].map(seconds);
        _ = write!(line, "; interval stretched from {wanted} to {interval}");
    }
    if let Some(words) = left_out(spending.detail) {
        _ = write!(line, "; {words} left out");
    }
    line.push('\n');
    line
}

/// To a tenth, and no more digits than that needs.
fn seconds(seconds: f64) -> String {
    format!("{} s", (seconds * 10.0).round() / 10.0)
}

fn left_out(detail: Detail) -> Option<&'static str> {
    Some(match detail {
        Detail::Full => return None,
        Detail::WithoutSharedMemory => "PSS and USS",
        Detail::WithoutThreadDetail => "kernel stacks",
        Detail::WithoutConnections => "kernel stacks and connections",
        Detail::WithoutPythonStacks => "kernel stacks, connections and Python stacks",
    })
}

#[cfg(test)]
mod tests {
    use model::Spending;

    use super::*;

    #[test]
    fn cost_is_one_line_and_says_what_it_led_to() {
        let mut snapshot = super::super::tests::snapshot();
        assert_eq!(line(&snapshot), "");
        snapshot.capture.helper_count = Some(2);
        snapshot.capture.interval_s = Some(120.0);
        let mut spending = Spending {
            longest_cycle_ms: Some(61.25),
            used_percent: Some(0.159),
            wanted_interval_s: Some(120.0),
            written_bytes: 14_976,
            ..Spending::default()
        };
        snapshot.capture.spending = Some(spending);
        let calm =
            "\nWatching: 0.16 % of one core, 2 helpers, longest cycle 61 ms, 14.6 KiB written\n";
        assert_eq!(line(&snapshot), calm);
        spending.budget_percent = Some(0.5);
        spending.detail = Detail::WithoutConnections;
        snapshot.capture.interval_s = Some(431.25);
        snapshot.capture.spending = Some(spending);
        let line = line(&snapshot);
        assert!(line.starts_with("\nWatching: 0.16 % of one core, 0.5 % allowed, 2 helpers, "));
        let end =
            "; interval stretched from 120 s to 431.3 s; kernel stacks and connections left out\n";
        assert!(line.ends_with(end), "{line}");
    }
}
