//! The program on a terminal: what a person types reaches the task as without us.

use testkit::{DEADLINE, PythonJob, newest_python};

use crate::support::{binary, cache, sandbox};

/// Types into an interactive shell as the tests of `host/supervise` do; the driver says `ready` when all went well.
fn works_as_without_us(options: &str) {
    drop(sandbox()); // plugins are compiled from here on
    let driver = include_str!("../../host/supervise/tests/terminal.py");
    let job = PythonJob::new(newest_python(), driver)
        .argument(&format!("{} run {options} --", binary().display()))
        .environment("XDG_CACHE_HOME", cache().to_str().unwrap())
        .deadline(8 * DEADLINE)
        .start();
    drop(job);
}

#[test]
fn job_control_passwords_and_sizes_are_the_terminal_s_own() {
    works_as_without_us("");
}

#[test]
fn a_task_in_a_group_of_its_own_has_the_terminal() {
    works_as_without_us("--signals group");
}
