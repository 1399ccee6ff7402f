//! What was made from some bytes, kept with them: it holds for as long as they are the same.

use super::Trouble;
use super::memory::Span;
use super::view::View;

/// A value and every byte that it was made from.
#[derive(Debug)]
pub(super) struct Memo<T> {
    pub(super) value: T,
    spans: Box<[Span]>,
    bytes: Box<[u8]>,
}

impl<T> Memo<T> {
    /// Makes a value, and keeps what `make` looked at.
    pub(super) fn make(
        view: &mut View,
        make: impl FnOnce(&mut View) -> Result<T, Trouble>,
    ) -> Result<Self, Trouble> {
        let mark = view.mark();
        let value = make(view)?;
        let spans: Box<[Span]> = view.since(mark).into();
        let mut bytes = Vec::with_capacity(spans.iter().map(|span| span.size()).sum());
        for span in &spans {
            bytes.extend_from_slice(view.bytes(span.at, span.size())?);
        }
        view.forget(mark + spans.len());
        Ok(Self {
            value,
            spans,
            bytes: bytes.into(),
        })
    }

    /// Returns whether every byte is still the same.
    pub(super) fn holds(&self, view: &mut View) -> bool {
        let mut rest = &*self.bytes;
        self.spans.iter().all(|span| {
            let (known, behind) = rest.split_at(span.size());
            rest = behind;
            view.bytes(span.at, span.size())
                .is_ok_and(|now| now == known)
        })
    }

    /// How many bytes it keeps.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.spans)
    }
}
