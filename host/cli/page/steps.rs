//! How far each process has counted, and how fast, by the numbers that its frames hold.

use std::time::Duration;

use model::{Process, Snapshot, Step};

use super::text::{base_name, safe};

/// A number and how fast it grows.
#[derive(Debug)]
pub(super) struct Clock<'a> {
    step: &'a Step,
    rate: Option<Rate>,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    over: Duration,
}

/// Returns the numbers of `process`, in their order.
pub(super) fn clocks<'a>(
    snapshot: &Snapshot,
    process: &'a Process,
    earlier: Option<&Snapshot>,
) -> Vec<Clock<'a>> {
    let before = earlier.and_then(|earlier| {
        let processes = &earlier.processes;
        let before = processes
            .iter()
            .find(|before| before.identity == process.identity)?;
        Some((earlier, before))
    });
    let clock = |step: &'a Step| Clock {
        step,
        rate: before.and_then(|(earlier, before)| {
            let other = before.steps.iter().find(|other| other.is_of(step))?;
            let over = snapshot
                .capture
                .started_at
                .since(earlier.capture.started_at);
            let per_second = step.per_second(other, over)?;
            Some(Rate { per_second, over })
        }),
    };
    process.steps.iter().map(clock).collect()
}

/// Returns the first number of `process` in a few words; empty where there is none.
pub(super) fn short(snapshot: &Snapshot, process: &Process, earlier: Option<&Snapshot>) -> String {
    let clocks = clocks(snapshot, process, earlier);
    clocks.first().map_or_else(String::new, |clock| {
        let count = format!("{} {}", safe(&clock.step.name), clock.step.value);
        match clock.rate {
            Some(rate) => format!("{count}, {}", per_second(rate.per_second)),
            None => count,
        }
    })
}

impl Clock<'_> {
    /// Returns the number, how fast it grows, and where it stands.
    pub(super) fn words(&self) -> String {
        let Step {
            file,
            function,
            line,
            name,
            value,
            ..
        } = self.step;
        let (name, function, file) = (safe(name), safe(function), safe(base_name(file)));
        let rate = self.rate.map_or_else(String::new, |rate| {
            let seconds = rate.over.as_secs_f64();
            format!(", {} over {seconds:.1} s", per_second(rate.per_second))
        });
        format!("{name} = {value}{rate}, in {function} ({file}:{line})")
    }
}

/// Three digits that matter: 50.0/s, 0.0214/s.
fn per_second(rate: f64) -> String {
    let magnitude = rate.abs();
    let digits = if magnitude >= 100.0 || magnitude == 0.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else if magnitude >= 1.0 {
        2
    } else {
        4
    };
    format!("{rate:.digits$}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_that_matter() {
        let rates = [0.0, 0.0214, 1.5, 25.04, 50.0, 1234.5].map(per_second);
        let expected = ["0/s", "0.0214/s", "1.50/s", "25.0/s", "50.0/s", "1234/s"];
        assert_eq!(rates, expected);
    }
}
