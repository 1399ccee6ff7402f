//! Snapshots to what is wrong: a pure function. Says who is to blame, who waits, and what shows it; says unknown where that
//! cannot be told. Reads nothing, asks for no time.
//!
//! [`judge()`] lays out a case (`case.rs`), finds who waits for whom (`graph.rs`), groups ranks (`group.rs`), and then
//! tries the rules (`rules.rs`) one by one, the most certain first.

mod case;
mod claim;
mod ending;
mod focus;
mod graph;
mod group;
mod judge;
mod live;
mod merged;
mod motion;
mod pointer;
mod prompt;
mod python;
mod ranges;
mod ranks;
mod reading;
mod rests;
pub mod rules;
mod scene;
mod signals;
mod silent;
mod stillness;
mod twin;
mod verdict;
mod wait;
mod waits;
mod words;

pub use case::{History, is_over, stand};
pub use ending::{End, first_end, is_of_rank, is_told_to_end};
pub use focus::Focus;
pub use judge::{Judgement, Tried, judge};
pub use live::{News, Recent, Tuning};
pub use merged::{
    Both, Class, Comparison, Level, Merged, Merging, Move, Moves, Node as MergedNode, Others,
    Selection, Side, Stay, Threads, TwoSets, Unread,
};
pub use pointer::resolve;
pub use python::{is_standard_library, main_trace, telling_frame};
pub use ranges::{RankSet, ranges};
pub use ranks::{rank_processes, ranks_of};
pub use reading::{around_the_stand, newest_and_first};
pub use silent::{Newest, Silent, silent, silent_after};
pub use stillness::Stillness;
pub use twin::{Difference, Twin, twin};
pub use verdict::{Cause, Culprit, Evidence, Place, State, Verdict, Victim};
pub use waits::{Waiting, Waits};
