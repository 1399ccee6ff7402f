//! The reader on memory that holds anything, for the door of fuzz targets.

use super::memory::Memory;
use super::{Frames, Trouble, WantedNumbers};

/// More frames than this can only come from a chain without an end.
const MOST_FRAMES: usize = 500_000;

/// Reads `bytes` as the memory of a process: one byte of the minor version, eight of the address of `_PyRuntime`, then
/// pieces, each with eight bytes of address and two of length (little endian) before it.
pub(crate) fn memory(bytes: &[u8]) {
    let Some((minor, runtime, pieces)) = process(bytes) else {
        return;
    };
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
