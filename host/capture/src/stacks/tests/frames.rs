//! Our own reader of frames, checked against py-spy, against Python itself, and on processes that never stand still.

use std::path::{Path, PathBuf};

use model::{ProcessId, Step, Trace};
use py_spy::PythonSpy;
use rustix::process::Signal;

use super::eventually;
use super::workload::{RESTLESS_SCRIPT, Workload, pythons, version};
use crate::frames::{Frames, WantedNumbers};
use crate::stacks::convert;
use crate::stacks::image::{self, Image};
use crate::stacks::interpreter::Interpreter;

/// Every shape that a stack can have, each in a thread that stands still.
const SHAPES: &str = r#"
import asyncio, ctypes, os, sys, threading
never = threading.Event()
standing = threading.Semaphore(0)
def park():
    standing.release()
    never.wait()

def plain():
    park()
def recursive(depth):
    return park() if depth == 0 else recursive(depth - 1)
def generator():
    yield 1
    park()
    yield 2
def generators():
    return list(x for x in (y for y in generator()))
async def inner():
    park()
async def outer():
    await inner()
def coroutines():
    asyncio.run(outer())
def lambdas():
    (lambda: (lambda first, *, second=2: park())(1))()
def comprehensions():
    return [[park() for _ in {1}] for _ in {2: 3}]
def executed():
    exec(compile("def from_nowhere():\n\n    park()\nfrom_nowhere()", "<made up>", "exec"), {"park": park})
def sorting():
    sorted([1, 2], key=lambda number: park())
def from_c():
    ctypes.CFUNCTYPE(None)(park)()
def größe_Ω_名():
    park()
class Outer:
    class Inner:
        def method(self):
            def nested():
                park()
            nested()
        def __del__(self):
            pass
        def __init__(self, wait=False):
            if wait:
                park()
def methods():
    Outer.Inner().method()
def initialised():
    for wait in [False] * 100 + [True]:
        Outer.Inner(wait)
def raised():
    try:
        raise ValueError
    except ValueError:
        try:
            raise KeyError
        finally:
            park()
def with_long_lines(a=1,
        b=2):
    return (
        a +
        park(
        ) +
        b)
long = "x" * 3000
exec(compile("def %s():\n    park()" % long, os.path.join("/日本", "ü" * 200 + ".py"), "exec"))

shapes = [plain, lambda: recursive(600), generators, coroutines, lambdas, comprehensions, executed, sorting, from_c,
    größe_Ω_名, methods, initialised, raised, with_long_lines, globals()[long]]
threading.stack_size(1 << 24)
for number, shape in enumerate(shapes):
    name = "shape %d ü名" % number if number % 2 else None
    threading.Thread(target=shape, name=name, daemon=True).start()
for _ in shapes:
    standing.acquire()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
"#;

/// The Pythons whose frames we read ourselves.
fn ours() -> Vec<PathBuf> {
    let known = |python: &PathBuf| ((3, 8)..=(3, 13)).contains(&version(python));
    pythons().into_iter().filter(known).collect()
}

struct Own {
    frames: Frames,
    id: ProcessId,
    scratch: Vec<u8>,
}

impl Own {
    fn open(id: ProcessId) -> Self {
        let (image, _) = Image::of(id).unwrap();
        let interpreter = Interpreter::of(&image).unwrap();
        let runtime = interpreter.runtime.unwrap();
        let frames = Frames::open(id.pid, interpreter.series.1, runtime);
        Self {
            frames: frames.unwrap().unwrap(),
            id,
            scratch: Vec::new(),
        }
    }

    fn read(&mut self, wanted: &WantedNumbers) -> (Vec<Trace>, Vec<Step>) {
        let look = self.frames.read(wanted, &mut self.scratch).unwrap();
        let stat = image::stat(self.id.pid).unwrap();
        let state = |id| self.frames.state(id);
        let (packed, numbers) = convert::pack_look(self.id.pid, &stat, &look, state);
        let traces = packed.unpack(self.id.pid).unwrap();
        let steps = numbers.into_iter().map(|number| number.unpack(&traces));
        let steps = steps.collect::<Option<_>>().unwrap();
        (traces, steps)
    }

    fn traces(&mut self) -> Vec<Trace> {
        self.read(&WantedNumbers::default()).0
    }
}

fn of_py_spy(id: ProcessId) -> Vec<Trace> {
    let config = py_spy::Config {
        blocking: py_spy::config::LockingStrategy::NonBlocking,
        full_filenames: true,
        ..py_spy::Config::default()
    };
    let traces = PythonSpy::new(id.pid, &config).unwrap().get_stack_traces().unwrap();
    let stat = image::stat(id.pid).unwrap();
    convert::pack(id.pid, &stat, traces).unwrap().unpack(id.pid).unwrap()
}

fn stop(workload: &Workload) {
    workload.signal(Signal::STOP);
    eventually("it stops", || (workload.state() == Some('T')).then_some(()));
}

#[test]
fn every_shape_of_a_stack_is_as_py_spy_has_it_frame_by_frame() {
    for python in ours() {
        let workload = Workload::start_script(&python, SHAPES);
        stop(&workload);
        let mut own = Own::open(workload.id);
        let first = own.traces();
        let again = own.traces();
        assert_eq!(first, again, "{}", python.display());
        let mut theirs = of_py_spy(workload.id);
        assert_eq!(first.len(), theirs.len());
        for (ours, theirs) in first.iter().zip(&mut theirs) {
            let about = format!("{} {:?}", python.display(), ours.thread_name);
            if version(&python) < (3, 11) {
                assert_eq!(theirs.os_thread_id, None);
                assert!(ours.os_thread_id.is_some(), "{about}");
                theirs.os_thread_id = ours.os_thread_id;
            }
            assert_eq!(ours.frames.len(), theirs.frames.len(), "{about}");
            for (ours, theirs) in ours.frames.iter().zip(&theirs.frames) {
                assert_eq!(ours, theirs, "{about}");
            }
            assert_eq!(ours, theirs, "{about}");
        }
        let tids = first.iter().map(|trace| trace.os_thread_id.unwrap());
        let tids: std::collections::BTreeSet<u64> = tids.collect();
        assert_eq!(tids.len(), first.len(), "each thread has an id of its own");
        let deep = first.iter().find(|trace| trace.frames.len() > 600).unwrap();
        assert!(deep.frames.iter().filter(|frame| frame.name == "recursive").count() == 601);
    }
}
