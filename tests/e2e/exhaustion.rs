//! What ran out when the task failed: shared memory, descriptors, the disk. Each is told from a failure of the task's own making.

use std::os::unix::process::ExitStatusExt;

use crate::ends::{obituaries, python};
use crate::our_failures::among_mounts;
use crate::support::sandbox;

/// Waits, at the beginning of a task, for two more snapshots than there are, so that one has begun since.
const LOOKED_AT: &str = r#"
import glob, os, sys, time
store = os.environ["STORE"]
def looked_at():
    count = lambda: len(glob.glob(store + "/**/snapshots/*.json.gz", recursive=True))
    wanted = count() + 2
    while count() < wanted:
        time.sleep(0.02)
"#;

/// Fills shared memory page by page, and touches one more than there is.
const SHARED_MEMORY: &str = r#"
import mmap
size = int(sys.argv[1])
file = os.open("/dev/shm/segment", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 2 * size)
memory = mmap.mmap(file, 2 * size)
for page in range(0, size, 4096):
    memory[page] = 1
looked_at()
for page in range(size, 2 * size, 4096):
    memory[page] = 1
"#;

/// Touches what is beyond the end of a file, with room everywhere.
const SHORT_FILE: &str = r#"
import mmap
file = os.open("short", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 8192)
memory = mmap.mmap(file, 8192)
looked_at()
os.ftruncate(file, 0)
memory[0] = 1
"#;

const DESCRIPTORS: &str = r"
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = []
try:
    while True:
        kept.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
# Without one to spare nobody can look who has looked.
spare = [kept.pop(), kept.pop()]
for one in spare:
    os.close(one)
looked_at()
sys.exit(1)
";

const DISK: &str = r#"
file = os.open("filling", os.O_WRONLY | os.O_CREAT)
try:
    while True:
        os.write(file, b"x" * 4096)
except OSError:
    pass
looked_at()
sys.exit(1)
"#;

/// Fails with all there is.
const PLAIN: &str = "looked_at()\nsys.exit(1)\n";

/// What came of a task: its status, our words, and its obituary.
struct Told {
    status: std::process::ExitStatus,
    words: String,
    obituary: serde_json::Value,
}

/// Runs `task` in a place that `script` has prepared; none where that may not be.
fn run(script: &str, task: &str, argument: &str) -> Option<Told> {
    let sandbox = sandbox();
    sandbox.write("task.py", &format!("{LOOKED_AT}{task}"));
    let run = format!(
        "top=\"$PWD\"; export STORE=\"$top/.taskscope\"; {script} exec \"$0\" run --interval 200ms --store \"$STORE\" -- {} \
         \"$top/task.py\" {argument}",
        python()
    );
    let output = among_mounts(&sandbox, &run)?;
    let words = String::from_utf8(output.stderr).unwrap();
    let told = obituaries(&sandbox);
    let own = told.iter().find(|one| one["name"] == "task.py");
    let own = own.unwrap_or_else(|| panic!("{words}\n{told:?}")).clone();
    Some(Told {
        status: output.status,
        words,
        obituary: own,
    })
}

#[test]
fn a_bus_error_with_dev_shm_full_is_no_crash_of_its_own_making() {
    let script = "mount -t tmpfs -o size=8m none /dev/shm &&";
    let Some(full) = run(script, SHARED_MEMORY, "8388608") else {
        return;
    };
    assert_eq!(full.status.signal(), Some(7), "{}", full.words);
    assert!(
        full.words
            .contains(" died: SIGBUS, /dev/shm was full, 8.00 of 8.00 MiB"),
        "{}",
        full.words
    );
    assert!(full.words.contains("--shm-size"), "{}", full.words);
    let around = &full.obituary["circumstances"][0]["shared_memory_full"];
    assert_eq!(around["total_bytes"], 8 << 20, "{}", full.obituary);

    let crash = run(script, SHORT_FILE, "").unwrap();
    assert_eq!(crash.status.signal(), Some(7), "{}", crash.words);
    assert!(crash.words.contains(" died: SIGBUS"), "{}", crash.words);
    assert!(!crash.words.contains("was full"), "{}", crash.words);
    assert!(
        crash.obituary["circumstances"].is_null(),
        "{}",
        crash.obituary
    );
}

#[test]
fn descriptors_that_ran_out_are_told_from_a_plain_failure() {
    let Some(out) = run("", DESCRIPTORS, "") else {
        return;
    };
    assert_eq!(out.status.code(), Some(1), "{}", out.words);
    assert!(
        out.words.contains(" files were open of 64 that may be"),
        "{}",
        out.words
    );
    assert!(out.words.contains("ulimit -n"), "{}", out.words);
    let around = &out.obituary["circumstances"][0]["descriptors_exhausted"];
    assert_eq!(around["limit"], 64, "{}", out.obituary);

    let plain = run("", PLAIN, "").unwrap();
    assert_eq!(plain.status.code(), Some(1), "{}", plain.words);
    assert!(!plain.words.contains("ended"), "{}", plain.words);
    assert!(
        plain.obituary["circumstances"].is_null(),
        "{}",
        plain.obituary
    );
}

#[test]
fn a_disk_that_was_full_is_told_from_a_plain_failure() {
    let script = "mkdir small && mount -t tmpfs -o size=1m none small && cd small &&";
    let Some(full) = run(script, DISK, "") else {
        return;
    };
    assert_eq!(full.status.code(), Some(1), "{}", full.words);
    assert!(full.words.contains("the disk of "), "{}", full.words);
    assert!(
        full.words.contains("/small was full, 1.00 MiB"),
        "{}",
        full.words
    );

    let plain = run(script, PLAIN, "").unwrap();
    assert_eq!(plain.status.code(), Some(1), "{}", plain.words);
    assert!(!plain.words.contains("full"), "{}", plain.words);
}
