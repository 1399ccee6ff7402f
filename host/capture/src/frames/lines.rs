//! The line of an instruction, by the three tables that `CPython` has had.

use super::layout::Lines;

/// Returns the line of the instruction at `offset` (bytes from the first one; negative before it began) of code that
/// begins at `first_line`; nothing where the instruction has none.
pub(super) fn line(lines: Lines, table: &[u8], first_line: i32, offset: i32) -> Option<i32> {
    if offset < 0 {
        return Some(first_line);
    }
    let line = match lines {
        Lines::Lnotab => Some(lnotab(table, first_line.into(), offset.into())),
        Lines::Ranges => ranges(table, first_line.into(), offset.into()),
        Lines::Locations => locations(table, first_line.into(), offset.into()),
    };
    i32::try_from(line?).ok().filter(|&line| line > 0)
}

/// Pairs: by how much the address grows, then by how much the line does.
fn lnotab(table: &[u8], mut line: i64, offset: i64) -> i64 {
    let mut address = 0;
    for pair in table.chunks_exact(2) {
        address += i64::from(pair[0]);
        if address > offset {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    line
}

/// Pairs: how many bytes a range has, and by how much its line differs from the one before; -128 for a range without one.
fn ranges(table: &[u8], mut line: i64, offset: i64) -> Option<i64> {
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        end += i64::from(pair[0]);
        let delta = pair[1].cast_signed();
        let has_line = delta != i8::MIN;
        if has_line {
            line += i64::from(delta);
        }
        if end > offset {
            return has_line.then_some(line);
        }
    }
    None
}

/// Entries of a first byte (a set bit, four bits of what follows, three of how many units of two bytes it is for) and more.
fn locations(table: &[u8], mut line: i64, offset: i64) -> Option<i64> {
    let mut rest = table.iter();
    let mut end = 0;
    while let Some(&first) = rest.next() {
        end += 2 * (i64::from(first & 7) + 1);
        let kind = first >> 3 & 15;
        let has_line = kind != 15;
        line += match kind {
            15 => 0,
            14 => {
                let delta = signed(&mut rest);
                // The end line, and two columns.
                for _ in 0..3 {
                    number(&mut rest);
                }
                delta
            }
            13 => signed(&mut rest),
            10..=12 => {
                rest.nth(1);
                i64::from(kind - 10)
            }
            _ => {
                rest.next();
                0
            }
        };
        if end > offset {
            return has_line.then_some(line);
        }
    }
    None
}

/// Six bits a byte, the lowest first, for as long as the seventh bit says that more follow.
fn number(rest: &mut std::slice::Iter<'_, u8>) -> u32 {
    let (mut value, mut shift) = (0_u32, 0);
    for &byte in rest {
        if shift < 32 {
            value |= u32::from(byte & 63) << shift;
        }
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    value
}

/// A number whose lowest bit is its sign.
fn signed(rest: &mut std::slice::Iter<'_, u8>) -> i64 {
    let value = number(rest);
    let size = i64::from(value >> 1);
    if value & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_table_of_3_9_is_read() {
        let table = [0, 1, 10, 1, 8, 0xff, 4, 1];
        let line = |offset| line(Lines::Lnotab, &table, 3, offset).unwrap();
        assert_eq!([-1, 0, 9, 10, 18, 30].map(line), [3, 4, 4, 5, 4, 5]);
    }

    #[test]
    fn a_range_of_3_10_without_a_line_has_none_and_counts() {
        let table = [4, 1, 2, 0x80, 4, 2];
        let line = |offset| line(Lines::Ranges, &table, 1, offset);
        assert_eq!([0, 3].map(line), [Some(2); 2]);
        assert_eq!([4, 5, 10].map(line), [None; 3]);
        assert_eq!([6, 9].map(line), [Some(4); 2]);
    }

    #[test]
    fn a_location_table_is_read() {
        // As CPython 3.13 made it of a module: four ranges of lines 0, 1, 7 and 8.
        let table = [
            240, 3, 1, 1, 1, 242, 2, 3, 1, 17, 240, 12, 0, 7, 11, 217, 4, 11, 136, 66, 134, 75,
        ];
        let line = |offset| line(Lines::Locations, &table, 1, offset);
        assert_eq!([2, 7, 8, 10, 28].map(line), [1, 1, 7, 8, 8].map(Some));
        assert_eq!([0, 30, 400].map(line), [None; 3], "line 0 is none");
    }

    proptest::proptest! {
        #[test]
        fn no_table_makes_it_panic(table: Vec<u8>, first_line: i32, offset: i32) {
            for lines in [Lines::Lnotab, Lines::Ranges, Lines::Locations] {
                let _ = line(lines, &table, first_line, offset);
            }
        }
    }
}
