//! Folds samples and stages into peaks and a report: pure arithmetic, no input or output, no clock.
//!
//! A [`Reading`] is what one sample says of the task as a whole, with the rates that follow from the sample before it.
//! [`Statistics`] fold readings, of the whole run and of each stage. The [`Report`] is all of it, as it is stored.

mod curve;
mod document;
mod gaps;
mod monitor;
mod peaks;
mod reading;
mod report;
mod segment;
mod stages;
mod statistics;

#[cfg(test)]
mod tests;

pub use curve::{Curve, Point};
pub use document::DocumentError;
pub use gaps::GapTotal;
pub use monitor::{About, Monitor};
pub use peaks::{Holder, Peak};
pub use reading::{Reading, Usage};
pub use report::{Ended, REPORT_VERSION, Report, Trouble};
pub use segment::{SEGMENT_VERSION, Segment};
pub use stages::{
    Begin, End, EndedBy, MOST_ENDED, MOST_OPEN, Moment, NO_STAGE, Owner, ParentId, ParseStageError,
    Stage, StageLine, StageTotal, StageTrouble, Stages, check_stage_name, path_text,
};
pub use statistics::Statistics;
