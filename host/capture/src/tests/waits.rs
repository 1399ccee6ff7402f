//! Waits whose meaning is in the memory of the process, or that a 32-bit program waits in.

use std::process::Command;

use model::{CallTimeout, FutexOwnerSource, Snapshot, SystemCall};

use super::connections::{Job, futex_of};
use super::explained::{look_until, waits_in};
use super::live::Started;
use super::{local, process, skipped};

fn call_of(snapshot: &Snapshot, pid: i32) -> Option<SystemCall> {
    let thread = process(snapshot, pid).proc.threads.first()?;
    thread.call.clone()
}

#[test]
fn a_select_names_the_descriptors_of_all_its_sets() {
    let job = Job::start(
        "import select
a, b, c = os.pipe()[0], os.pipe()[0], os.pipe()[0]
for fd, to in (a, 20), (b, 21), (c, 100): os.dup2(fd, to)
select.select([20, 100], [], [21])",
    );
    let (call, _) = job.until(|snapshot| {
        let call = call_of(snapshot, job.pid())?;
        (call.fds.len() == 3).then_some(call)
    });
    assert_eq!(call.fds, [20, 21, 100]);
    assert_eq!(call.timeout, Some(CallTimeout::Infinite));
    assert!(call.name.ends_with("select") || call.name == "pselect6");
}

/// Waits for a word that says that this thread holds it, and for another.
const SEVERAL: &str = "words = (ctypes.c_uint32 * 2)(0x80000000 | threading.get_native_id(), 5)
first = ctypes.addressof(words)
vector = (ctypes.c_uint64 * 6)(words[0], first, 0x82, words[1], first + 4, 2)
lib.syscall(449, vector, 2, 0, None, 0)
os._exit(3)";

#[test]
fn each_of_several_futexes_that_are_waited_for_at_once_is_told_with_its_owner() {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    if version < (5, 16) {
        return skipped("this kernel has no futex_waitv");
    }
    let job = Job::start(SEVERAL);
    let (futexes, _) = job.until(|snapshot| {
        let futexes = snapshot.ipc.futexes.iter();
        let futexes: Vec<_> = futexes
            .filter(|one| one.operation == "waitv")
            .cloned()
            .collect();
        (futexes.len() == 2).then_some(futexes)
    });
    let [lock, other] = &futexes[..] else {
        unreachable!()
    };
    let tid = job.pid();
    assert_eq!((lock.owner_tid, lock.private), (Some(tid), true));
    assert_eq!(lock.owner_source, Some(FutexOwnerSource::RobustWord));
    assert_eq!(lock.value, Some(0x8000_0000 | tid.cast_unsigned()));
    assert_eq!((lock.expected, &lock.waiters), (lock.value, &vec![tid]));
    assert_eq!((other.value, other.expected), (Some(5), Some(5)));
    assert_eq!((other.owner_tid, other.private), (None, false));
}

/// Waits, without any library, for a mutex as glibc has it and that it holds itself, or for descriptors.
const NARROW: &str = "
static long call(long n, long a, long b, long c, long d, long e) {
    long result;
    __asm__ volatile(\"int $0x80\" : \"=a\"(result) : \"a\"(n), \"b\"(a), \"c\"(b), \"d\"(c), \"S\"(d), \"D\"(e) : \"memory\");
    return result;
}
static int mutex[3];
static long set[32], ends[2];
void _start(void) {
    mutex[0] = 2;
    mutex[2] = call(20, 0, 0, 0, 0, 0);
    call(42, (long)ends, 0, 0, 0, 0);
    int end = ((int *)ends)[0];
    set[end / 32] = 1l << end % 32;
    for (;;)
        SELECT ? call(142, end + 1, (long)set, 0, 0, 0) : call(240, (long)mutex, 128, 2, 0, 0);
}
";

/// A 32-bit program that waits in one of two calls; none where this machine makes or runs no such program.
fn narrow(select: bool) -> Option<Started> {
    if cfg!(not(target_arch = "x86_64")) {
        skipped("the program is one of x86");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (
        directory.path().join("narrow.c"),
        directory.path().join("narrow"),
    );
    std::fs::write(&source, NARROW).unwrap();
    let mut command = Command::new("cc");
    command.args([
        "-m32",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-fno-pie",
        "-fno-stack-protector",
    ]);
    command.arg(format!("-DSELECT={}", u8::from(select)));
    let made = command.arg("-o").args([&program, &source]).status();
    if !made.is_ok_and(|status| status.success()) {
        skipped("no compiler of 32-bit programs");
        return None;
    }
    // A kernel without them refuses the exec.
    let probe = Command::new("timeout").arg("0.1").arg(&program).status();
    if probe.unwrap().code() != Some(124) {
        skipped("this kernel runs no 32-bit programs");
        return None;
    }
    let started = Started::new(&mut Command::new(&program));
    Some(started)
}

#[test]
fn a_lock_of_a_32_bit_program_is_told_with_its_owner() {
    let Some(child) = narrow(false) else { return };
    let snapshot = look_until(&local(), child.pid(), waits_in("futex"));
    let futex = futex_of(&snapshot, child.pid()).unwrap();
    assert_eq!((futex.operation.as_str(), futex.private), ("wait", true));
    assert_eq!((futex.value, futex.expected), (Some(2), Some(2)));
    assert_eq!(futex.owner_tid, Some(child.pid()));
    assert_eq!(futex.owner_source, Some(FutexOwnerSource::MutexField));
}

#[test]
fn a_select_of_a_32_bit_program_names_its_descriptors() {
    let Some(child) = narrow(true) else { return };
    let snapshot = look_until(&local(), child.pid(), waits_in("_newselect"));
    let call = call_of(&snapshot, child.pid()).unwrap();
    let process = process(&snapshot, child.pid());
    let pipes = process.proc.file_descriptors.iter();
    let pipe = pipes.rfind(|one| one.target.starts_with("pipe:")).unwrap();
    let read_end = pipe.fd.parse::<i32>().unwrap() - 1;
    assert_eq!(call.fds, [read_end]);
}
