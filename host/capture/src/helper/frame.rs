//! Frames: four bytes of length (little endian) and a message. Each kind of helper says in its `wire` what its messages are.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest frame that is written or read, bytes.
pub(crate) const LONGEST_FRAME: usize = 64 << 20;

/// What every helper says first, in JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version of the protocol that it speaks.
    pub(crate) protocol: u32,
    /// The version of its program.
    pub(crate) version: String,
}

impl Hello {
    /// The one that this program says, and expects, where it speaks `protocol`.
    pub(crate) fn of(protocol: u32) -> Self {
        Self {
            protocol,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Returns `message` as a frame of JSON. Errors: longer than `LONGEST_FRAME`.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    close(&mut bytes)?;
    Ok(bytes)
}

/// Makes a frame of `bytes`, which begin with four bytes for the length. Errors: longer than `LONGEST_FRAME`.
pub(crate) fn close(bytes: &mut [u8]) -> io::Result<()> {
    let length = bytes.len() - 4;
    if length > LONGEST_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes is longer than {LONGEST_FRAME}"),
        ));
    }
    let length = u32::try_from(length).expect("the longest frame is far shorter than 4 GiB");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Returns the length that the four bytes at the start of a frame announce. Errors: longer than `LONGEST_FRAME`.
pub(crate) fn announced(start: [u8; 4]) -> io::Result<usize> {
    usize::try_from(u32::from_le_bytes(start))
        .ok()
        .filter(|&length| length <= LONGEST_FRAME)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a message is too long"))
}

/// Returns the JSON message of a frame's payload.
pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(payload)?)
}

/// Returns `message` as a frame in postcard's format, in which bytes are bytes. Errors: longer than `LONGEST_FRAME`.
pub(crate) fn pack(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    close(&mut bytes)?;
    Ok(bytes)
}

/// Returns the message that `pack` made a frame's payload of.
pub(crate) fn unpack<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    postcard::from_bytes(payload).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads the payload of one frame; for the helper, which may block. Errors: end of input, and one that is too long.
pub(crate) fn read_payload(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = [0; 4];
    input.read_exact(&mut start)?;
    let mut payload = vec![0; announced(start)?];
    input.read_exact(&mut payload)?;
    Ok(payload)
}

/// Writes one JSON message; for the helper, which may block.
pub(crate) fn write(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    output.write_all(&encode(message)?)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_allocated() {
        let bytes = [0xff; 8];
        let error = read_payload(&mut bytes.as_slice()).unwrap_err();
        assert_eq!(error.to_string(), "a message is too long");
    }
}
