//! The warnings that a test and its tasks log.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;

thread_local! {
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Begins to note what is logged at `warn` and above on each thread; a test and its tasks share one. One subscriber
/// for all, because what `tracing` caches for a call site is lost on others when tests come and go.
pub(crate) fn watch_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(|| OfThisThread)
            .init();
    });
    LOGGED.with_borrow_mut(Vec::clear);
}

/// Returns the lines that this thread has logged.
pub(crate) fn warnings() -> Vec<String> {
    let text = LOGGED.with_borrow(|bytes| String::from_utf8(bytes.clone()).unwrap());
    text.lines().map(str::to_owned).collect()
}

struct OfThisThread;

impl Write for OfThisThread {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
