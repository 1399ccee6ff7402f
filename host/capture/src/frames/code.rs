//! Code objects: what function of which file they are, and the line of each of their instructions.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use super::Trouble;
use super::layout::{Body, Lines, Offset};
use super::lines;
use super::memo::Memo;
use super::memory::Span;
use super::object::{Kind, Objects};
use super::view::{View, span};

/// The most that is kept of the code objects of one process, bytes; beyond it, those that are not in a stack now go.
const MOST_KEPT: usize = 1 << 20;

/// How much of a text or a table is copied before its length is known, bytes.
const GUESS: usize = 160;

/// One code object.
#[derive(Debug)]
pub(super) struct Code {
    /// The qualified name where there is one.
    pub(super) name: Rc<str>,
    pub(super) file: Rc<str>,
    first_line: i32,
    lines: Lines,
    table: Box<[u8]>,
    /// The address of the first instruction, where frames tell their place by an address.
    start: Option<u64>,
    /// How many bytes the instructions have.
    length: u64,
    /// The place that was last asked for, and its line.
    recent: Cell<(i32, i32)>,
}

impl Code {
    /// Returns the line at `place`, which is a distance, or an address where frames tell that; 0 where it has none.
    pub(super) fn line(&self, place: Place) -> Result<i32, Trouble> {
        let offset = match (place, self.start) {
            (Place::Distance(distance), _) => i64::from(distance),
            // Before a function begins, its frame is at the unit before its first one.
            (Place::Address(address), Some(start)) => {
                i64::try_from(i128::from(address) - i128::from(start)).unwrap_or(i64::MAX)
            }
            (Place::Address(_), None) => i64::MAX,
        };
        let is_inside = offset < i64::try_from(self.length).unwrap_or(0) && offset >= -2;
        let offset = i32::try_from(offset).ok().filter(|_| is_inside);
        let offset = offset.ok_or(Trouble::Torn("a frame is outside of its code"))?;
        if self.recent.get().0 != offset {
            let line = lines::line(self.lines, &self.table, self.first_line, offset);
            self.recent.set((offset, line.unwrap_or(0)));
        }
        Ok(self.recent.get().1)
    }
}

/// Where a frame is in its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Bytes from the first instruction; negative before it began.
    Distance(i32),
    /// The address of an instruction.
    Address(u64),
}

/// The code objects of one process that are known.
#[derive(Debug, Default)]
pub(super) struct Codes {
    known: HashMap<u64, Known>,
    size: usize,
    round: u64,
}

#[derive(Debug)]
struct Known {
    code: Memo<Rc<Code>>,
    /// The round in which it was checked.
    checked: u64,
}

impl Codes {
    /// Begins a reading: what is known of each has to be checked again.
    pub(super) fn begin(&mut self) {
        if self.size > MOST_KEPT {
            let round = self.round;
            self.known.retain(|_, known| known.checked == round);
            self.size = self.known.values().map(|known| known.code.size()).sum();
        }
        self.round += 1;
    }

    /// Copies what is not known of the code objects at `addresses`, in two calls.
    pub(super) fn prefetch(
        &self,
        objects: &Objects,
        view: &mut View,
        addresses: &[u64],
    ) -> Result<(), Trouble> {
        let mut new: Vec<u64> = addresses.to_vec();
        new.retain(|address| !self.known.contains_key(address));
        new.sort_unstable();
        new.dedup();
        if new.is_empty() {
            return Ok(());
        }
        let fields = &objects.layout.code;
        let length = usize::from(fields.end) - 8;
        let heads: Vec<Span> = new
            .iter()
            .filter_map(|&at| span(at.wrapping_add(8), length).ok())
            .collect();
        view.load(&heads)?;
        let mark = view.mark();
        let mut bodies = Vec::new();
        for &at in &new {
            let Ok(code) = view.part(at, 8, fields.end) else {
                continue;
            };
            let mut want = |offset: Offset| {
                let at = code.word(offset);
                bodies.extend(
                    span(at.wrapping_add(8), GUESS)
                        .ok()
                        .filter(|_| at.is_multiple_of(8)),
                );
            };
            let body = match fields.body {
                Body::Bytes(offset) => Some(offset),
                Body::Inside(_) => None,
            };
            let always = [fields.filename, fields.name, fields.line_table];
            for offset in always.into_iter().chain(fields.qualname).chain(body) {
                want(offset);
            }
        }
        view.forget(mark);
        view.load(&bodies)
    }

    /// Returns the code object at `at`.
    pub(super) fn get(
        &mut self,
        objects: &mut Objects,
        view: &mut View,
        at: u64,
    ) -> Result<Rc<Code>, Trouble> {
        if let Some(known) = self.known.get_mut(&at) {
            if known.checked == self.round || known.code.holds(view) {
                known.checked = self.round;
                return Ok(Rc::clone(&known.code.value));
            }
            self.size -= known.code.size();
            self.known.remove(&at);
        }
        let code = Memo::make(view, |view| decode(objects, view, at).map(Rc::new))?;
        let value = Rc::clone(&code.value);
        self.size += code.size();
        let checked = self.round;
        self.known.insert(at, Known { code, checked });
        Ok(value)
    }
}

fn decode(objects: &mut Objects, view: &mut View, at: u64) -> Result<Code, Trouble> {
    objects.expect(view, at, Kind::Code)?;
    let fields = objects.layout.code.clone();
    let code = view.part(at, 8, fields.end)?;
    let first_line = code.half(fields.first_line).cast_signed();
    let (filename, table) = (code.word(fields.filename), code.word(fields.line_table));
    let qualname = fields.qualname.map(|offset| code.word(offset));
    let name = qualname
        .filter(|&name| name != 0)
        .unwrap_or(code.word(fields.name));
    let (start, body) = match fields.body {
        Body::Bytes(offset) => (None, code.word(offset)),
        Body::Inside(offset) => (
            Some(at.wrapping_add(u64::from(offset))),
            2 * (code.word(16) & 0x0fff_ffff),
        ),
    };
    let length = match start {
        Some(_) => body,
        None => objects.content(view, body)?.1 as u64,
    };
    let name = objects.text(view, name)?.into();
    let file = objects.text(view, filename)?.into();
    let (table, bytes) = objects.content(view, table)?;
    let table = match bytes {
        0 => Box::default(),
        _ => view.bytes(table, bytes)?.into(),
    };
    Ok(Code {
        name,
        file,
        first_line,
        lines: fields.lines,
        table,
        start,
        length,
        recent: Cell::new((i32::MIN, 0)),
    })
}
