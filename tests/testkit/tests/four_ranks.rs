//! `examples/four-ranks` passes its own tests on the oldest and the newest Python it promises to run on.

use std::path::Path;
use std::process::Command;

use taskscope_testkit::pythons;

#[test]
fn the_example_passes_its_tests_on_the_oldest_and_the_newest_python() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/four-ranks");
    let promised: Vec<_> = pythons()
        .iter()
        .filter(|python| python.version >= (3, 8, 0))
        .collect();
    for python in [promised.first().unwrap(), promised.last().unwrap()] {
        let mut tests = Command::new(&python.path);
        tests.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = tests
            .args(["-m", "unittest"])
            .current_dir(&folder)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {words}", python.name);
        assert!(words.contains("Ran 5 tests"), "{}: {words}", python.name);
    }
}
