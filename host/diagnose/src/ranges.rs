//! Ranks as people write them: `0-2,5`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Some ranks, as `0-2,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSet(Vec<RangeInclusive<u64>>);

impl RankSet {
    /// Returns whether `rank` is one of them.
    pub fn has(&self, rank: u64) -> bool {
        let mut ranges = self.0.iter();
        ranges.any(|range| range.contains(&rank))
    }
}

impl FromIterator<u64> for RankSet {
    fn from_iter<T: IntoIterator<Item = u64>>(numbers: T) -> Self {
        let mut numbers: Vec<u64> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some(last) if last.end().checked_add(1) == Some(number) => {
                    *last = *last.start()..=number;
                }
                _ => ranges.push(number..=number),
            }
        }
        Self(ranges)
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (first, last) = (range.start(), range.end());
            match last - first {
                0 => write!(formatter, "{comma}{first}")?,
                1 => write!(formatter, "{comma}{first},{last}")?,
                _ => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for RankSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges = text.split(',').map(range);
        let ranges: Option<Vec<RangeInclusive<u64>>> = ranges.collect();
        ranges
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no list of ranks such as 0-2,5"))
    }
}

/// Returns whole numbers as ranges, in order and each once.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().collect::<RankSet>().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn what_is_no_list_of_ranks_is_refused() {
        for text in [
            "",
            "a",
            "1-",
            "-1",
            "3-2",
            "1,,2",
            "1-2-3",
            "18446744073709551616",
        ] {
            let refusal = text.parse::<RankSet>().unwrap_err();
            assert_eq!(
                refusal,
                format!("`{text}` is no list of ranks such as 0-2,5")
            );
        }
        let set: RankSet = "5, 0-2".parse().unwrap();
        let there: Vec<u64> = (0..8).filter(|rank| set.has(*rank)).collect();
        assert_eq!(there, [0, 1, 2, 5]);
    }

    proptest! {
        #[test]
        fn ranges_that_are_read_back_are_the_same_ranks(ranks in proptest::collection::btree_set(0_u64..60, 1..30)) {
            let text = ranges(ranks.iter().copied());
            let back: RankSet = text.parse().unwrap();
            prop_assert!((0..70).all(|rank| back.has(rank) == ranks.contains(&rank)));
            prop_assert_eq!(back.to_string(), text);
        }
    }
}
