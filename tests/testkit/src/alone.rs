use std::env;
use std::process::Command;

const ALONE: &str = "TASKSCOPE_TEST_ALONE";

/// Whether the calling test may go on: it is the only one of its process. Otherwise it has been run again, alone, by its
/// name as the test harness lists it, and had to pass there.
///
/// For tests that measure their own process: other tests of the same binary run in it at the same time.
///
/// # Panics
/// Where the test did not pass in its own process.
#[expect(
    clippy::disallowed_methods,
    reason = "the run of one test is told by its environment"
)]
pub fn alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(env::current_exe().expect("this program has a path"))
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("a test binary can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{complaint}"
    );
    false
}
