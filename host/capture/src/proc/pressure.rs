//! `/proc/pressure/*` and the `*.pressure` files of cgroups, Documentation/accounting/psi.rst.

use model::{Pressure, Stall};

/// Parses the text; nothing where it has neither line.
pub(crate) fn parse(text: &str) -> Option<Pressure> {
    let mut pressure = Pressure::default();
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("some", rest)) => pressure.some = stall(rest),
            Some(("full", rest)) => pressure.full = stall(rest),
            _ => {}
        }
    }
    (pressure != Pressure::default()).then_some(pressure)
}

fn stall(text: &str) -> Option<Stall> {
    let value = |wanted: &str| {
        let mut pairs = text
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='));
        pairs
            .find(|(key, _)| *key == wanted)
            .map(|(_, value)| value)
    };
    let percent = |wanted: &str| {
        let percent: f64 = value(wanted)?.parse().ok()?;
        percent.is_finite().then_some(percent)
    };
    Some(Stall {
        avg10_percent: percent("avg10")?,
        avg300_percent: percent("avg300")?,
        avg60_percent: percent("avg60")?,
        total_usec: value("total")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_file_is_read() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.30 total=5316012\nfull avg10=0.00 avg60=0.01 avg300=0.00 total=12";
        let pressure = parse(text).unwrap();
        let some = pressure.some.unwrap();
        assert_eq!(some.total_usec, 5_316_012);
        let percents = [some.avg10_percent, some.avg60_percent, some.avg300_percent];
        assert_eq!(
            percents.map(|percent| format!("{percent}")),
            ["1.53", "0.87", "0.3"]
        );
        assert_eq!(pressure.full.unwrap().total_usec, 12);
    }

    #[test]
    fn a_line_that_is_not_understood_is_unknown_and_not_zero() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("some avg10=x avg60=0 avg300=0 total=1\n"), None);
        assert_eq!(parse("some avg10=NaN avg60=0 avg300=0 total=1\n"), None);
        assert_eq!(parse("some avg10=0.00 avg60=0.00 total=1\nfull\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(some|full|avg10=|total=|[0-9.]| |\n|.)*") {
            parse(&text);
        }
    }
}
