//! Programs at their own prompt, which are there for who types.

use model::{Process, SharedFrame};

use crate::python::{is_standard_library, main_trace};

/// Shells, as their files are called.
const SHELLS: [&str; 8] = ["ash", "bash", "csh", "dash", "fish", "ksh", "sh", "zsh"];

/// Whether a process asks for the next command by itself, and no program in it asks a question: Python with no function of a
/// program, or its console since 3.13 (`Lib/_pyrepl`); a shell without a script and without a command.
pub(crate) fn is_at_prompt(process: &Process) -> bool {
    is_shell(process) || main_trace(process).is_some_and(|trace| is_of_console(&trace.frames))
}

fn is_of_console(frames: &[SharedFrame]) -> bool {
    let of_console = |frame: &SharedFrame| frame.filename.contains("/_pyrepl/");
    let is_console =
        frames.iter().any(of_console) && frames.iter().all(|it| is_standard_library(it));
    frames.is_empty() || is_console
}

fn is_shell(process: &Process) -> bool {
    let mut words = process.cmdline.iter();
    let program = words.next().and_then(|word| word.rsplit('/').next());
    // That of a login begins with a dash.
    let is_shell = program.is_some_and(|it| SHELLS.contains(&it.trim_start_matches('-')));
    is_shell && words.all(|word| word.starts_with('-') && word != "-c")
}
