//! The Python stack of one thread, in py-spy's JSON shape (`py-spy dump --json`, 0.4).

use serde::{Deserialize, Serialize};

/// One thread of a Python interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Whether the kernel had the thread running (state R).
    pub active: bool,
    /// The stack, innermost frame first.
    pub frames: Vec<Frame>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// One local variable of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
