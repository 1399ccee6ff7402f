//! Why there is no page.

use std::net::SocketAddr;

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address and port that were asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// There are no random numbers for the token that guards the page.
    #[error("cannot read random numbers from {path}")]
    Random {
        /// The device.
        path: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}
