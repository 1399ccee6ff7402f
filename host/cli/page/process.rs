//! One process in full.

use std::fmt::Write as _;

use model::{MemoryFacts, Process, Snapshot, Thread, Trace};

use super::text::{bold, safe};
use super::tree::state_words;
use super::{Notes, call, connections, doing, gaps, gpus, process_facts, python, steps, table};
use crate::ui::Ui;

/// Returns the page of `process` of `snapshot`.
pub(crate) fn process(
    snapshot: &Snapshot,
    process: &Process,
    earlier: Option<&Snapshot>,
    ui: Ui,
) -> String {
    let mut page = String::new();
    let notes = Notes::of(snapshot);
    let part = notes.part(process.identity);
    _ = writeln!(
        page,
        "{}  {part}",
        bold(&format!("process {}", process.identity), ui.color)
    );
    facts(&mut page, snapshot, process);
    for note in notes.all(process.identity) {
        _ = writeln!(
            page,
            "  {:<12} {} = {}",
            "note",
            safe(&note.key),
            safe(&note.value.to_string())
        );
    }
    for clock in steps::clocks(snapshot, process, earlier) {
        _ = writeln!(page, "  {:<12} {}", "step", clock.words());
    }
    for (name, value) in connections::locks(snapshot, process.identity) {
        _ = writeln!(page, "  {name:<12} {value}");
    }
    threads(&mut page, process, ui);
    descriptors(&mut page, snapshot, process, ui);
    page.push_str(&gaps::section_of(snapshot, process.identity));
    page
}

fn facts(page: &mut String, snapshot: &Snapshot, process: &Process) {
    let mut fact = |name: &str, value: &str| _ = writeln!(page, "  {name:<12} {value}");
    fact("command", &safe(&process.command));
    fact(
        "executable",
        &process.exe.as_deref().map_or_else(|| "?".to_owned(), safe),
    );
    fact(
        "state",
        &format!("{} ({})", state_words(process.state), process.state),
    );
    fact("parent", &process.ppid.to_string());
    if let Some(words) = python::words(snapshot, process) {
        fact("python", &words);
    }
    if let Some(memory) = &process.memory {
        fact("memory", &memory_words(memory));
    }
    if let (Some(user), Some(system)) = (process.proc.utime_ticks, process.proc.stime_ticks) {
        let second = snapshot.machine.clock_ticks_per_second;
        fact(
            "cpu",
            &format!(
                "{} user, {} system",
                table::ticks(user, second),
                table::ticks(system, second)
            ),
        );
    }
    if let Some(words) = process_facts::scheduling(process) {
        fact("scheduling", &words);
    }
    if let Some(words) = process_facts::identity(snapshot, process) {
        fact("runs as", &words);
    }
    if let Some(words) = gpus::of_process(snapshot, process.identity) {
        fact("gpu", &words);
    }
    for (name, value) in &process.distributed_environment {
        fact("environment", &format!("{}={}", safe(name), safe(value)));
    }
    for redaction in &process.redactions {
        fact(
            "redacted",
            &format!("{} ({})", safe(&redaction.place), safe(&redaction.pattern)),
        );
    }
}

fn memory_words(memory: &MemoryFacts) -> String {
    let mut words = format!("{} resident", table::bytes(memory.rss_bytes));
    for (name, value) in [
        ("anonymous", memory.rss_anon_bytes),
        ("file", memory.rss_file_bytes),
        ("shared", memory.rss_shmem_bytes),
        ("swapped", memory.swap_bytes),
        ("at its peak", memory.peak_rss_bytes),
        ("by its share", memory.pss_bytes),
        ("its own", memory.uss_bytes),
        ("locked", memory.locked_bytes.filter(|&bytes| bytes > 0)),
        (
            "in huge pages",
            memory.hugetlb_bytes.filter(|&bytes| bytes > 0),
        ),
    ] {
        if let Some(value) = value {
            _ = write!(words, ", {} {name}", table::bytes(value));
        }
    }
    words
}

fn threads(page: &mut String, process: &Process, ui: Ui) {
    let traces = process
        .pyspy
        .as_ref()
        .map(|stacks| stacks.traces.as_slice())
        .unwrap_or_default();
    let mut shown = vec![false; traces.len()];
    for thread in &process.proc.threads {
        let index = traces
            .iter()
            .position(|trace| trace.os_thread_id == u64::try_from(thread.tid).ok());
        if let Some(index) = index {
            shown[index] = true;
        }
        _ = writeln!(
            page,
            "\n{}",
            bold(
                &thread_title(thread, index.map(|index| &traces[index])),
                ui.color
            )
        );
        frames(page, index.map(|index| &traces[index]));
        for line in &thread.kernel_stack {
            _ = writeln!(page, "    kernel  {}", safe(line));
        }
    }
    // Older interpreters do not tell the kernel's thread id.
    for (trace, _) in traces.iter().zip(shown).filter(|(_, shown)| !shown) {
        let name = trace.thread_name.as_deref().unwrap_or("without a name");
        let gil = if trace.owns_gil {
            "  holds the GIL"
        } else {
            ""
        };
        let title = format!("Python thread {} (kernel thread unknown){gil}", safe(name));
        _ = writeln!(page, "\n{}", bold(&title, ui.color));
        frames(page, Some(trace));
    }
}

fn thread_title(thread: &Thread, trace: Option<&Trace>) -> String {
    let name = trace
        .and_then(|trace| trace.thread_name.as_deref())
        .or(thread.comm_escaped.as_deref())
        .or(thread.comm.as_deref())
        .unwrap_or("?");
    let mut title = format!("thread {}  {}", thread.tid, safe(name));
    if let Some(state) = thread.state {
        _ = write!(title, "  {}", state_words(state));
    }
    if let Some(wchan) = thread.wchan.as_deref().filter(|wchan| *wchan != "0") {
        _ = write!(title, " in {}", safe(wchan));
    }
    if let Some(call) = &thread.call {
        _ = write!(title, "  {}", call::call(call));
    } else if let Some(syscall) = &thread.syscall {
        _ = write!(
            title,
            "  system call {}",
            safe(syscall.split(' ').next().unwrap_or("?"))
        );
    }
    if trace.is_some_and(|trace| trace.owns_gil) {
        title.push_str("  holds the GIL");
    }
    title
}

fn frames(page: &mut String, trace: Option<&Trace>) {
    for frame in trace
        .map(|trace| trace.frames.as_slice())
        .unwrap_or_default()
    {
        _ = writeln!(
            page,
            "    {}  {}",
            doing::frame(frame),
            safe(&frame.filename)
        );
    }
}

fn descriptors(page: &mut String, snapshot: &Snapshot, process: &Process, ui: Ui) {
    if process.proc.file_descriptors.is_empty() {
        return;
    }
    _ = writeln!(page, "\n{}", bold("descriptors", ui.color));
    for descriptor in &process.proc.file_descriptors {
        _ = write!(page, "  {:>5}  {}", descriptor.fd, safe(&descriptor.target));
        if let Some(words) = connections::descriptor(snapshot, process, &descriptor.fd) {
            _ = write!(page, "  ({words})");
        }
        page.push('\n');
    }
}
