//! Ranks as people write them: `0-2,5`.

/// Returns whole numbers as ranges, in order and each once.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut parts: Vec<String> = Vec::new();
    let mut next = 0;
    while next < numbers.len() {
        let first = next;
        while next + 1 < numbers.len() && numbers[next + 1] == numbers[next] + 1 {
            next += 1;
        }
        parts.push(match next - first {
            0 => numbers[first].to_string(),
            1 => format!("{},{}", numbers[first], numbers[next]),
            _ => format!("{}-{}", numbers[first], numbers[next]),
        });
        next += 1;
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_the_order_does_not_matter() {
        assert_eq!(ranges([5, 1, 0, 2, 5]), "0-2,5");
        assert_eq!(ranges([3, 4]), "3,4");
        assert_eq!(ranges([7]), "7");
        assert_eq!(ranges([]), "");
        assert_eq!(
            ranges([u64::MAX, u64::MAX - 1, u64::MAX - 2]),
            format!("{}-{}", u64::MAX - 2, u64::MAX)
        );
    }
}
