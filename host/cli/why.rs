//! What `taskscope why` reads, and the page it prints.

mod page;
mod reading;

pub(crate) use page::{explanation, page};
pub(crate) use reading::read;
