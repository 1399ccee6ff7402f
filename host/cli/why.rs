//! What `taskscope why` reads, and the page it prints.

mod ends;
mod page;
mod reading;
mod sight;

pub(crate) use ends::{ends, read_ends};
pub(crate) use page::{explanation, page};
pub(crate) use reading::{Sight, read};
pub(crate) use sight::age;
