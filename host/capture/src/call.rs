//! A line of `/proc/PID/task/TID/syscall` in words: the name of the call and what of its arguments explains a wait.
//!
//! Arguments are numbers as they stood in registers. What they point to is in the memory of the target and is not read
//! here; paths are read by `ipc`, where what can block is.

mod operation;
mod table;

use model::{CallTimeout, FileDescriptor, SystemCall, Thread};

use table::Abi;

/// Returns the call of `line`, of a thread whose process has `start_stack` in its `stat`. Nothing for `running` and `-1`, and where the
/// number or the kind of program is not known.
pub(crate) fn decode(line: &str, start_stack: u64) -> Option<SystemCall> {
    let registers = Registers::parse(line)?;
    let abi = table::native(start_stack, registers.stack_pointer())?;
    describe(abi, &registers)
}

/// Returns an argument of a call that `thread` waits in, counted from 0, as it stood in its register.
pub(crate) fn argument(thread: &Thread, index: usize) -> Option<u64> {
    let line = thread.syscall.as_deref()?;
    let word = line.split_ascii_whitespace().nth(1 + index)?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Returns the lower half of such an argument, which is all that the kernel looks at where it is an `int`.
pub(crate) fn narrow_argument(thread: &Thread, index: usize) -> Option<u32> {
    let low = argument(thread, index)? & u64::from(u32::MAX);
    u32::try_from(low).ok()
}

/// Adds to each call the target of the descriptor that it works on; `descriptors` are in numeric order.
pub(crate) fn name_targets(threads: &mut [Thread], descriptors: &[FileDescriptor]) {
    let number = |descriptor: &FileDescriptor| descriptor.fd.parse::<i32>().unwrap_or(i32::MAX);
    for call in threads.iter_mut().filter_map(|thread| thread.call.as_mut()) {
        let Some(fd) = call.fd else { continue };
        if let Ok(at) = descriptors.binary_search_by_key(&fd, number) {
            call.fd_target = Some(descriptors[at].target.clone());
        }
    }
}

/// The number of a call and its arguments, as far as the line has them.
struct Registers {
    number: u32,
    words: Vec<u64>,
}

impl Registers {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let hexadecimal = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let words: Option<Vec<u64>> = words.map(hexadecimal).collect();
        Some(Self {
            number,
            words: words?,
        })
    }

    /// Behind six arguments.
    fn stack_pointer(&self) -> Option<u64> {
        self.words.get(6).copied()
    }

    fn word(&self, index: usize) -> Option<u64> {
        self.words.get(index).copied().filter(|_| index < 6)
    }

    /// The lower half, which is all that the kernel looks at where the argument is an `int`.
    fn unsigned(&self, index: usize) -> Option<u32> {
        let low = self.word(index)? & u64::from(u32::MAX);
        u32::try_from(low).ok()
    }

    fn signed(&self, index: usize) -> Option<i32> {
        self.unsigned(index).map(u32::cast_signed)
    }

    /// A pointer to a time: none is for ever.
    fn time(&self, index: usize) -> Option<CallTimeout> {
        Some(match self.word(index)? {
            0 => CallTimeout::Infinite,
            _ => CallTimeout::Set,
        })
    }
}

fn describe(abi: Abi, registers: &Registers) -> Option<SystemCall> {
    let name = table::name(abi, registers.number)?;
    let mut call = SystemCall {
        name: name.to_owned(),
        ..SystemCall::default()
    };
    // Of a 32-bit machine, the form with 64-bit times; the arguments have the same places.
    let plain = name.strip_suffix("_time64").unwrap_or(name);
    if operation::works_on_first_descriptor(plain) {
        call.fd = registers.signed(0);
    }
    match plain {
        "futex" => futex(&mut call, registers),
        "futex_wait" => {
            call.address = registers.word(0).map(|address| format!("{address:#x}"));
            call.timeout = registers.time(4);
        }
        "futex_waitv" | "semtimedop" | "epoll_pwait2" => call.timeout = registers.time(3),
        "poll" => milliseconds(&mut call, registers.signed(2)),
        "epoll_wait" | "epoll_pwait" => milliseconds(&mut call, registers.signed(3)),
        "ppoll" | "rt_sigtimedwait" => call.timeout = registers.time(2),
        // The old call of x86 has all its arguments behind one pointer.
        "select" if abi == Abi::X86 => {}
        "select" | "_newselect" | "pselect6" | "recvmmsg" | "mq_timedreceive" | "mq_timedsend"
        | "io_getevents" | "io_pgetevents" => call.timeout = registers.time(4),
        "nanosleep" => call.timeout = Some(CallTimeout::Set),
        "clock_nanosleep" => {
            call.timeout = Some(CallTimeout::Set);
            let arguments = registers.signed(0).zip(registers.unsigned(1));
            call.operation = arguments.map(|(clock, flags)| operation::sleep(clock, flags));
        }
        "pause" | "rt_sigsuspend" | "semop" => call.timeout = Some(CallTimeout::Infinite),
        "wait4" | "waitpid" => call.waits_for = registers.signed(0),
        "waitid" => waitid(&mut call, registers),
        "fcntl" | "fcntl64" => call.operation = registers.unsigned(1).map(operation::fcntl),
        "open" => call.operation = registers.unsigned(1).map(operation::open),
        "openat" => call.operation = registers.unsigned(2).map(operation::open),
        "flock" => call.operation = registers.unsigned(1).map(operation::flock),
        "ioctl" => call.operation = registers.unsigned(1).map(|request| format!("{request:#x}")),
        _ => {}
    }
    Some(call)
}

fn futex(call: &mut SystemCall, registers: &Registers) {
    call.address = registers.word(0).map(|address| format!("{address:#x}"));
    let Some(number) = registers.unsigned(1) else {
        return;
    };
    call.operation = Some(operation::futex(number));
    // Of the others, the argument is a number and no time.
    if operation::futex_waits(number) {
        call.timeout = registers.time(3);
    }
}

fn milliseconds(call: &mut SystemCall, timeout: Option<i32>) {
    call.timeout_ms = timeout.and_then(|timeout| u32::try_from(timeout).ok());
    call.timeout = timeout.map(|_| match call.timeout_ms {
        Some(_) => CallTimeout::Set,
        None => CallTimeout::Infinite,
    });
}

fn waitid(call: &mut SystemCall, registers: &Registers) {
    match (registers.unsigned(0), registers.signed(1)) {
        (Some(0), _) => call.waits_for = Some(-1),
        (Some(1), id) => call.waits_for = id,
        (Some(2), id) => call.waits_for = id.map(i32::wrapping_neg),
        (Some(3), id) => call.fd = id,
        _ => {}
    }
}

#[cfg(test)]
mod tests;
