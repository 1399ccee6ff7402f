//! Lists of ranks as text, such as `0-2,5`. Never as long as a world size says: a world may be of any size.

/// Returns the numbers of `from..to` that are not in `present` (sorted), as inclusive ranges.
pub(crate) fn missing(from: u32, to: u32, present: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges = Vec::new();
    let mut next = from;
    for &rank in present.iter().filter(|&&rank| (from..to).contains(&rank)) {
        if rank > next {
            ranges.push((next, rank - 1));
        }
        next = next.max(rank.saturating_add(1));
    }
    if next < to {
        ranges.push((next, to - 1));
    }
    ranges
}

/// Returns `ranks` (sorted, distinct) as inclusive ranges.
pub(crate) fn of(ranks: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    ranges
}

/// Returns how many numbers `ranges` hold.
pub(crate) fn count(ranges: &[(u32, u32)]) -> u64 {
    ranges
        .iter()
        .map(|(first, last)| u64::from(last - first) + 1)
        .sum()
}

/// Returns `0-2,5`.
pub(crate) fn text(ranges: &[(u32, u32)]) -> String {
    let part = |&(first, last): &(u32, u32)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Returns number `index` of a list as Slurm writes it, where `2(x3),1` stands for 2, 2, 2 and 1.
pub(crate) fn listed(list: &str, index: u32) -> Option<u32> {
    let mut index = index;
    for part in list.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        if index < times {
            return number.trim().parse().ok();
        }
        index -= times;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_become_ranges() {
        assert_eq!(text(&missing(0, 8, &[3, 4, 6])), "0-2,5,7");
        assert_eq!(text(&missing(4, 8, &[0, 4, 5, 6, 7, 9])), "");
    }

    #[test]
    fn a_world_of_four_thousand_million_costs_nothing() {
        let ranges = missing(0, u32::MAX, &[1]);
        assert_eq!(text(&ranges), "0,2-4294967294");
        assert_eq!(count(&ranges), u64::from(u32::MAX) - 1);
    }

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(text(&of(&[0, 1, 2, 5])), "0-2,5");
        assert_eq!(text(&of(&[])), "");
    }

    #[test]
    fn a_list_of_slurm_is_looked_up_by_node() {
        let of = |index| listed("2(x3),1,4(x2)", index);
        let numbers = [0, 2, 3, 4, 5].map(of);
        assert_eq!(numbers, [Some(2), Some(2), Some(1), Some(4), Some(4)]);
        assert_eq!(of(6), None);
        for odd in ["", "2(x", "x", "2(x4294967296)"] {
            assert_eq!(listed(odd, 0), None, "{odd}");
        }
    }
}
