//! Columns, and numbers for people.

pub(crate) use model::size_words as bytes;

/// Returns `rows` as columns that line up, two spaces apart.
pub(crate) fn align<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut table = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// Returns clock ticks as [`duration`] does.
pub(crate) fn ticks(ticks: u64, ticks_per_second: u64) -> String {
    tenths(ticks.saturating_mul(10) / ticks_per_second.max(1))
}

/// Returns a time such as `4.2s`, `3m12s` or `5h02m`.
pub(crate) fn duration(duration: std::time::Duration) -> String {
    tenths(u64::try_from(duration.as_millis() / 100).unwrap_or(u64::MAX))
}

fn tenths(tenths: u64) -> String {
    let seconds = tenths / 10;
    match seconds {
        0..60 => format!("{seconds}.{}s", tenths % 10),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_three_digits() {
        let shown: Vec<String> = [0, 1023, 1024, 10 << 10, 12_345_678, 999 << 20, 1 << 30]
            .map(bytes)
            .to_vec();
        assert_eq!(
            shown,
            [
                "0 B", "1023 B", "1.00 KiB", "10.0 KiB", "11.8 MiB", "999 MiB", "1.00 GiB"
            ]
        );
    }

    #[test]
    fn times_keep_two_units() {
        let shown: Vec<String> = [0, 42, 5_999, 6_000, 19_234, 1_812_000]
            .map(|it| ticks(it, 100))
            .to_vec();
        assert_eq!(shown, ["0.0s", "0.4s", "59.9s", "1m00s", "3m12s", "5h02m"]);
    }

    #[test]
    fn columns_line_up_by_characters() {
        let rows = [
            ["├ a".to_owned(), "b".to_owned()],
            ["abcdef".to_owned(), "c".to_owned()],
        ];
        assert_eq!(align(&rows), "├ a     b\nabcdef  c\n");
    }
}
