//! The names that `threading` gave threads: `_name` of each object in `threading._active`, by `pthread_t`.

use std::collections::HashMap;
use std::rc::Rc;

use super::Trouble;
use super::dict::{self, Hints};
use super::memo::Memo;
use super::object::Objects;
use super::view::View;

/// The names of threads by `pthread_t`.
pub(super) type Names = HashMap<u64, Rc<str>>;

/// The most threads that are asked for their names.
const MOST_THREADS: usize = 1 << 16;

/// Returns the names; those that are `known` as long as nothing changed that they were made from. `modules` is where the
/// address of `sys.modules` is.
pub(super) fn read(
    objects: &mut Objects,
    view: &mut View,
    hints: &mut Hints,
    known: Option<Memo<Rc<Names>>>,
    modules: u64,
) -> Result<Memo<Rc<Names>>, Trouble> {
    if let Some(known) = known
        && known.holds(view)
    {
        return Ok(known);
    }
    Memo::make(view, |view| {
        names(objects, view, hints, modules).map(Rc::new)
    })
}

fn names(
    objects: &mut Objects,
    view: &mut View,
    hints: &mut Hints,
    modules: u64,
) -> Result<Names, Trouble> {
    let mut names = Names::new();
    let modules = view.word(modules)?;
    if modules == 0 {
        return Ok(names);
    }
    let Some(module) = objects.entry(view, hints, modules, "threading")? else {
        return Ok(names);
    };
    let module = view.word(module)?;
    let dict = dict::of_module(view, module)?;
    let Some(active) = objects.entry(view, hints, dict, "_active")? else {
        return Ok(names);
    };
    let active = view.word(active)?;
    for (id, thread) in objects
        .numbered(view, active)?
        .into_iter()
        .take(MOST_THREADS)
    {
        if let Some(name) = objects.attribute(view, hints, thread, "_name")? {
            let name = view.word(name)?;
            let name = objects.text(view, name)?;
            // The hash of a whole number below 2^61 is itself.
            names.insert(id, name.into());
        }
    }
    Ok(names)
}
