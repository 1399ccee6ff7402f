//! For how long the main thread is in one call, and whether it is Python that it runs there.

use model::{Process, StackSourceName};

use crate::case::{PATIENCE, trace_of};
use crate::python::same_call;

/// How many intervals up to now the main thread was in the same functions, called from the same lines; as many as there are where
/// no stack is seen.
pub(super) fn same_for(views: &[(usize, &Process)]) -> usize {
    let last = views[views.len() - 1].1;
    let Some(now) = trace_of(last, last.pid) else {
        return views.len();
    };
    let earlier = views[..views.len() - 1].iter().rev();
    let same = |(_, process): &&(usize, &Process)| {
        trace_of(process, last.pid).is_some_and(|then| same_call(&then.frames, &now.frames))
    };
    earlier.take_while(same).count()
}

/// So many intervals in one call without the interpreter's lock are work of a library.
const LONG_CALL: usize = 4 * PATIENCE;

/// For how many intervals one that uses a processor in one call may be at work: for long where the main thread never had the
/// interpreter's lock, as our own reader tells.
pub(super) fn work_for(views: &[(usize, &Process)]) -> usize {
    let seen = views.iter().filter_map(|(_, process)| {
        let stacks = process.pyspy.as_ref();
        let is_told = stacks.is_some_and(|it| it.source == StackSourceName::Own);
        trace_of(process, process.pid).map(|trace| trace.owns_gil || !is_told)
    });
    if seen.max().unwrap_or(true) {
        PATIENCE + 1
    } else {
        LONG_CALL
    }
}
