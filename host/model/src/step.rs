//! A number that a Python frame holds, read from outside: `processes[].steps[]` of a snapshot.

use serde::{Deserialize, Serialize};

/// One local variable of a frame that was asked for by its name and holds a number. A text never gets here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The source file of the frame, as the code object has it.
    pub file: String,
    /// The function of the frame, as in its stack.
    pub function: String,
    /// The line that the frame was at.
    pub line: i32,
    /// The name of the variable: one of the setting's.
    pub name: String,
    /// The kernel's id of the thread; absent where it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<u64>,
    /// An integer (exact, from -2^63 to 2^64 - 1) or a finite float.
    pub value: serde_json::Number,
}
