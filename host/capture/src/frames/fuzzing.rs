//! The reader on memory that holds anything, for the door of fuzz targets.

#[cfg(test)]
use super::layout::TOLD_BYTES;
use super::memory::Memory;
use super::{Frames, Trouble, WantedNumbers};

/// More frames than this can only come from a chain without an end.
const MOST_FRAMES: usize = 500_000;

/// Reads `bytes` as the memory of a process: one byte of the minor version, eight of the address of `_PyRuntime`, then
/// pieces, each with eight bytes of address and two of length (little endian) before it.
pub(crate) fn memory(bytes: &[u8]) {
    if let Some((minor, runtime, pieces)) = process(bytes) {
        read(minor, runtime, pieces);
    }
}

fn read(minor: u64, runtime: u64, pieces: Pieces) {
    let wanted = WantedNumbers::new(&["step".to_owned()], &["train.py".to_owned()]);
    // No process has this id: threads have no state.
    let Ok(Some(mut frames)) = Frames::of(Memory::Pieces(pieces), -1, minor, runtime) else {
        return;
    };
    let mut scratch = Vec::new();
    let first = frames.read(&wanted, &mut scratch);
    if let Ok(look) = &first {
        let frames = look.threads.iter().map(|thread| thread.frames.len());
        assert!(frames.sum::<usize>() <= MOST_FRAMES);
    }
    // What stands still is read the same again.
    match (first, frames.read(&wanted, &mut scratch)) {
        (Ok(first), Ok(again)) => assert_eq!(format!("{first:?}"), format!("{again:?}")),
        (Err(Trouble::Torn(_)), Err(Trouble::Torn(_))) => {}
        (first, again) => panic!("{first:?}, then {again:?}"),
    }
}

type Pieces = Vec<(u64, Vec<u8>)>;

fn process(bytes: &[u8]) -> Option<(u64, u64, Pieces)> {
    let (&minor, rest) = bytes.split_first()?;
    let (runtime, mut rest) = rest.split_first_chunk()?;
    let mut pieces = Pieces::new();
    while let Some((at, behind)) = rest.split_first_chunk() {
        let Some((length, behind)) = behind.split_first_chunk() else {
            break;
        };
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (piece, behind) = behind.split_at(length);
        // No address is near the end of all addresses.
        pieces.push((
            u64::from_le_bytes(*at) & 0x00ff_ffff_ffff_ffff,
            piece.to_vec(),
        ));
        rest = behind;
    }
    Some((minor.into(), u64::from_le_bytes(*runtime), pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copied from processes of two threads, in each of which a variable `step` was to be read twice.
    #[test]
    fn every_seed_is_read_without_its_process_and_cut_ones_are_not_misread() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/seeds/frames");
        for seed in std::fs::read_dir(seeds).unwrap() {
            let path = seed.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let (minor, runtime, pieces) = process(&bytes).unwrap();
            let frames = Frames::of(Memory::Pieces(pieces), -1, minor, runtime);
            let wanted = WantedNumbers::new(&["step".to_owned()], &[]);
            let look = frames
                .unwrap()
                .unwrap()
                .read(&wanted, &mut Vec::new())
                .unwrap();
            let names: Vec<_> = look
                .threads
                .iter()
                .map(|thread| thread.name.as_deref())
                .collect();
            assert_eq!(names, [Some("w"), Some("MainThread")], "{}", path.display());
            let values: Vec<String> = look.numbers.iter().map(|it| it.value.to_string()).collect();
            assert_eq!(values, ["1099511627776", "1.5"], "{}", path.display());
            for end in (0..bytes.len()).step_by(997) {
                memory(&bytes[..end]);
            }
        }
    }

    #[test]
    fn a_pointer_to_the_end_of_all_addresses_leads_nowhere() {
        let seed = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/fuzz/seeds/frames/3.13"
        );
        let bytes = std::fs::read(seed).unwrap();
        let (minor, runtime, pieces) = process(&bytes).unwrap();
        // Of what a pointer leads to only parts are there, the first of them perhaps far behind its beginning.
        let is_near = |word: u64| {
            let mut all = pieces.iter();
            all.any(|(at, _)| (at.saturating_sub(1 << 20)..*at + 4096).contains(&word))
        };
        let words = pieces.iter().flat_map(|(_, piece)| piece.chunks_exact(8));
        let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let pointers: std::collections::BTreeSet<u64> = words.filter(|it| is_near(*it)).collect();
        assert!(pointers.len() > 20, "{}", pointers.len());
        for pointer in pointers {
            let mut pieces = pieces.clone();
            let words = pieces
                .iter_mut()
                .flat_map(|(_, piece)| piece.chunks_exact_mut(8));
            for word in words.filter(|word| **word == pointer.to_le_bytes()) {
                word.copy_from_slice(&(u64::MAX - 8).to_le_bytes());
            }
            read(minor, runtime, pieces);
        }
    }

    #[test]
    fn what_an_interpreter_says_of_itself_is_not_believed() {
        let seed = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/fuzz/seeds/frames/3.13"
        );
        let bytes = std::fs::read(seed).unwrap();
        let (minor, runtime, pieces) = process(&bytes).unwrap();
        let told = runtime..runtime + TOLD_BYTES as u64;
        for address in told.step_by(8) {
            for number in [
                0,
                1,
                4,
                7,
                15,
                71,
                79,
                207,
                511,
                2047,
                0xfff7,
                0xffff,
                u64::MAX,
            ] {
                let mut pieces = pieces.clone();
                let mut words = pieces.iter_mut().flat_map(|(at, piece)| {
                    let at = *at;
                    let bytes = piece.iter_mut().zip(at..);
                    bytes.filter(|(_, at)| (address..address + 8).contains(at))
                });
                let mut written = number.to_le_bytes().into_iter();
                words
                    .by_ref()
                    .zip(written.by_ref())
                    .for_each(|((byte, _), new)| *byte = new);
                read(minor, runtime, pieces);
            }
        }
    }
}
