//! What `.ci/tests` makes of tests that fail, with a stand-in for cargo that says what each of its runs is to say.

use std::path::Path;

use testkit::{Output, Sandbox};

/// Says the text of the file `said-N` in its N-th run, and ends with 101 where that speaks of a failure.
const CARGO: &str = "#!/bin/sh
cd \"$(dirname \"$0\")\"
run=$(($(wc -l < asked) + 1))
echo \"$*\" >> asked
cat said-$run
! grep -q -e FAILED -e ^error said-$run || exit 101
";

const PASSED: &str = "running 2 tests\ntest a::one ... ok\ntest a::two ... ok\n
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
const FAILED: &str = "running 2 tests\ntest a::one ... ok\ntest a::two ... FAILED\n
---- a::two stdout ----\nit said:\n  test b::three ... FAILED\n  test result: FAILED. 0 passed; 1 failed\n
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n
error: test failed, to rerun pass `-p taskscope --test e2e`\nerror: 1 target failed:\n    `-p taskscope --test e2e`\n";
const ALONE: &str = "running 0 tests\n
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.0s\n
running 1 test\ntest a::two ... ok\n
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s\n";

/// Runs the script on a cargo that says this; returns what came of it, and what cargo was asked for.
fn tests(said: &[&str]) -> (Output, Vec<String>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/tests");
    let sandbox = Sandbox::new(&script);
    let cargo = sandbox.write("cargo", CARGO);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(cargo, mode).unwrap();
    sandbox.write("asked", "");
    for (run, text) in said.iter().enumerate() {
        sandbox.write(&format!("said-{}", run + 1), text);
    }
    let path = format!("{}:/usr/bin:/bin", sandbox.directory().display());
    let sandbox = sandbox.environment("PATH", &path);
    let output = sandbox.run(["--workspace"]);
    let asked = std::fs::read_to_string(sandbox.path("asked")).unwrap();
    (output, asked.lines().map(str::to_owned).collect())
}

#[test]
fn tests_that_pass_are_run_once() {
    let (output, asked) = tests(&[PASSED]);
    let output = output.success();
    assert_eq!(asked, ["test --no-fail-fast --workspace"]);
    assert!(!output.stdout.contains("UNSTABLE"), "{output}");
}

#[test]
fn a_test_that_fails_beside_the_others_is_run_again_alone_and_named() {
    let (output, asked) = tests(&[FAILED, ALONE]);
    let output = output.success();
    let again = "test --no-fail-fast --workspace -- --exact a::two --test-threads=1";
    assert_eq!(asked, ["test --no-fail-fast --workspace", again]);
    assert!(output.stdout.contains("\nUNSTABLE: a::two "), "{output}");
}

#[test]
fn what_fails_alone_too_or_is_not_run_again_fails() {
    // A test that nobody has run again has not passed.
    for again in [
        FAILED,
        "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n",
    ] {
        let (output, asked) = tests(&[FAILED, again]);
        let output = output.exited(101);
        assert_eq!(asked.len(), 2);
        assert!(!output.stdout.contains("UNSTABLE"), "{output}");
    }
    let crashed = format!("{FAILED}    `-p taskscope-store --lib`\n");
    let name = |number| format!("test a::test_{number} ... FAILED\n");
    let many: String = (0..6).map(name).collect();
    let many = FAILED.replace("test a::two ... FAILED\n", &many);
    for once in ["error: could not compile `taskscope`\n", &crashed, &many] {
        let (output, asked) = tests(&[once]);
        _ = output.exited(101);
        assert_eq!(asked.len(), 1, "{once}");
    }
}
