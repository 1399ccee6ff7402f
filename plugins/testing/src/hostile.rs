//! What a plugin does that wants all the time, memory or words that there are.

use std::cell::RefCell;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::bindings::exports::taskscope::plugin::enrich::Enrichment;
use crate::bindings::taskscope::plugin::{log, snapshot};
use crate::{annotated, asked, note};

thread_local! {
    static HOARD: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Does what the settings say; nothing if that is nothing hostile.
pub(crate) fn enrichment(config: &str) -> Option<Enrichment> {
    let does = |what: &str| asked(config, what);
    let notes = if does("loop") {
        loop {
            black_box(0);
        }
    } else if does("sleep") {
        std::thread::sleep(Duration::from_hours(1)); // inside a call of the host
        Vec::new()
    } else if does("flood") {
        loop {
            log::write(log::Level::Info, "again", &[]);
            black_box(snapshot::query("/processes"));
        }
    } else if does("grow") {
        let before = core::arch::wasm32::memory_grow::<0>(65_000);
        assert!(before != usize::MAX, "no 4 GiB for me");
        Vec::new()
    } else if does("eat") {
        loop {
            hoard(1 << 20);
        }
    } else if does("hoard") {
        hoard(2 << 20);
        Vec::new()
    } else if does("recurse") {
        vec![note("depth", &deeper(1).to_string())]
    } else if does("not-utf8") {
        // SAFETY: it is not. Whoever takes the text has to find out.
        let text = unsafe { String::from_utf8_unchecked(vec![0xff, 0xfe]) };
        vec![note("text", &text)]
    } else if does("huge") {
        vec![note("huge", &"x".repeat(20 << 20))]
    } else if does("pour") {
        pour()
    } else if does("chatter") {
        chatter();
        Vec::new()
    } else {
        return None;
    };
    Some(annotated(notes))
}

fn hoard(size_bytes: usize) {
    HOARD.with_borrow_mut(|hoard| hoard.push(vec![1; size_bytes]));
}

/// Needs more of the host's stack than of its own memory.
fn deeper(depth: u64) -> u64 {
    let next: fn(u64) -> u64 = black_box(deeper);
    next(depth + 1) + depth
}

/// One gibibyte of text out of four mebibytes of memory: each of 256 annotations has the same text.
fn pour() -> Vec<crate::Annotation> {
    let mut text = ManuallyDrop::new("x".repeat(4 << 20));
    let (start, length, capacity) = (text.as_mut_ptr(), text.len(), text.capacity());
    let same = |_| {
        let mut note = note("poured", "");
        // SAFETY: it is read only; the host ends this instance before anything is given back.
        let text = unsafe { String::from_raw_parts(start, length, capacity) };
        note.value = crate::Value::Text(text);
        note
    };
    (0..256).map(same).collect()
}

/// More words than any limit lets through, on every way out.
fn chatter() {
    for round in 0..2_000 {
        eprintln!("round {round} of saying nothing at great length ..............................");
        log::write(log::Level::Error, &"blah ".repeat(2_000), &[]);
    }
}
