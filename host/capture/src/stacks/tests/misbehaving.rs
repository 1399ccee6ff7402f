//! Helpers that hang, die and lie.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::{GapCode, ProcessId};
use rustix::process::Signal;

use super::workload::{Workload, pythons};
use super::{PATIENCE, Read, code, settings, wanted};
use crate::stacks::{Numbers, StackReaders};
use crate::{StackSettings, StackSource};

/// Speaks the protocol, and does `DEED` when it comes to the process `PID`. Others get empty stacks. In postcard's format a text
/// or a list follows its length, and a variant of an enum its index; all numbers here take one byte.
const HELPER: &str = r#"
import io, json, struct, sys, time
deed, bad = sys.argv[1], int(sys.argv[2])
source, sink = sys.stdin.buffer, sys.stdout.buffer

def say(payload):
    sink.write(struct.pack("<I", len(payload)) + payload)
    sink.flush()

def texts(request):
    return [request.read(request.read(1)[0]).decode() for _ in range(request.read(1)[0])]

say(json.dumps({"protocol": 5, "version": "VERSION"}).encode())
while True:
    start = source.read(4)
    if len(start) < 4:
        break
    request = io.BytesIO(source.read(struct.unpack("<I", start)[0]))
    focus, keep, local, nonblocking, processes = texts(request), texts(request), texts(request), request.read(1), texts(request)
    with open(sys.argv[0] + ".kept", "w") as file:
        file.write(" ".join(sorted(keep)))
    for process in processes:
        if int(process.split(":")[0]) == bad:
            if deed == "hang":
                time.sleep(3600)
            elif deed == "die":
                sys.exit(7)
            elif deed == "lie":
                process = "1:1"
            elif deed == "babble":
                sink.write(b"\xff" * 64)
                sink.flush()
        # Traces: no numbers, read by our own reader, no strings, frames and threads, no version.
        say(bytes([0, 0, 2, 0, 0, 0, 0, len(process)]) + process.encode())
"#;

struct Bad {
    readers: StackReaders,
    directory: tempfile::TempDir,
}

fn python3() -> PathBuf {
    let is_3 = |python: &PathBuf| super::workload::version(python).0 == 3;
    pythons().into_iter().find(is_3).unwrap()
}

fn bad(deed: &str, pid: i32) -> Bad {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("helper.py");
    let text = HELPER.replace("VERSION", env!("CARGO_PKG_VERSION"));
    std::fs::write(&script, text).unwrap();
    let source = StackSource::Embedded {
        helper: python3(),
        arguments: vec![script.into(), deed.into(), pid.to_string().into()],
    };
    let readers = StackReaders::new(StackSettings {
        timeout: Duration::from_secs(3),
        max_parallel: 1,
        ..settings(source)
    });
    Bad { readers, directory }
}

fn read(bad: &Bad, ids: &[ProcessId], time: Duration) -> Vec<Read> {
    let wanted: Vec<_> = ids.iter().map(|&id| wanted(id)).collect();
    let read = bad
        .readers
        .read(&wanted, &Numbers::default(), Instant::now() + time);
    assert!(read.iter().map(|(id, _)| id).eq(ids));
    read.into_iter()
        .map(|(_, read)| read.map(|read| read.map(|read| read.stacks)))
        .collect()
}

fn three() -> (Workload, Vec<ProcessId>) {
    let workload = Workload::start(&python3());
    let (before, after) = ("1:1".parse().unwrap(), "2:1".parse().unwrap());
    let ids = vec![before, workload.id, after];
    (workload, ids)
}

#[test]
fn a_process_that_hangs_its_helper_is_timed_out_and_the_others_get_their_stacks() {
    let (workload, ids) = three();
    let bad = bad("hang", workload.id.pid);
    let began = Instant::now();
    let results = read(&bad, &ids, PATIENCE);
    assert!(began.elapsed() < PATIENCE / 2);
    assert!(matches!(results[0], Ok(Some(_))), "{results:?}");
    assert!(matches!(results[2], Ok(Some(_))), "{results:?}");
    let gap = results[1].as_ref().unwrap_err();
    assert_eq!(gap.code, GapCode::TimedOut);
    assert_eq!(gap.process, Some(workload.id));
    let detail = gap.detail.as_deref().unwrap();
    assert!(
        detail.contains("the helper that read it was ended"),
        "{detail}"
    );
    assert_eq!(
        bad.readers.register().pids().len(),
        1,
        "the killed one is gone"
    );
}

#[test]
fn a_process_that_hung_a_helper_is_left_alone_until_its_state_changes() {
    let (workload, ids) = three();
    let bad = bad("hang", workload.id.pid);
    read(&bad, &ids, PATIENCE);
    let helpers = bad.readers.register().pids();
    let results = read(&bad, &ids, PATIENCE);
    assert_eq!(code(&results[1]), GapCode::TimedOut);
    assert_eq!(bad.readers.register().pids(), helpers, "no helper was lost");
    workload.signal(Signal::STOP);
    super::eventually("it stops", || (workload.state() == Some('T')).then_some(()));
    read(&bad, &ids, PATIENCE);
    assert_ne!(bad.readers.register().pids(), helpers, "it was tried again");
}

#[test]
fn the_deadline_of_the_capture_holds_whatever_hangs() {
    let (workload, _) = three();
    let bad = bad("hang", workload.id.pid);
    let began = Instant::now();
    let results = read(&bad, &[workload.id], Duration::from_millis(400));
    assert_eq!(code(&results[0]), GapCode::TimedOut);
    assert!(began.elapsed() < PATIENCE / 2);
}

#[test]
fn a_helper_that_dies_costs_the_process_it_was_in_and_no_other() {
    let (workload, ids) = three();
    let bad = bad("die", workload.id.pid);
    let results = read(&bad, &ids, PATIENCE);
    assert!(matches!(results[0], Ok(Some(_))), "{results:?}");
    assert!(matches!(results[2], Ok(Some(_))), "{results:?}");
    let gap = results[1].as_ref().unwrap_err();
    assert_eq!(gap.code, GapCode::Failed);
    let detail = gap.detail.as_deref().unwrap();
    assert!(detail.ends_with("(exit code 7)"), "{detail}");
}

#[test]
fn a_helper_that_makes_no_sense_is_replaced() {
    for deed in ["lie", "babble"] {
        let (workload, ids) = three();
        let bad = bad(deed, workload.id.pid);
        let results = read(&bad, &ids, PATIENCE);
        assert_eq!(code(&results[1]), GapCode::Failed, "{deed}");
        assert!(matches!(results[2], Ok(Some(_))), "{deed}: {results:?}");
    }
}

#[test]
fn a_process_that_is_not_asked_for_this_time_keeps_its_handle() {
    let bad = bad("nothing", 0);
    let ids: Vec<ProcessId> = ["1:1", "2:1", "3:1"].map(|id| id.parse().unwrap()).to_vec();
    let kept = || std::fs::read_to_string(bad.directory.path().join("helper.py.kept")).unwrap();
    read(&bad, &ids, PATIENCE);
    assert_eq!(kept(), "1:1 2:1 3:1");
    let deadline = Instant::now() + PATIENCE;
    let none = Numbers::default();
    let readers = &bad.readers;
    let results = readers.read_and_keep(&[wanted(ids[0])], &ids[1..2], &none, deadline);
    assert!(matches!(results[0].1, Ok(Some(_))), "{results:?}");
    assert_eq!((results.len(), kept().as_str()), (1, "1:1 2:1"));
    // Nobody is asked, and nobody forgets.
    let results = readers.read_and_keep(&[], &ids[..2], &none, deadline);
    assert_eq!(results.len(), 0);
    read(&bad, &ids[1..2], PATIENCE);
    assert_eq!(kept(), "2:1");
}
