//! Dicts and attributes of objects: where the value of a name is.
//!
//! A name cannot be looked up by its hash, because each process has a secret of its own in it. So all keys are looked at
//! once, and where a name was found is remembered and checked.

use std::collections::HashMap;

use super::Trouble;
use super::layout::{Attributes, Dict};
use super::memory::Span;
use super::object::{INLINE_VALUES, Kind, MANAGED_DICT, Objects};
use super::view::{View, span};

/// A dict with more entries is not searched.
const MOST_ENTRIES: u64 = 1 << 17;

/// More hints than these are not kept.
const MOST_HINTS: usize = 4096;

const TYPE_SIZE: u64 = 32;
const TYPE_FLAGS: u64 = 168;
const TYPE_DICT_OFFSET: u64 = 288;
const MODULE_DICT: u64 = 16;

/// Where names were found, by their keys object.
#[derive(Debug, Default)]
pub(super) struct Hints(HashMap<(u64, String), Hint>);

#[derive(Clone, Copy, Debug)]
enum Hint {
    /// The index of the entry.
    At(u64),
    /// It was not among so many.
    Nowhere(u64),
}

/// The entries of a dict.
#[derive(Clone, Copy, Debug)]
struct Table {
    keys: u64,
    entries: u64,
    count: u64,
    has_hashes: bool,
    /// Where the values are, if not in the entries.
    values: Option<u64>,
}

impl Table {
    fn stride(self) -> u64 {
        if self.has_hashes { 24 } else { 16 }
    }

    /// The address of an entry. What was read may be anything, so no sum of addresses may be taken for granted.
    fn entry(self, index: u64) -> u64 {
        self.entries.wrapping_add(index.wrapping_mul(self.stride()))
    }

    fn key(self, index: u64) -> u64 {
        self.entry(index)
            .wrapping_add(if self.has_hashes { 8 } else { 0 })
    }

    fn value(self, index: u64) -> u64 {
        self.values
            .map_or(self.key(index).wrapping_add(8), |values| {
                values.wrapping_add(8 * index)
            })
    }
}

/// Returns the dict of the module at `at`.
pub(super) fn of_module(view: &mut View, at: u64) -> Result<u64, Trouble> {
    view.word(at.wrapping_add(MODULE_DICT))
}

impl Objects {
    /// Returns where the pointer to the value of `name` is in the dict at `at`; nothing if it has no such key.
    pub(super) fn entry(
        &mut self,
        view: &mut View,
        hints: &mut Hints,
        at: u64,
        name: &str,
    ) -> Result<Option<u64>, Trouble> {
        if self.types.kind(view, at)? != Kind::Dict {
            return Ok(None);
        }
        let table = self.dict_table(view, at)?;
        self.find(view, hints, table, name)
    }

    /// Returns the hash and the value of every entry of the dict at `at`, whose keys are numbers.
    pub(super) fn numbered(
        &mut self,
        view: &mut View,
        at: u64,
    ) -> Result<Vec<(u64, u64)>, Trouble> {
        self.expect(view, at, Kind::Dict)?;
        let table = self.dict_table(view, at)?;
        if !table.has_hashes || table.values.is_some() {
            return Ok(Vec::new()); // it is empty, or has texts for keys
        }
        let mut entries = Vec::new();
        for index in 0..table.count {
            let entry = view.part(table.entry(index), 0, 24)?;
            let (hash, value) = (entry.word(0), entry.word(16));
            if value != 0 {
                entries.push((hash, value));
            }
        }
        Ok(entries)
    }

    /// Returns where the pointer to the attribute `name` of the object at `at` is; nothing if it has none of its own.
    pub(super) fn attribute(
        &mut self,
        view: &mut View,
        hints: &mut Hints,
        at: u64,
        name: &str,
    ) -> Result<Option<u64>, Trouble> {
        let class = view.part(at, 8, 16)?.word(8);
        let flags = view.word(class.wrapping_add(TYPE_FLAGS))?;
        let Dict::Compact {
            attributes,
            cached_keys,
        } = self.layout.dict
        else {
            return self.attribute_of_dict(view, hints, at, class, name);
        };
        if flags & MANAGED_DICT == 0 {
            return self.attribute_of_dict(view, hints, at, class, name);
        }
        let before = |words: u64| at.wrapping_sub(8 * words);
        let (dict, values) = match attributes {
            Attributes::Apart => (view.word(before(3))?, view.word(before(4))?),
            Attributes::Tagged => match view.word(before(3))? {
                tagged if tagged & 1 == 1 => (0, tagged.wrapping_add(1)),
                dict => (dict, 0),
            },
            Attributes::Inline => match view.word(before(3))? {
                0 if flags & INLINE_VALUES != 0 => {
                    let size = view.word(class.wrapping_add(TYPE_SIZE))?;
                    (0, at.wrapping_add(size & 0xffff).wrapping_add(8))
                }
                dict => (dict, 0),
            },
        };
        if values != 0 {
            let keys = view.word(class.wrapping_add(cached_keys.into()))?;
            let table = self.table(view, keys, Some(values))?;
            return self.find(view, hints, table, name);
        }
        if dict == 0 {
            return Ok(None);
        }
        self.entry(view, hints, dict, name)
    }

    fn attribute_of_dict(
        &mut self,
        view: &mut View,
        hints: &mut Hints,
        at: u64,
        class: u64,
        name: &str,
    ) -> Result<Option<u64>, Trouble> {
        let offset = view.word(class.wrapping_add(TYPE_DICT_OFFSET))?;
        // None, or from the end of an object of any length.
        if offset == 0 || offset.cast_signed() < 0 {
            return Ok(None);
        }
        match view.word(at.wrapping_add(offset))? {
            0 => Ok(None),
            dict => self.entry(view, hints, dict, name),
        }
    }

    fn dict_table(&self, view: &mut View, at: u64) -> Result<Table, Trouble> {
        let dict = view.part(at, 32, 48)?;
        let (keys, values) = (dict.word(32), dict.word(40));
        let has_prefix = matches!(
            self.layout.dict,
            Dict::Compact {
                attributes: Attributes::Inline,
                ..
            }
        );
        let values = (values != 0).then(|| values.wrapping_add(if has_prefix { 8 } else { 0 }));
        self.table(view, keys, values)
    }

    fn table(&self, view: &mut View, keys: u64, values: Option<u64>) -> Result<Table, Trouble> {
        let (entries, count, has_hashes) = match self.layout.dict {
            Dict::Sized => {
                let size = view.part(keys, 8, 16)?.word(8);
                let width = match size {
                    0..=0xff => 1,
                    0x100..=0xffff => 2,
                    _ => 4,
                };
                let count = view.part(keys, 32, 40)?.word(32);
                (
                    keys.wrapping_add(40 + (size & 0xffff_ffff) * width),
                    count,
                    true,
                )
            }
            Dict::Compact { .. } => {
                let sizes = view.part(keys, 8, 16)?;
                let (indices, kind) = (sizes.byte(9), sizes.byte(10));
                let count = view.part(keys, 24, 32)?.word(24);
                (
                    keys.wrapping_add(32 + (1 << (indices & 31))),
                    count,
                    kind == 0,
                )
            }
        };
        if count > MOST_ENTRIES {
            return Err(Trouble::Torn("a dict has too many entries"));
        }
        Ok(Table {
            keys,
            entries,
            count,
            has_hashes,
            values,
        })
    }

    fn find(
        &mut self,
        view: &mut View,
        hints: &mut Hints,
        table: Table,
        name: &str,
    ) -> Result<Option<u64>, Trouble> {
        let known = hints.0.get(&(table.keys, name.to_owned())).copied();
        if let Some(Hint::Nowhere(count)) = known
            && count == table.count
        {
            return Ok(None);
        }
        if let Some(Hint::At(index)) = known
            && self.is_at(view, table, index, name)
        {
            return Ok(Some(table.value(index)));
        }
        let mark = view.mark();
        let found = self.search(view, table, name);
        view.forget(mark);
        let found = found?;
        if hints.0.len() > MOST_HINTS {
            hints.0.clear();
        }
        let hint = found.map_or(Hint::Nowhere(table.count), Hint::At);
        hints.0.insert((table.keys, name.to_owned()), hint);
        match found {
            Some(index) if self.is_at(view, table, index, name) => Ok(Some(table.value(index))),
            Some(_) => Err(Trouble::Torn("a dict changed while it was searched")),
            None => Ok(None),
        }
    }

    fn is_at(&mut self, view: &mut View, table: Table, index: u64, name: &str) -> bool {
        index < table.count
            && view
                .word(table.key(index))
                .and_then(|key| self.text(view, key))
                .is_ok_and(|text| text == name)
    }

    /// Looks at every key. Those of one length with `name` are compared.
    fn search(
        &mut self,
        view: &mut View,
        table: Table,
        name: &str,
    ) -> Result<Option<u64>, Trouble> {
        if table.count == 0 {
            return Ok(None);
        }
        let length = usize::try_from(table.count * table.stride()).expect("the count is limited");
        view.load(&[span(table.entries, length)?])?;
        let keys: Vec<u64> = (0..table.count)
            .map(|index| view.word(table.key(index)))
            .collect::<Result<_, _>>()?;
        let header = usize::from(self.layout.ascii) - 8 + name.len();
        let heads = keys.iter().filter(|&&key| key != 0);
        let heads: Vec<Span> = heads
            .filter_map(|&key| span(key.wrapping_add(8), header).ok())
            .collect();
        view.load(&heads)?;
        for (index, &key) in (0..).zip(&keys) {
            if key == 0 || self.types.kind(view, key)? != Kind::Text {
                continue;
            }
            let length = view.part(key, 16, 24)?.word(16);
            if usize::try_from(length) == Ok(name.chars().count()) && self.text(view, key)? == name
            {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_at_the_end_of_memory_add_up_to_others_and_never_to_a_panic() {
        let table = Table {
            keys: 0,
            entries: u64::MAX - 4,
            count: 2,
            has_hashes: true,
            values: None,
        };
        assert_eq!(table.key(0), 3);
        assert_eq!(table.value(0), 11);
        assert_eq!(table.key(u64::MAX), table.key(0).wrapping_sub(24));
        let split = Table {
            values: Some(u64::MAX),
            ..table
        };
        assert_eq!(split.value(1), 7);
    }
}
