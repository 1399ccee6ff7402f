//! Where things lie in the memory of each `CPython`: offsets in its structs, bytes.
//!
//! From the headers that `CPython` installs (`Include/internal/pycore_runtime.h`, `pycore_interp.h`, `pycore_frame.h`,
//! `cpython/pystate.h`, `cpython/code.h`), the same on x86-64 and aarch64 but for where the size of a mutex counts. They
//! do not change within a minor version once it is released. From 3.13 on the interpreter says most of them itself
//! (`_Py_DebugOffsets`).

mod table;
mod told;

pub(super) use told::TOLD_BYTES;
#[cfg(test)]
pub(super) use told::tests::told as told_for_tests;

/// An offset.
pub(super) type Offset = u16;

/// One minor version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// `_PyRuntimeState.interpreters.head`.
    pub(super) interpreters: Offset,
    pub(super) gil: Gil,
    pub(super) interpreter: Interpreter,
    pub(super) thread: Thread,
    pub(super) frame: Frame,
    pub(super) code: Code,
    /// `sizeof(PyASCIIObject)`: where the letters of an ASCII text begin.
    pub(super) ascii: Offset,
    /// `sizeof(PyCompactUnicodeObject)`: where those of another begin; of a text that is not compact, their address.
    pub(super) compact: Offset,
    pub(super) dict: Dict,
    /// How an integer keeps its sign and length.
    pub(super) tagged_int: bool,
}

/// Who holds the interpreter lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gil {
    /// A word of the runtime: the thread state that runs (`gilstate.tstate_current`).
    Current(Offset),
    /// A word of the interpreter leads to its lock (`ceval.gil`), in which `last_holder` and `locked` are.
    Lock {
        lock: Offset,
        holder: Offset,
        locked: Offset,
    },
}

/// `PyInterpreterState`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interpreter {
    pub(super) next: Offset,
    /// The first thread state.
    pub(super) threads: Offset,
    /// `sys.modules`.
    pub(super) modules: Offset,
}

/// `PyThreadState`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) next: Offset,
    pub(super) interpreter: Offset,
    /// The `pthread_t`.
    pub(super) id: Offset,
    /// The kernel's id, from 3.11 on.
    pub(super) native_id: Option<Offset>,
    pub(super) top: Top,
    /// The newest piece of the data stack, from 3.11 on.
    pub(super) chunk: Option<Offset>,
}

/// Where the innermost frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Top {
    /// In the thread state.
    Here(Offset),
    /// A word of the thread state leads to a `_PyCFrame`, in which it is (3.11 and 3.12).
    CFrame { cframe: Offset, current: Offset },
}

/// `PyFrameObject` up to 3.10, `_PyInterpreterFrame` later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) back: Offset,
    pub(super) code: Offset,
    pub(super) globals: Offset,
    /// `f_lasti`, `prev_instr` or `instr_ptr`.
    pub(super) at: Offset,
    /// `localsplus`, the last of it.
    pub(super) locals: Offset,
}

/// How a frame tells where it is and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// An object of Python; the place in its code is a number, in bytes or in units of two.
    Object { unit: i32 },
    /// No object; the place in its code is an address.
    Plain {
        /// Whose the frame is.
        owner: Offset,
        /// Whether the C loop was entered anew for it (3.11).
        entry: Option<Offset>,
    },
}

/// `PyCodeObject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) first_line: Offset,
    pub(super) filename: Offset,
    pub(super) name: Offset,
    pub(super) qualname: Option<Offset>,
    pub(super) lines: Lines,
    pub(super) line_table: Offset,
    /// The names of variables: `co_varnames`, or `co_localsplusnames`.
    pub(super) variables: Offset,
    /// What kind each of them is (`co_localspluskinds`), from 3.11 on.
    pub(super) kinds: Option<Offset>,
    pub(super) body: Body,
    /// The first byte behind all of these.
    pub(super) end: Offset,
}

/// Where the instructions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// In a `bytes` object.
    Bytes(Offset),
    /// Behind the fields of the code object, whose `ob_size` counts units of two bytes.
    Inside(Offset),
}

/// How line numbers are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// `co_lnotab` (3.8 and 3.9; `Objects/lnotab_notes.txt`).
    Lnotab,
    /// `co_linetable` of 3.10 (PEP 626).
    Ranges,
    /// `co_linetable` from 3.11 on (`Objects/locations.md`).
    Locations,
}

/// `PyDictKeysObject`, and how objects keep their attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dict {
    /// `dk_size` and 32-byte index sizes; the attributes of an object are in a dict of its own.
    Sized,
    /// From 3.11 on: logarithms of sizes, and entries without a hash where all keys are texts.
    Compact {
        attributes: Attributes,
        /// `PyHeapTypeObject.ht_cached_keys`: the names of the attributes that all objects of a class share.
        cached_keys: Offset,
    },
}

/// Where an object without a dict of its own keeps its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attributes {
    /// 3.11: a word before the object leads to the values, another to the dict.
    Apart,
    /// 3.12: one word before the object leads to either.
    Tagged,
    /// 3.13: the values are in the object.
    Inline,
}

impl Layout {
    /// Returns the layout of 3.`minor`. `told` is the beginning of `_PyRuntime`, which counts from 3.13 on. Nothing for a
    /// version that is not known.
    pub(super) fn of(minor: u64, told: &[u8]) -> Option<Self> {
        match minor {
            8 => Some(table::v3_8()),
            9 => Some(table::v3_9()),
            10 => Some(table::v3_10()),
            11 => Some(table::v3_11()),
            12 => Some(table::v3_12()),
            13 => told::layout(told),
            _ => None,
        }
    }
}
