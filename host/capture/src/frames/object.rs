//! Objects of Python: what type they are of, texts, bytes, tuples and numbers.

use std::collections::HashMap;

use serde_json::Number;

use super::Trouble;
use super::layout::{Layout, Offset};
use super::view::View;

/// `Py_TPFLAGS_HEAPTYPE`: a class, which may have any name.
const HEAP_TYPE: u64 = 1 << 9;

/// `Py_TPFLAGS_INLINE_VALUES` (3.13): the attributes are in the object.
pub(super) const INLINE_VALUES: u64 = 1 << 2;

/// `Py_TPFLAGS_MANAGED_DICT` (3.11): the dict is before the object.
pub(super) const MANAGED_DICT: u64 = 1 << 4;

const TYPE_NAME: u64 = 24;
const TYPE_FLAGS: u64 = 168;

/// The longest name of a type that is looked for, with the zero behind it.
const LONGEST_NAME: usize = 6;

/// The longest text that is kept whole, letters.
const LONGEST_TEXT: usize = 4096;

/// The longest `bytes` that is read.
const LONGEST_BYTES: usize = 4 << 20;

/// A built-in type that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bytes,
    Code,
    Dict,
    Float,
    Frame,
    Int,
    Text,
    Tuple,
    /// Any other.
    Other,
}

/// The built-in types of one process, by their address. They do not move, so each is looked at once.
#[derive(Debug, Default)]
pub(super) struct Types(HashMap<u64, Kind>);

/// A part of a struct.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    from: usize,
    bytes: &'a [u8],
}

impl Part<'_> {
    pub(super) fn word(self, at: Offset) -> u64 {
        u64::from_le_bytes(self.take(at))
    }

    pub(super) fn half(self, at: Offset) -> u32 {
        u32::from_le_bytes(self.take(at))
    }

    pub(super) fn byte(self, at: Offset) -> u8 {
        self.take::<1>(at)[0]
    }

    fn take<const N: usize>(self, at: Offset) -> [u8; N] {
        let at = usize::from(at) - self.from;
        let bytes = &self.bytes[at..at + N];
        bytes.try_into().expect("as many as were taken")
    }
}

impl View {
    /// Returns the bytes `from..to` of the struct at `at`.
    pub(super) fn part(&mut self, at: u64, from: Offset, to: Offset) -> Result<Part<'_>, Trouble> {
        if at == 0 || !at.is_multiple_of(8) {
            return Err(Trouble::Torn("a pointer is none"));
        }
        let bytes = self.bytes(at.wrapping_add(from.into()), usize::from(to - from))?;
        Ok(Part {
            from: from.into(),
            bytes,
        })
    }

    /// Returns the word at `at`.
    pub(super) fn word(&mut self, at: u64) -> Result<u64, Trouble> {
        Ok(self.part(at, 0, 8)?.word(0))
    }
}

impl Types {
    /// Returns the kind of the object at `at`.
    pub(super) fn kind(&mut self, view: &mut View, at: u64) -> Result<Kind, Trouble> {
        let address = view.part(at, 8, 16)?.word(8);
        self.of(view, address)
    }

    /// Returns the kind that the type at `address` is.
    pub(super) fn of(&mut self, view: &mut View, address: u64) -> Result<Kind, Trouble> {
        if let Some(&kind) = self.0.get(&address) {
            return Ok(kind);
        }
        let mark = view.mark();
        let flags = view.word(address.wrapping_add(TYPE_FLAGS))?;
        let name = view.word(address.wrapping_add(TYPE_NAME))?;
        if flags & HEAP_TYPE != 0 {
            return Ok(Kind::Other);
        }
        let name = view.bytes(name, LONGEST_NAME)?;
        let kind = match name.split(|&byte| byte == 0).next() {
            Some(b"bytes") => Kind::Bytes,
            Some(b"code") => Kind::Code,
            Some(b"dict") => Kind::Dict,
            Some(b"float") => Kind::Float,
            Some(b"frame") => Kind::Frame,
            Some(b"int") => Kind::Int,
            Some(b"str") => Kind::Text,
            Some(b"tuple") => Kind::Tuple,
            _ => Kind::Other,
        };
        view.forget(mark);
        if kind != Kind::Other {
            self.0.insert(address, kind);
        }
        Ok(kind)
    }
}

/// The objects of one process: how they lie, and which types they are of.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) layout: Layout,
    pub(super) types: Types,
}

impl Objects {
    /// Errors: the object at `at` is of another type.
    pub(super) fn expect(&mut self, view: &mut View, at: u64, kind: Kind) -> Result<(), Trouble> {
        if self.types.kind(view, at)? == kind {
            return Ok(());
        }
        Err(Trouble::Torn(
            "an object is of another type than it has to be",
        ))
    }

    /// Reads a text; of one that is too long the beginning, and an ellipsis.
    pub(super) fn text(&mut self, view: &mut View, at: u64) -> Result<String, Trouble> {
        self.expect(view, at, Kind::Text)?;
        let header = view.part(at, 16, 36)?;
        let (length, state) = (header.word(16), header.half(32));
        let (size, is_compact, is_ascii) =
            (state >> 2 & 7, state & 1 << 5 != 0, state & 1 << 6 != 0);
        if length == 0 {
            return Ok(String::new());
        }
        let body = match (is_compact, is_ascii) {
            (true, true) => at.wrapping_add(u64::from(self.layout.ascii)),
            (true, false) => at.wrapping_add(u64::from(self.layout.compact)),
            (false, _) => view.word(at.wrapping_add(u64::from(self.layout.compact)))?,
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let letters = length.min(LONGEST_TEXT);
        let mut text = match size {
            1 => view
                .bytes(body, letters)?
                .iter()
                .map(|&byte| char::from(byte))
                .collect(),
            2 => wide(view.bytes(body, 2 * letters)?),
            4 => {
                let bytes = view.bytes(body, 4 * letters)?.chunks_exact(4);
                let numbers =
                    bytes.map(|code| u32::from_le_bytes(code.try_into().expect("four bytes")));
                numbers
                    .map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            }
            _ => return Err(Trouble::Torn("a text has letters of no size")),
        };
        if length > letters {
            text.push('…');
        }
        Ok(text)
    }

    /// Returns the address and length of what a `bytes` object holds.
    pub(super) fn content(&mut self, view: &mut View, at: u64) -> Result<(u64, usize), Trouble> {
        self.expect(view, at, Kind::Bytes)?;
        let length = view.part(at, 16, 24)?.word(16);
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= LONGEST_BYTES);
        let length = length.ok_or(Trouble::Torn("a bytes object is too long"))?;
        Ok((at.wrapping_add(32), length))
    }

    /// Returns the address and length of the items of a tuple.
    pub(super) fn items(&mut self, view: &mut View, at: u64) -> Result<(u64, u16), Trouble> {
        self.expect(view, at, Kind::Tuple)?;
        let length = view.part(at, 16, 24)?.word(16);
        let length = u16::try_from(length).map_err(|_| Trouble::Torn("a tuple is too long"))?;
        Ok((at.wrapping_add(24), length))
    }

    /// Reads an `int` of at most 64 bits or a finite `float`, and nothing else: not a `bool`, not what derives of either.
    pub(super) fn number(&mut self, view: &mut View, at: u64) -> Result<Option<Number>, Trouble> {
        match self.types.kind(view, at)? {
            Kind::Float => {
                let bits = view.part(at, 16, 24)?.word(16);
                Ok(Number::from_f64(f64::from_bits(bits)))
            }
            Kind::Int => self.int(view, at),
            _ => Ok(None),
        }
    }

    /// Digits of 30 bits, the lowest first (`cpython/longintrepr.h`).
    fn int(&mut self, view: &mut View, at: u64) -> Result<Option<Number>, Trouble> {
        let size = view.part(at, 16, 24)?.word(16);
        let (count, is_negative) = if self.layout.tagged_int {
            (size >> 3, size & 3 == 2)
        } else {
            let size = size.cast_signed();
            (size.unsigned_abs(), size < 0)
        };
        let mut value: i128 = 0;
        match usize::try_from(count) {
            Ok(0) => {}
            Ok(count @ 1..=3) => {
                for digit in view
                    .bytes(at.wrapping_add(24), 4 * count)?
                    .chunks_exact(4)
                    .rev()
                {
                    let digit = u32::from_le_bytes(digit.try_into().expect("four bytes"));
                    value = value << 30 | i128::from(digit);
                }
            }
            _ => return Ok(None),
        }
        let value = if is_negative { -value } else { value };
        Ok(i64::try_from(value)
            .map(Number::from)
            .ok()
            .or_else(|| u64::try_from(value).map(Number::from).ok()))
    }
}

/// Decodes letters of two bytes. Half a surrogate pair stands for a byte that was no UTF-8.
fn wide(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2);
    let units = units.map(|unit| u16::from_le_bytes(unit.try_into().expect("two bytes")));
    units
        .map(|unit| char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
