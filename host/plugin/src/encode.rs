//! A snapshot as bytes, in the forms of `wit/`.

use std::io::Write;

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use model::Snapshot;

use crate::bindings::taskscope::plugin::snapshot::{Compression, Encoding, Format};
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::interface::error;

/// Encodes `snapshot`, of which parts are left out as `how` says.
pub(crate) fn encode(mut snapshot: Snapshot, how: Encoding) -> Result<Vec<u8>, Error> {
    if how.format != Format::Json {
        let message = "this version of taskscope encodes JSON only";
        return Err(error(ErrorKind::Rejected, message));
    }
    if !how.stacks {
        for process in &mut snapshot.processes {
            process.pyspy = None;
        }
    }
    if !how.annotations {
        (snapshot.annotations, snapshot.findings) = (Vec::new(), Vec::new());
    }
    let failed = |reason: String| error(ErrorKind::Internal, reason);
    let json = serde_json::to_vec(&snapshot).map_err(|reason| failed(reason.to_string()))?;
    match how.compression {
        Compression::None => Ok(json),
        Compression::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), Level::fast());
            let written = gzip.write_all(&json).and_then(|()| gzip.finish());
            written.map_err(|reason| failed(reason.to_string()))
        }
    }
}
