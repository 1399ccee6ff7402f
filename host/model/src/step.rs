//! A number that a Python frame holds, read from outside: `processes[].steps[]` of a snapshot.

use std::time::Duration;

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

impl Step {
    /// Returns whether `other` is the same variable of the same thread, wherever the frame is by now.
    pub fn is_of(&self, other: &Self) -> bool {
        let key = |step: &Self| (step.thread_id, step.name.clone(), step.function.clone());
        key(self) == key(other) && self.file == other.file
    }

    /// Returns by how much the number grew each second since `earlier`, read `over` before it. Nothing where it fell, as
    /// when an epoch began anew: then how often it did so in between is not known.
    pub fn per_second(&self, earlier: &Self, over: Duration) -> Option<f64> {
        let grown = self.value.as_f64()? - earlier.value.as_f64()?;
        (grown >= 0.0 && !over.is_zero()).then(|| grown / over.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(thread_id: u64, value: f64) -> Step {
        Step {
            file: "train.py".to_owned(),
            function: "train".to_owned(),
            line: 7,
            name: "step".to_owned(),
            thread_id: Some(thread_id),
            value: serde_json::Number::from_f64(value).unwrap(),
        }
    }

    #[test]
    fn a_rate_is_growth_by_time_and_nothing_where_the_count_began_anew() {
        let second = Duration::from_secs(1);
        let rate = |from, to, over| step(1, to).per_second(&step(1, from), over);
        assert_eq!(rate(100.0, 150.0, second * 2), Some(25.0));
        assert_eq!(rate(100.0, 100.0, second), Some(0.0));
        assert_eq!(rate(100.0, 3.0, second), None);
        assert_eq!(rate(1.0, 2.0, Duration::ZERO), None);
    }

    #[test]
    fn a_number_is_compared_with_that_of_the_same_thread_and_function() {
        let one = step(1, 5.0);
        assert!(one.is_of(&Step {
            line: 9,
            ..step(1, 8.0)
        }));
        assert!(!one.is_of(&step(2, 5.0)));
        let function = "validate".to_owned();
        assert!(!one.is_of(&Step {
            function,
            ..step(1, 5.0)
        }));
    }
}
