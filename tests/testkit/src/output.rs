//! What a finished program said and how it ended, as one value.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Exit status, stdout and stderr; prints as a transcript for inline snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// All of stdout; bytes that are not UTF-8 are U+FFFD.
    pub stdout: String,
    /// All of stderr; bytes that are not UTF-8 are U+FFFD.
    pub stderr: String,
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "to assert how it ended is a use"
)]
impl Output {
    /// Returns itself if the program ended with status 0, else panics with the transcript.
    #[track_caller]
    pub fn success(self) -> Output {
        assert!(self.status.success(), "the program failed:\n{self}");
        self
    }

    /// Returns itself if the program exited with this code, else panics with the transcript.
    #[track_caller]
    pub fn exited(self, code: i32) -> Output {
        assert_eq!(
            self.status.code(),
            Some(code),
            "another ending was expected:\n{self}"
        );
        self
    }

    /// Returns itself if the program was ended by this signal, else panics with the transcript.
    #[track_caller]
    pub fn killed_by(self, signal: i32) -> Output {
        assert_eq!(
            self.status.signal(),
            Some(signal),
            "another ending was expected:\n{self}"
        );
        self
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(formatter, "exit {code}")?,
            (None, Some(signal)) => writeln!(formatter, "signal {signal}")?,
            (None, None) => writeln!(formatter, "{}", self.status)?,
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(formatter, "--- {name}")?;
                formatter.write_str(text)?;
                if !text.ends_with('\n') {
                    writeln!(formatter, "[no newline]")?;
                }
            }
        }
        Ok(())
    }
}
