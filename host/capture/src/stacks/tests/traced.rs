//! A process that another one traces, such as a debugger: we do not have to trace it ourselves to read it.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use model::ProcessId;

use super::workload::{pythons, version};
use super::{embedded, eventually, read_one};
use testkit::process_state;

/// Seizes and stops the process that it is told, and holds it until its own input ends.
const TRACER: &str = r"
import ctypes, sys
lib = ctypes.CDLL(None, use_errno=True)
lib.ptrace.argtypes = [ctypes.c_long] * 4
pid = int(sys.argv[1])
SEIZE, INTERRUPT = 0x4206, 0x4207
assert lib.ptrace(SEIZE, pid, 0, 0) == 0, ctypes.get_errno()
assert lib.ptrace(INTERRUPT, pid, 0, 0) == 0, ctypes.get_errno()
sys.stdin.read()
";

const TARGET: &str = "
import sys
def held_by_a_debugger():
    sys.stdin.read()
held_by_a_debugger()
";

/// It is killed with the value.
struct Started(Child);

impl Started {
    fn new(code: &str, argument: &str) -> Self {
        let python = pythons().into_iter().find(|one| version(one).0 == 3);
        let mut command = Command::new(python.unwrap());
        command.args(["-c", code, argument]).stdin(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_a_debugger_holds_has_its_stacks() {
    let target = Started::new(TARGET, "");
    let machine = crate::Machine::local(super::settings(crate::StackSource::Off));
    let id: ProcessId = machine.identify(target.pid()).unwrap();
    let readers = embedded();
    // Traced only when it is where its stack is known.
    let has_frame = || {
        let stacks = read_one(&readers, id).ok()??;
        let mut frames = stacks.traces.iter().flat_map(|trace| &trace.frames);
        let found = frames.any(|frame| frame.name == "held_by_a_debugger");
        found.then_some(())
    };
    eventually("it waits", has_frame);
    let tracer = Started::new(TRACER, &target.pid().to_string());
    let is_held = || process_state(target.pid()) == Some('t');
    // Only root, or who may trace others, can be a debugger of a process that is no child.
    let held = eventually("it is held", || {
        let ended = process_state(tracer.pid()).is_none_or(|state| state == 'Z');
        (is_held() || ended).then(is_held)
    });
    if !held {
        writeln!(std::io::stderr(), "skipped: nobody may be traced here").unwrap();
        return;
    }
    eventually("its stack is read while it is held", has_frame);
    assert_eq!(process_state(target.pid()), Some('t'));
}
