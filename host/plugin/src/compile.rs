//! What a compiler process runs: a component on standard input, its machine code on standard output, one word about it
//! on standard error. A process, because a compiler keeps the memory that it once took, and a hostile component may
//! take any amount of time and memory.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::compiler::CompileLimits;
use crate::text::one_line;
use crate::{engine, limits};

/// The name of a compiler in `ps` and `top`; 15 bytes at most.
const NAME: &std::ffi::CStr = c"taskscope-wasm";

/// Begins a line on standard error before the last: milliseconds of CPU time used.
pub(crate) const USED: &str = "CPU time, ms: ";
/// The last line on standard error when all went well.
pub(crate) const COMPILED: &str = "compiled";
/// The last line on standard error when the CPU time was used up.
pub(crate) const OUT_OF_TIME: &str = "out of time";
/// Begins the last line on standard error when the component is at fault.
pub(crate) const REFUSED: &str = "refused: ";
/// Begins the last line on standard error when the code could not be kept.
pub(crate) const UNWRITTEN: &str = "unwritten: ";

/// How often the time is looked at.
const BEAT: Duration = Duration::from_millis(250);

/// Compiles the component on the standard input of this process, for the hidden command that [`crate::Compiler`] names.
/// What came of it is the last line on standard error and not the exit status, which anybody may reap. **Ends this
/// process** when nobody reads its standard error any more: then whoever asked is gone.
pub fn compile_plugin(limits: CompileLimits) {
    settle(limits);
    std::thread::spawn(move || keep_within(limits.cpu));
    let word = compile().err().unwrap_or_else(|| COMPILED.to_owned());
    say(&word);
}

/// Says the last word, after what all this has cost: once this process has ended, nobody may be able to ask.
fn say(word: &str) {
    let used = cpu_time().unwrap_or_default().as_millis();
    let _ = writeln!(std::io::stderr(), "\n{USED}{used}\n{word}");
}

fn compile() -> Result<(), String> {
    let refused = |reason: &str| format!("{REFUSED}{}", one_line(reason, limits::TEXT_BYTES));
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock();
    let read = input.take(limits::COMPONENT_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| refused(&error.to_string()))?;
    let engine = engine::engine().map_err(|error| refused(&error.root_cause().to_string()))?;
    let code = engine
        .precompile_component(&bytes)
        .map_err(|error| refused(&error.root_cause().to_string()))?;
    let unwritten = |error: std::io::Error| format!("{UNWRITTEN}{error}");
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    File::from(output.map_err(unwritten)?)
        .write_all(&code)
        .map_err(unwritten)
}

/// Makes this process less important than all others. Where the kernel refuses, the parent's deadline remains.
fn settle(limits: CompileLimits) {
    let _ = rustix::process::nice(limits.nice.into());
    let _ = rustix::thread::set_name(NAME);
    let _ = std::env::set_current_dir("/");
    // Where memory runs out, it is this process that the kernel ends, and not the task.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    bound(Resource::As, limits.memory_bytes);
    bound(Resource::Cpu, limits.cpu.as_secs() + 5); // the end of `keep_within` comes first, and says why
    bound(Resource::Core, 0);
}

/// Bounds `resource`, where no lower bound is set already.
fn bound(resource: Resource, most: u64) {
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let most = Some(most.min(allowed));
    let _ = setrlimit(
        resource,
        Rlimit {
            current: most,
            maximum: most,
        },
    );
}

/// Ends this process when its time is used up, or when nobody reads its words any more.
#[expect(clippy::exit, reason = "the main thread is in the compiler")]
fn keep_within(cpu: Duration) {
    let words = std::io::stderr();
    loop {
        // Without events asked for, only the end of the other side is one.
        let mut ends = [PollFd::new(&words, PollFlags::empty())];
        match helper::wait_for_any(&mut ends, Instant::now() + BEAT) {
            Ok(false) => {}
            _ => std::process::exit(1),
        }
        if cpu_time().is_some_and(|used| used > cpu) {
            say(OUT_OF_TIME);
            std::process::exit(1);
        }
    }
}

/// Returns the CPU time that this process has used, from `/proc/self/stat`.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks = (user + system) * 1_000 / rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks))
}
