//! Our own reader of frames, checked against py-spy, against Python itself, and on processes that never stand still.

use std::path::{Path, PathBuf};
use std::time::Instant;

use model::{ProcessId, StackSourceName, Step, Trace};
use py_spy::PythonSpy;
use rustix::process::Signal;
use testkit::DEADLINE;

use super::workload::{RESTLESS_SCRIPT, Workload, pythons, version};
use super::{eventually, helper_program, read_one, settings};
use crate::StackSource;
use crate::frames::{Frames, Look, Trouble, WantedNumbers};
use crate::stacks::image::{self, Image};
use crate::stacks::interpreter::Interpreter;
use crate::stacks::{StackReaders, convert};

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
        Self::open_with(id, Frames::open)
    }

    /// As where the system call is barred.
    fn open_by_file(id: ProcessId) -> Self {
        Self::open_with(id, Frames::open_by_file)
    }

    fn open_with(
        id: ProcessId,
        open: impl Fn(i32, u64, u64) -> Result<Option<Frames>, Trouble>,
    ) -> Self {
        let (image, _) = Image::of(id).unwrap();
        let memory = std::fs::File::open(format!("/proc/{}/mem", id.pid)).unwrap();
        let interpreter = Interpreter::of(&image, &memory).unwrap();
        let runtime = interpreter.runtime.unwrap();
        let frames = open(id.pid, interpreter.series.1, runtime);
        Self {
            frames: frames.unwrap().unwrap(),
            id,
            scratch: Vec::new(),
        }
    }

    fn read(&mut self, wanted: &WantedNumbers) -> (Vec<Trace>, Vec<Step>) {
        let look = self.frames.read(wanted, &mut self.scratch).unwrap();
        self.unpack(&look)
    }

    fn unpack(&mut self, look: &Look) -> (Vec<Trace>, Vec<Step>) {
        let stat = image::stat(self.id.pid).unwrap();
        let state = |id| self.frames.state(id);
        let (packed, numbers) = convert::pack_look(self.id.pid, &stat, look, state);
        let traces = packed.unpack(self.id.pid).unwrap();
        let steps = numbers.into_iter().map(|number| number.unpack(&traces));
        let steps = steps.collect::<Option<_>>().unwrap();
        (traces, steps)
    }

    fn try_traces(&mut self) -> Option<Vec<Trace>> {
        let look = self
            .frames
            .read(&WantedNumbers::default(), &mut self.scratch);
        let look = look.ok()?;
        Some(self.unpack(&look).0)
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
    let traces = PythonSpy::new(id.pid, &config)
        .unwrap()
        .get_stack_traces()
        .unwrap();
    let stat = image::stat(id.pid).unwrap();
    convert::pack(id.pid, &stat, traces)
        .unwrap()
        .unpack(id.pid)
        .unwrap()
}

/// Stops it and waits for each thread: they stop one by one, each when it is given a processor.
fn stop(workload: &Workload) {
    workload.signal(Signal::STOP);
    let state = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read(task.ok()?.path().join("stat")).ok()?;
        crate::proc::stat::parse(&stat).map(|stat| stat.state)
    };
    eventually("all its threads stop", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", workload.id.pid)).unwrap();
        let mut states = tasks.map(state);
        states.all(|state| state == Some('T')).then_some(())
    });
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
        assert!(
            deep.frames
                .iter()
                .filter(|frame| frame.name == "recursive")
                .count()
                == 601
        );
    }
}

#[test]
fn the_file_of_the_memory_gives_the_same_stacks_as_the_system_call() {
    for python in ours() {
        let workload = Workload::start_script(&python, SHAPES);
        stop(&workload);
        let by_call = Own::open(workload.id).traces();
        let by_file = Own::open_by_file(workload.id).traces();
        assert_eq!(by_call, by_file, "{}", python.display());
    }
}

#[test]
fn a_helper_behind_a_filter_of_system_calls_reads_by_the_file() {
    let filtered = ["-c", testkit::FILTERED].map(Into::into);
    let arguments = filtered.into_iter().chain([helper_program().into()]);
    let source = StackSource::Embedded {
        helper: "python3".into(),
        arguments: arguments.collect(),
    };
    let readers = StackReaders::new(settings(source));
    for python in ours() {
        let workload = Workload::start(&python);
        eventually("both threads wait", || {
            let stacks = read_one(&readers, workload.id).unwrap().unwrap();
            assert_eq!(stacks.source, StackSourceName::Own);
            let both = ["main_waits", "worker_waits"]
                .iter()
                .all(|function| workload.find(&stacks.traces, function).is_some());
            both.then_some(())
        });
    }
}

/// Functions that are known by their first and last line; all lines of the script that begin with `def` or a blank.
fn functions(script: &str) -> Vec<(String, std::ops::RangeInclusive<i32>)> {
    let mut functions: Vec<(String, std::ops::RangeInclusive<i32>)> = Vec::new();
    for (number, line) in (1..).zip(script.lines()) {
        if let Some(rest) = line.strip_prefix("def ") {
            let name = rest.split('(').next().unwrap();
            functions.push((name.to_owned(), number..=number));
        } else if line.starts_with(' ')
            && let Some((_, lines)) = functions.last_mut()
        {
            *lines = *lines.start()..=number;
        }
    }
    functions
}

#[test]
fn of_a_process_that_never_stands_still_no_frame_is_invented() {
    let functions = functions(RESTLESS_SCRIPT);
    let last_line = i32::try_from(RESTLESS_SCRIPT.lines().count()).unwrap();
    for python in ours() {
        let workload = Workload::start_script(&python, RESTLESS_SCRIPT);
        let script = workload.script.to_str().unwrap();
        let mut own = Own::open(workload.id);
        let (mut read, mut frames) = (0, 0);
        let until = Instant::now() + DEADLINE;
        while read < 150 && Instant::now() < until {
            let Some(traces) = own.try_traces() else {
                continue;
            };
            read += 1;
            let of_script = traces.iter().flat_map(|trace| &trace.frames);
            for frame in of_script.filter(|frame| frame.filename == script) {
                frames += 1;
                let is_real = match frame.name.as_str() {
                    "<module>" => (1..=last_line).contains(&frame.line),
                    name => functions
                        .iter()
                        .any(|(function, lines)| function == name && lines.contains(&frame.line)),
                };
                assert!(is_real, "{}: {frame:?}", python.display());
            }
            let outside = traces.iter().flat_map(|trace| &trace.frames);
            let mut outside = outside.filter(|frame| frame.filename != script);
            // A thread that begins puts itself into a set of weak references.
            let is_known =
                |file: &str| file.ends_with("/threading.py") || file.ends_with("/_weakrefset.py");
            assert!(
                outside.all(|frame| is_known(&frame.filename) && frame.line > 0),
                "{}: {traces:?}",
                python.display()
            );
        }
        assert!(
            read >= 20 && frames > read, // on a busy machine most attempts are torn
            "{}: {read} {frames}",
            python.display()
        );
    }
}

/// A main module and a function with numbers of every kind, and with what is none.
const NUMBERS: &str = r#"
import sys, threading
step = 1 << 40
loss = -0.25
text, flag, nothing, items = "secret", True, None, [7]
class Number(int):
    pass
def train(epoch, unset=None):
    big, negative, zero, huge, largest = 2 ** 63, -(2 ** 63), 0, 2 ** 64, 2 ** 64 - 1
    ratio, endless, name, derived, shared = 0.5, float("inf"), "secret", Number(5), 9
    del unset
    (lambda: shared)()
    started.set()
    threading.Event().wait()
def elsewhere():
    exec(compile("def other(step):\n    started.set()\n    threading.Event().wait()\nother(77)",
        "/opt/pkg/deep/other.py", "exec"), {"started": started, "threading": threading})
started = threading.Semaphore(0)
started.set = started.release
threading.Thread(target=train, args=(3,), daemon=True).start()
threading.Thread(target=elsewhere, daemon=True).start()
started.acquire()
started.acquire()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
"#;

/// Every name of `NUMBERS`, and one that is nowhere.
const NAMES: [&str; 19] = [
    "step", "loss", "text", "flag", "nothing", "items", "epoch", "unset", "big", "negative",
    "zero", "huge", "largest", "ratio", "endless", "name", "derived", "shared", "nowhere",
];

/// Names and values of the numbers of `function`, sorted.
fn numbers_of(steps: &[Step], function: &str) -> Vec<(String, String)> {
    let of_function = steps.iter().filter(|step| step.function == function);
    let mut numbers: Vec<_> = of_function
        .map(|step| (step.name.clone(), step.value.to_string()))
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn numbers_are_exact_and_nothing_but_numbers_is_read() {
    let names = NAMES.map(str::to_owned);
    let of = numbers_of;
    let expected = |numbers: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = numbers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    };
    let of_train = [
        ("big", "9223372036854775808"),
        ("epoch", "3"),
        ("largest", "18446744073709551615"),
        ("negative", "-9223372036854775808"),
        ("ratio", "0.5"),
        ("zero", "0"),
    ];
    for python in ours() {
        let workload = Workload::start_script(&python, NUMBERS);
        let mut own = Own::open(workload.id);
        let about = python.display();
        let (_, steps) = own.read(&WantedNumbers::new(&names, &[]));
        assert_eq!(of(&steps, "train"), expected(&of_train), "{about}");
        let of_module = [("loss", "-0.25"), ("step", "1099511627776")];
        assert_eq!(of(&steps, "<module>"), expected(&of_module), "{about}");
        assert_eq!(
            of(&steps, "other"),
            [],
            "{about}: no file that was asked for"
        );
        assert!(
            steps
                .iter()
                .all(|step| Path::new(&step.file) == workload.script)
        );
        assert!(
            steps
                .iter()
                .all(|step| step.thread_id.is_some() && step.line > 0)
        );

        own.frames.forget();
        let (_, steps) = own.read(&WantedNumbers::new(&names, &["pkg/**/*.py".to_owned()]));
        assert_eq!(of(&steps, "other"), expected(&[("step", "77")]), "{about}");
        own.frames.forget();
        let (_, steps) = own.read(&WantedNumbers::new(&names[..1], &["other.p".to_owned()]));
        assert_eq!(
            of(&steps, "other"),
            [],
            "{about}: a pattern is the whole end of a path"
        );
        let main = steps
            .iter()
            .find(|step| step.function == "<module>")
            .unwrap();
        assert_eq!(main.thread_id, u64::try_from(workload.id.pid).ok());
    }
}

/// Counts up, as fast as it can, and never holds anything but a multiple of 3 between a million and two.
const COUNTS: &str = r#"
import sys
def count():
    while True:
        for i in range(1000002, 2000000, 3):
            step = i
sys.stdout.write("ready\n")
sys.stdout.flush()
count()
"#;

#[test]
fn a_number_that_changes_all_the_time_is_one_that_was_there() {
    for python in ours() {
        let workload = Workload::start_script(&python, COUNTS);
        let mut own = Own::open(workload.id);
        let wanted = WantedNumbers::new(&["step".to_owned()], &[]);
        let read = eventually("some numbers are read", || {
            let steps = (0..200).flat_map(|_| own.read(&wanted).1);
            let values: Vec<u64> = steps.map(|step| step.value.as_u64().unwrap()).collect();
            (values.len() > 5).then_some(values)
        });
        let is_one =
            |value: &u64| value.is_multiple_of(3) && (1_000_002..2_000_000).contains(value);
        assert!(read.iter().all(is_one), "{}: {read:?}", python.display());
    }
}

/// Prints, of every function of some modules and of odd sources: the first line, the table, and line ranges as Python
/// itself reads them, 0 for none.
const LINE_TABLES: &str = r#"
import dis, inspect, sys, types
import argparse, asyncio.base_events, decimal, difflib, typing
odd = [
    "x = 1\n" + "\n" * 400 + "y = (1 +\n\n 2)\n" + "\n" * 70000 + "def f(\n a=1,\n *b): return [\n i for i in\n b if i]\n",
    "def f():\n try:\n  a()\n except (B,\n   C) as e:\n  raise D from e\n finally:\n  with g() as h,\\\n    i() as j: pass\n",
    "async def f():\n async for a in b:\n  await (c\n   (d))\n yield 1\n",
    "if 1:" + "\n a = [\n" + "".join(" %d,\n" % n for n in range(700)) + " b]\n",
]
def lines(code):
    if sys.version_info >= (3, 10):
        return [(start, end, line or 0) for start, end, line in code.co_lines() if start < end]
    starts = list(dis.findlinestarts(code))
    ends = [start for start, _ in starts[1:]] + [len(code.co_code)]
    return [(start, end, line) for (start, line), end in zip(starts, ends)]
def show(code):
    table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
    ranges = " ".join("%d-%d:%d" % range for range in lines(code))
    print(code.co_firstlineno, table.hex() or "-", ranges)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            show(constant)
for text in odd + [inspect.getsource(sys.modules[name]) for name in
        ("argparse", "asyncio.base_events", "difflib", "typing", "inspect")]:
    show(compile(text, "odd", "exec"))
"#;

#[test]
fn every_line_of_every_instruction_is_the_one_that_python_itself_tells() {
    use crate::frames::line_for_tests as line;
    for python in ours() {
        let output = std::process::Command::new(&python)
            .args(["-c", LINE_TABLES])
            .output()
            .unwrap();
        let minor = u64::from(version(&python).1);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut count = 0;
        for function in text.lines() {
            let mut parts = function.splitn(3, ' ');
            let first_line = parts.next().unwrap().parse().unwrap();
            let digits = parts.next().unwrap().trim_matches('-').as_bytes().chunks(2);
            let byte =
                |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            let table: Vec<u8> = digits.map(byte).collect();
            for range in parts.next().unwrap().split(' ') {
                let (start, rest) = range.split_once('-').unwrap();
                let (end, expected) = rest.split_once(':').unwrap();
                let (start, end): (i32, i32) = (start.parse().unwrap(), end.parse().unwrap());
                let expected: i32 = expected.parse().unwrap();
                for offset in [start, end - 1] {
                    let line = line(minor, &table, first_line, offset).unwrap_or(0);
                    assert_eq!(
                        line,
                        expected,
                        "{}: {offset} of {function}",
                        python.display()
                    );
                    count += 1;
                }
            }
        }
        assert!(count > 10_000, "{}: {count}", python.display());
    }
}
