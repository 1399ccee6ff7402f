//! Faults of our own on purpose, for tests of what becomes of the task then. A release build has none.

/// The variable that names the thread that is to panic.
#[cfg(debug_assertions)]
const PANIC_VARIABLE: &str = "TASKSCOPE_PANIC";

/// Panics where this thread of ours, `part`, is the one that is to.
pub(crate) fn provoke(part: &str) {
    #[cfg(debug_assertions)]
    {
        let named = crate::environment::text(PANIC_VARIABLE);
        assert!(named.as_deref() != Some(part), "on purpose, in {part}");
    }
    #[cfg(not(debug_assertions))]
    let _ = part;
}
