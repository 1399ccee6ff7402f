//! The order in which people expect names with numbers in them: `node-2` before `node-10`.

use std::cmp::Ordering;

/// Compares two names: digits that follow one another count as the number they write, of any length; all else counts as text.
/// Names that differ only in leading zeros are in the order of their text, so that only equal names compare as equal.
pub fn natural_order(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let (text, number) = parts(&mut left);
        let (other_text, other_number) = parts(&mut right);
        // Without leading zeros the longer number is the larger.
        let order = text
            .cmp(other_text)
            .then(number.len().cmp(&other_number.len()))
            .then(number.cmp(other_number));
        let is_end = left.is_empty() && right.is_empty();
        if order.is_ne() || is_end {
            return order.then_with(|| one.cmp(other));
        }
    }
}

/// Takes the text up to the next number off the beginning of `rest`, and that number without its leading zeros.
fn parts<'a>(rest: &mut &'a str) -> (&'a str, &'a str) {
    let is_digit = |it: char| it.is_ascii_digit();
    let (text, after) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
    let end = after.find(|it: char| !is_digit(it)).unwrap_or(after.len());
    let (number, after) = after.split_at(end);
    *rest = after;
    (text, number.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let sorted = [
            "",
            "7",
            "10",
            "a",
            "a0",
            "a01",
            "a1",
            "a1b",
            "a2",
            "a99999999999999999999999998",
            "a99999999999999999999999999",
            "ip-10-0-0-9",
            "ip-10-0-0-10",
            "ip-10-0-1-1",
            "node-2",
            "node-10",
            "node-10.local",
            "nodé-1",
        ];
        let mut names = sorted.to_vec();
        names.reverse();
        names.sort_by(|one, other| natural_order(one, other));
        assert_eq!(names, sorted);
    }

    proptest! {
        #[test]
        fn it_is_an_order(names in prop::collection::vec("[a0-2]{0,5}", 3)) {
            let [one, two, three] = [&names[0], &names[1], &names[2]];
            prop_assert_eq!(natural_order(one, two), natural_order(two, one).reverse());
            prop_assert_eq!(natural_order(one, two).is_eq(), one == two);
            if natural_order(one, two).is_le() && natural_order(two, three).is_le() {
                prop_assert!(natural_order(one, three).is_le());
            }
        }
    }
}
