//! What a guest writes to its standard output and error: the last 64 KiB, kept because a panic's message is nowhere
//! else. Never full, so a talkative guest is not ended for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::text::one_line;

const CAPACITY: usize = 64 << 10;

/// The last words of a guest; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words(Arc<Mutex<VecDeque<u8>>>);

impl Words {
    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.ring().clear();
    }

    /// Returns why the guest gave up, on one line: the message of its panic or the last lines that it wrote.
    pub(crate) fn last(&self) -> Option<String> {
        let text = self.text();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with("note: "))
            .collect();
        let panic = lines.iter().rposition(|line| line.contains("panicked at "));
        let from = panic.unwrap_or(lines.len().saturating_sub(3));
        let words = lines[from..].join(" ");
        let words = words
            .find("panicked at ")
            .map_or(words.as_str(), |at| &words[at..]);
        (!words.is_empty()).then(|| one_line(words, 1 << 10))
    }

    /// Returns the last lines that the guest wrote, `count` at most.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let text = self.text();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(count)..];
        last.iter().map(|line| one_line(line, 256)).collect()
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.ring().iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Words {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Words {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for it, which is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Words {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut ring = self.ring();
        ring.extend(&bytes[bytes.len().saturating_sub(CAPACITY)..]);
        let excess = ring.len().saturating_sub(CAPACITY);
        ring.drain(..excess);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CAPACITY)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Words {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        let mut words = Words::default();
        words
            .write(Bytes::copy_from_slice(text.as_bytes()))
            .unwrap();
        words
    }

    #[test]
    fn the_message_of_a_panic_is_on_one_line() {
        let text = "hello\n\nthread '<unnamed>' (1) panicked at src/lib.rs:94:28:\nguest says hello\nnote: run with …\n";
        assert_eq!(
            words(text).last().unwrap(),
            "panicked at src/lib.rs:94:28: guest says hello"
        );
    }

    #[test]
    fn without_a_panic_the_last_lines_count() {
        let text = "a\nTraceback:\n  File \"app.py\"\nValueError: no\n";
        assert_eq!(
            words(text).last().unwrap(),
            "Traceback: File \"app.py\" ValueError: no"
        );
        assert_eq!(words("").last(), None);
    }

    #[test]
    fn only_the_end_is_kept() {
        let mut words = words(&"x".repeat(CAPACITY));
        words.write(Bytes::from_static(b"\nend")).unwrap();
        assert_eq!(words.ring().len(), CAPACITY);
        assert!(words.last().unwrap().len() <= 1 << 11);
    }
}
