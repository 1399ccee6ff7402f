//! The numbers that frames hold under given names, for the step clock: integers and floats, nothing else.

use std::collections::HashMap;

use serde_json::Number;

use super::Trouble;
use super::dict::Hints;
use super::memo::Memo;
use super::object::Objects;
use super::view::View;
use super::walk::{Checks, RawFrame};

/// `CO_FAST_HIDDEN`: a variable of a comprehension that is part of its function (3.12).
const HIDDEN: u8 = 0x10;

/// `<module>`: its variables are its globals.
const MODULE: &str = "<module>";

/// Which numbers are wanted.
#[derive(Debug, Default)]
pub(crate) struct WantedNumbers {
    /// The names of variables.
    locals: Vec<String>,
    /// As they were given, and in the form that is matched.
    patterns: Vec<String>,
    files: Vec<String>,
}

/// The variables of functions that are wanted, by their code object: place and index of the name.
pub(super) type Variables = HashMap<u64, Memo<Vec<(u16, usize)>>>;

/// A variable of a frame that may hold a number.
#[derive(Debug)]
pub(super) struct Found {
    /// The index of its name in what is wanted.
    pub(super) name: usize,
    pub(super) value: Number,
    /// Words that have to be the same when they are read again.
    pub(super) checks: Checks,
}

impl WantedNumbers {
    /// Wants `locals` of the main module's file and of files that match one of `focus`: patterns as of a shell, and the same as those
    /// of the plugin focus-files. One that does not begin at the root is the end of a path, whatever leads to it.
    pub(crate) fn new(locals: &[String], focus: &[String]) -> Self {
        let patterns = focus.iter().map(|pattern| relative(pattern));
        let files = patterns.filter(|pattern| !pattern.trim().is_empty());
        let files = files.map(|pattern| {
            let is_anchored = pattern.starts_with('/') || pattern.starts_with("**/");
            let leads = if is_anchored { "" } else { "**/" };
            format!("{leads}{pattern}")
        });
        Self {
            locals: locals.to_vec(),
            files: files.collect(),
            patterns: focus.to_vec(),
        }
    }

    /// Returns whether it was made of these.
    pub(crate) fn is_of(&self, locals: &[String], focus: &[String]) -> bool {
        self.locals == locals && self.patterns == focus
    }

    pub(super) fn is_empty(&self) -> bool {
        self.locals.is_empty()
    }

    /// Returns the name with this index.
    pub(super) fn name(&self, index: usize) -> &str {
        &self.locals[index]
    }

    /// Returns whether a pattern names `file`.
    pub(super) fn names(&self, file: &str) -> bool {
        let mut patterns = self.files.iter();
        patterns.any(|pattern| fast_glob::glob_match(pattern, relative(file)))
    }

    /// Reads the wanted numbers of `frame`, which runs a function called `function`.
    pub(super) fn of_frame(
        &self,
        objects: &mut Objects,
        view: &mut View,
        hints: &mut Hints,
        variables: &mut Variables,
        (frame, function): (&RawFrame, &str),
    ) -> Result<Vec<Found>, Trouble> {
        let mut slots = Vec::new();
        if function == MODULE {
            for (index, name) in self.locals.iter().enumerate() {
                let slot = objects.entry(view, hints, frame.globals, name)?;
                slots.extend(slot.map(|slot| (slot, index)));
            }
        } else {
            let first = frame
                .at
                .wrapping_add(u64::from(objects.layout.frame.locals));
            let known = variables
                .remove(&frame.code)
                .filter(|known| known.holds(view));
            let known = match known {
                Some(known) => known,
                None => Memo::make(view, |view| self.variables(objects, view, frame.code))?,
            };
            slots.extend(
                known
                    .value
                    .iter()
                    .map(|&(place, name)| (first.wrapping_add(8 * u64::from(place)), name)),
            );
            variables.insert(frame.code, known);
        }
        let mut found = Vec::new();
        for (slot, name) in slots {
            found.extend(number(objects, view, slot)?.map(|(value, checks)| Found {
                name,
                value,
                checks,
            }));
        }
        Ok(found)
    }

    fn variables(
        &self,
        objects: &mut Objects,
        view: &mut View,
        code: u64,
    ) -> Result<Vec<(u16, usize)>, Trouble> {
        let fields = objects.layout.code.clone();
        let names = view.word(code.wrapping_add(u64::from(fields.variables)))?;
        let (items, count) = objects.items(view, names)?;
        let mut places = Vec::new();
        for place in 0..count {
            let name = view.word(items.wrapping_add(8 * u64::from(place)))?;
            let name = objects.text(view, name)?;
            if let Some(index) = self.locals.iter().position(|wanted| *wanted == name) {
                places.push((place, index));
            }
        }
        if let Some(kinds) = fields.kinds
            && !places.is_empty()
        {
            let kinds = view.word(code.wrapping_add(u64::from(kinds)))?;
            let (kinds, count) = objects.content(view, kinds)?;
            let kinds = view.bytes(kinds, count)?;
            places.retain(|&(place, _)| {
                kinds
                    .get(usize::from(place))
                    .is_some_and(|kind| kind & HIDDEN == 0)
            });
        }
        Ok(places)
    }
}

/// Returns a path or pattern without what says that it begins here.
fn relative(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

/// Reads the number that the pointer at `slot` leads to.
fn number(
    objects: &mut Objects,
    view: &mut View,
    slot: u64,
) -> Result<Option<(Number, Checks)>, Trouble> {
    let at = view.word(slot)?;
    // Nothing is bound to it; from 3.14 on a pointer may carry a mark.
    if at == 0 || !at.is_multiple_of(8) {
        return Ok(None);
    }
    let Some(value) = objects.number(view, at)? else {
        return Ok(None);
    };
    // The type, and a float or the size of an integer; its digits, 30 bits each.
    let is_long = value
        .as_i64()
        .is_none_or(|value| value.unsigned_abs() >> 60 != 0);
    let words = match (value.is_f64(), is_long) {
        (true, _) => 1..3,
        (false, false) => 1..4,
        (false, true) => 1..5,
    };
    let mut checks = vec![(slot, at)];
    for word in words {
        let at = at.wrapping_add(8 * word);
        checks.push((at, view.word(at)?));
    }
    Ok(Some((value, Checks(checks))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    /// The cases that the plugin focus-files is tested with as well.
    const CASES: &str = include_str!("../../../../tests/fixtures/focus-files.json");

    #[derive(Deserialize)]
    struct Case {
        patterns: Vec<String>,
        r#in: Vec<String>,
        out: Vec<String>,
    }

    #[test]
    fn a_file_is_named_as_the_shared_cases_say() {
        let cases: Vec<Case> = serde_json::from_str(CASES).unwrap();
        assert!(cases.len() > 5);
        for case in cases {
            let patterns = &case.patterns;
            let wanted = WantedNumbers::new(&[], patterns);
            for file in &case.r#in {
                assert!(wanted.names(file), "{file} is not in {patterns:?}");
            }
            for file in &case.out {
                assert!(!wanted.names(file), "{file} is in {patterns:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in r"[ab/*?{},!\[\]\-\\ö]{0,12}", file in "[ab/ö.]{0,8}") {
            let _ = WantedNumbers::new(&[], &[pattern]).names(&file);
        }
    }
}
