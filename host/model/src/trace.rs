//! The Python stack of one thread, in py-spy's JSON shape (`py-spy dump --json`, 0.4).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// One thread of a Python interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Whether the kernel had the thread running (state R).
    pub active: bool,
    /// The stack, innermost frame first.
    pub frames: Vec<SharedFrame>,
    /// The kernel's thread id; joins to `proc.threads[].tid`. Absent where it cannot be told: where py-spy read `CPython`
    /// 3.10 or older.
    pub os_thread_id: Option<u64>,
    /// Whether the thread held the interpreter lock.
    pub owns_gil: bool,
    /// The process.
    pub pid: i32,
    /// Always null here; kept for readers of py-spy's own output.
    pub process_info: Option<serde_json::Value>,
    /// The `pthread_t` of the thread.
    pub thread_id: u64,
    /// The name that `threading` gave it.
    pub thread_name: Option<String>,
}

/// One frame of a Python stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The absolute path of the source file, as the code object has it.
    pub filename: String,
    /// Whether the interpreter's C loop was entered anew for this frame. Absent in the output of py-spy before 0.4.
    #[serde(default)]
    pub is_entry: bool,
    /// Whether this is a shim frame of the interpreter (3.12 and later).
    #[serde(default)]
    pub is_shim_entry: bool,
    /// The line, from 1; 0 where unknown.
    pub line: i32,
    /// Local variables, where they were asked for.
    pub locals: Option<Vec<LocalVariable>>,
    /// The shared library of a native frame; null for Python.
    pub module: Option<String>,
    /// The function; the qualified name on `CPython` 3.11 and later.
    pub name: String,
    /// The same as `filename`: paths are never shortened.
    pub short_filename: Option<String>,
}

/// A [`Frame`] that many stacks have in common: a clone is the same frame. It reads, compares and is stored as the frame
/// itself. Nothing changes a shared frame, so its JSON text is formed once.
#[derive(Clone)]
pub struct SharedFrame(Arc<Shared>);

struct Shared {
    frame: Frame,
    text: OnceLock<Box<RawValue>>,
}

impl SharedFrame {
    /// Whether another clone lives.
    pub fn has_clones(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Where it lies in memory: the same for clones, another for any two that live and are none.
    pub fn place(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl From<Frame> for SharedFrame {
    fn from(frame: Frame) -> Self {
        let text = OnceLock::new();
        Self(Arc::new(Shared { frame, text }))
    }
}

impl Deref for SharedFrame {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.0.frame
    }
}

/// So that a set of them can be asked for a frame.
impl Borrow<Frame> for SharedFrame {
    fn borrow(&self) -> &Frame {
        self
    }
}

impl fmt::Debug for SharedFrame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

impl PartialEq for SharedFrame {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for SharedFrame {}

impl Hash for SharedFrame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Serialize for SharedFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.text.get_or_init(|| {
            to_raw_value(&**self).expect("texts, integers and lists of them are JSON")
        });
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedFrame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Frame::deserialize(deserializer).map(known::shared)
    }
}

/// Frames that were decoded lately, so that equal ones of a snapshot become one: most stacks of a job are alike.
mod known {
    use std::cell::RefCell;
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};

    use super::{Frame, SharedFrame};

    /// Places for a frame each, chosen by its hash: a newer one takes the place of an older one.
    const PLACES: usize = 1024;

    thread_local! {
        static KNOWN: RefCell<Vec<Option<SharedFrame>>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns the frame as it was decoded before, where it is still known.
    pub(super) fn shared(frame: Frame) -> SharedFrame {
        let mut hasher = DefaultHasher::new();
        (&frame.name, &frame.filename, frame.line).hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % PLACES as u64).unwrap_or(0);
        KNOWN.with_borrow_mut(|known| {
            known.resize(PLACES, None);
            match &known[place] {
                Some(same) if **same == frame => same.clone(),
                _ => known[place].insert(frame.into()).clone(),
            }
        })
    }
}

/// One local variable of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocalVariable {
    /// Its address in the process.
    pub addr: u64,
    /// Whether it is an argument.
    pub arg: bool,
    /// Its name.
    pub name: String,
    /// Its value as text, where it could be shown.
    pub repr: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str) -> Frame {
        Frame {
            filename: "/a/tr\u{e4}in.py".to_owned(),
            is_entry: true,
            is_shim_entry: false,
            line: 3,
            locals: None,
            module: None,
            name: name.to_owned(),
            short_filename: Some("a \"b\"".to_owned()),
        }
    }

    #[test]
    fn a_shared_frame_is_stored_as_the_frame_itself_each_time() {
        let shared = SharedFrame::from(frame("dive"));
        for _ in 0..2 {
            let text = serde_json::to_string(&[&shared, &shared.clone()]).unwrap();
            let expected = serde_json::to_string(&[frame("dive"), frame("dive")]).unwrap();
            assert_eq!(text, expected);
            let value = serde_json::to_value(&shared).unwrap();
            assert_eq!(value, serde_json::to_value(frame("dive")).unwrap());
        }
        let back: SharedFrame =
            serde_json::from_str(&serde_json::to_string(&shared).unwrap()).unwrap();
        assert_eq!((&back, &*back), (&shared, &frame("dive")));
    }

    #[test]
    fn equal_frames_that_are_decoded_one_after_the_other_are_one() {
        let decode = |frame: &Frame| -> SharedFrame {
            serde_json::from_str(&serde_json::to_string(frame).unwrap()).unwrap()
        };
        let other = Frame {
            locals: Some(Vec::new()),
            ..frame("same")
        };
        let (one, two, three) = (
            decode(&frame("same")),
            decode(&frame("same")),
            decode(&other),
        );
        assert_eq!(one.place(), two.place());
        assert_ne!(one.place(), three.place());
        assert_eq!((&*two, &*three), (&frame("same"), &other));
        for number in 0..5000 {
            let name = format!("function_{number}");
            assert_eq!(decode(&frame(&name)).name, name);
        }
    }

    #[test]
    fn only_clones_have_the_same_place_and_equal_frames_are_equal() {
        let (one, other) = (SharedFrame::from(frame("a")), SharedFrame::from(frame("a")));
        assert_eq!(one, other);
        assert_ne!(one, SharedFrame::from(frame("b")));
        assert_ne!(one.place(), other.place());
        assert!(!one.has_clones());
        let clone = one.clone();
        assert_eq!(one.place(), clone.place());
        assert!(one.has_clones());
    }
}
