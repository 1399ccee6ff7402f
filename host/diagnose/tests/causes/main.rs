//! Each cause by several mechanisms, none of which the rules know by name.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod broken;
mod ends;
mod healthy;
mod idle;
mod lacking;
mod limits;
mod live;
mod locks;
mod merged;
mod nodes;
mod patient;
mod pipes;
mod ranks;
mod rules;
mod since;
mod stops;
mod story;
mod twin;
mod waits;
mod wrapped;
