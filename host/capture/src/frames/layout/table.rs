//! The tables of 3.8 to 3.13. An offset that follows from others is written as the sum.

use super::{
    Attributes, Body, Code, Dict, Frame, FrameKind, Gil, Interpreter, Layout, Lines, Offset,
    Thread, Top,
};

/// How much longer `pthread_mutex_t` is than on x86-64, where it has 40 bytes; the lock of 3.8 to 3.11 has two.
const MUTEX: Offset = if cfg!(target_arch = "aarch64") { 8 } else { 0 };

pub(super) fn v3_8() -> Layout {
    Layout {
        interpreters: 32,
        gil: Gil::Current(1368 + 2 * MUTEX),
        interpreter: Interpreter {
            next: 0,
            threads: 8,
            modules: 56,
        },
        thread: Thread {
            next: 8,
            interpreter: 16,
            id: 176,
            native_id: None,
            top: Top::Here(24),
            chunk: None,
        },
        frame: Frame {
            kind: FrameKind::Object { unit: 1 },
            back: 24,
            code: 32,
            globals: 48,
            at: 104,
            locals: 360,
        },
        code: Code {
            first_line: 40,
            filename: 104,
            name: 112,
            qualname: None,
            lines: Lines::Lnotab,
            line_table: 120,
            variables: 72,
            kinds: None,
            body: Body::Bytes(48),
            end: 128,
        },
        ascii: 48,
        compact: 72,
        dict: Dict::Sized,
        tagged_int: false,
    }
}

pub(super) fn v3_9() -> Layout {
    let before = v3_8();
    Layout {
        gil: Gil::Current(568 + 2 * MUTEX),
        interpreter: Interpreter {
            modules: 856,
            ..before.interpreter
        },
        ..before
    }
}

pub(super) fn v3_10() -> Layout {
    let before = v3_9();
    Layout {
        frame: Frame {
            kind: FrameKind::Object { unit: 2 },
            at: 96,
            locals: 352,
            ..before.frame
        },
        code: Code {
            lines: Lines::Ranges,
            ..before.code
        },
        ..before
    }
}

pub(super) fn v3_11() -> Layout {
    let before = v3_10();
    Layout {
        interpreters: 40,
        gil: Gil::Current(576 + 2 * MUTEX),
        interpreter: Interpreter {
            next: 0,
            threads: 16,
            modules: 888,
        },
        thread: Thread {
            id: 152,
            native_id: Some(160),
            top: Top::CFrame {
                cframe: 56,
                current: 8,
            },
            chunk: Some(296),
            ..before.thread
        },
        frame: Frame {
            kind: FrameKind::Plain {
                owner: 69,
                entry: Some(68),
            },
            back: 48,
            code: 32,
            globals: 8,
            at: 56,
            locals: 72,
        },
        code: Code {
            first_line: 72,
            filename: 112,
            name: 120,
            qualname: Some(128),
            lines: Lines::Locations,
            line_table: 136,
            variables: 96,
            kinds: Some(104),
            body: Body::Inside(184),
            end: 144,
        },
        dict: Dict::Compact {
            attributes: Attributes::Apart,
            cached_keys: 872,
        },
        ..before
    }
}

pub(super) fn v3_12() -> Layout {
    let before = v3_11();
    Layout {
        gil: Gil::Lock {
            lock: 384,
            holder: 8,
            locked: 16,
        },
        interpreter: Interpreter {
            next: 0,
            threads: 72,
            modules: 944,
        },
        thread: Thread {
            id: 136,
            native_id: Some(144),
            top: Top::CFrame {
                cframe: 56,
                current: 0,
            },
            chunk: Some(232),
            ..before.thread
        },
        frame: Frame {
            kind: FrameKind::Plain {
                owner: 70,
                entry: None,
            },
            back: 8,
            code: 0,
            globals: 24,
            ..before.frame
        },
        code: Code {
            first_line: 68,
            body: Body::Inside(192),
            ..before.code
        },
        ascii: 40,
        compact: 56,
        dict: Dict::Compact {
            attributes: Attributes::Tagged,
            cached_keys: 880,
        },
        tagged_int: true,
        ..before
    }
}

/// What `_Py_DebugOffsets` of 3.13 leaves out, and as 3.13.0 has it what it says.
pub(super) fn v3_13() -> Layout {
    let before = v3_12();
    Layout {
        interpreters: 632,
        gil: Gil::Lock {
            lock: 16,
            holder: 8,
            locked: 16,
        },
        interpreter: Interpreter {
            next: 7264,
            threads: 7344,
            modules: 7656,
        },
        thread: Thread {
            id: 152,
            native_id: Some(160),
            top: Top::Here(72),
            ..before.thread
        },
        code: Code {
            body: Body::Inside(200),
            ..before.code
        },
        dict: Dict::Compact {
            attributes: Attributes::Inline,
            cached_keys: 880,
        },
        ..before
    }
}
