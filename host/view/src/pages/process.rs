//! One process at one instant, in full: its threads with their stacks, what it waits for, its memory, descriptors, limits,
//! environment, and what could not be seen.

use maud::{Markup, html};
use model::{
    Gap, MemoryFacts, Process, ProcessId, Snapshot, SystemCall, Thread, Trace, code_words,
    size_words, state_words,
};
use store::Place;

use super::layout::{Depth, layout, to_run};
use super::processes::waits;
use crate::answer::Trouble;
use crate::digest::short;
use crate::query::Query;
use crate::view::View;
use crate::work::Work;

/// Threads, descriptors and frames that are shown.
const THREADS: usize = 256;
const DESCRIPTORS: usize = 1000;
const FRAMES: usize = 200;

/// Returns the page.
pub(crate) async fn process(view: &View, query: &Query) -> Result<Markup, Trouble> {
    let identity = query
        .process
        .ok_or_else(|| Trouble::usage("the address lacks `process`, as PID:START"))?;
    let snapshot = view.snapshot_of(query).await?;
    let is_large = Work::is_large([&*snapshot]);
    view.drawn(is_large, move || drawn(&snapshot, identity))
        .await?
}

fn drawn(snapshot: &Snapshot, identity: ProcessId) -> Result<Markup, Trouble> {
    let found = snapshot
        .processes
        .iter()
        .find(|process| process.identity == identity);
    let process = found.ok_or_else(|| {
        Trouble::missing(
            format!(
                "process {identity} is not in snapshot {} of node {}",
                snapshot.capture.id, snapshot.task.node
            ),
            "it began later or had ended; another instant may show it",
        )
    })?;
    let content = content(snapshot, process);
    Ok(layout(
        &format!("process {}", process.pid),
        Depth::Top,
        &[],
        &content,
    ))
}

fn content(snapshot: &Snapshot, process: &Process) -> Markup {
    let ranks = diagnose::rank_processes(snapshot).into_iter();
    let rank = ranks.filter(|(_, it)| it.identity == process.identity);
    html! {
        h1 { @for (rank, _) in rank { "rank " (rank) ", " } "process " (process.pid) }
        p.quiet {
            "on " (snapshot.task.node) ", " (snapshot.capture.started_at.human()) " UTC, snapshot " (snapshot.capture.id)
            " · " (to_run(&Place::of(&snapshot.task), Some(snapshot.capture.id)))
        }
        @if !process.command.is_empty() { pre tabindex="0" { (process.command) } }
        section { (facts(snapshot, process)) }
        section { h2 { "Threads" } (threads(process)) }
        @if let Some(memory) = &process.memory { section { h2 { "Memory" } (memory_split(memory)) } }
        section { h2 { "Descriptors" } (descriptors(process)) }
        section { h2 { "Environment, as far as it is on the list" }
            (pairs(&process.distributed_environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()))
        }
        section { h2 { "Limits" } pre tabindex="0" { (process.proc.limits.join("\n")) } }
        section { h2 { "What could not be seen" } (gaps(snapshot, process)) }
    }
}

fn facts(snapshot: &Snapshot, process: &Process) -> Markup {
    let waits = waits(&[snapshot]);
    let mut all = waits.waits.iter();
    let waiting = all.find(|waiting| waiting.process == process.identity);
    let mut facts = vec![
        (
            "state".to_owned(),
            format!("{} ({})", state_words(process.state), process.state),
        ),
        ("parent".to_owned(), process.ppid.to_string()),
        (
            "identity".to_owned(),
            format!("{} (PID, start in ticks since boot)", process.identity),
        ),
        (
            "executable".to_owned(),
            process.exe.clone().unwrap_or_else(|| "?".to_owned()),
        ),
    ];
    if let Some(waiting) = waiting {
        let rank = waiting.rank.map(|rank| {
            if waiting.is_rank {
                rank.to_string()
            } else {
                format!("helps rank {rank}")
            }
        });
        facts.extend(rank.map(|rank| ("rank".to_owned(), rank)));
        if !waiting.words.is_empty() {
            facts.push(("waits".to_owned(), waiting.words.clone()));
        }
    }
    let said = snapshot
        .annotations
        .iter()
        .filter(|it| it.target == model::Target::Process(process.identity) && it.key != "rank");
    facts.extend(said.map(|it| (it.key.clone(), it.value.to_string())));
    let steps = process.steps.iter();
    facts.extend(steps.map(|step| {
        (
            step.name.clone(),
            format!(
                "{} in {} ({}:{})",
                step.value, step.function, step.file, step.line
            ),
        )
    }));
    pairs(&facts)
}

fn pairs(pairs: &[(String, String)]) -> Markup {
    html! {
        @if pairs.is_empty() { p.quiet { "none" } }
        dl.facts {
            @for (name, value) in pairs { dt { (short(name)) } dd { (value) } }
        }
    }
}

fn threads(process: &Process) -> Markup {
    let all = &process.proc.threads;
    let traces = process
        .pyspy
        .as_ref()
        .map(|stacks| stacks.traces.as_slice());
    let traces = traces.unwrap_or_default();
    let of = |thread: &Thread| {
        let tid = u64::try_from(thread.tid).ok();
        traces
            .iter()
            .find(|trace| trace.os_thread_id.is_some() && trace.os_thread_id == tid)
    };
    let placed = |trace: &&Trace| {
        all.iter()
            .all(|thread| u64::try_from(thread.tid).ok() != trace.os_thread_id)
    };
    html! {
        @for thread in all.iter().take(THREADS) { (one_thread(thread, of(thread), thread.tid == process.pid)) }
        @for trace in traces.iter().filter(placed).take(THREADS) {
            details open { summary { "a Python thread whose kernel thread is not known" (name(trace)) } (frames(trace)) }
        }
        @if all.len() > THREADS { p.quiet { "and " (all.len() - THREADS) " more threads; the snapshot has all" } }
    }
}

fn one_thread(thread: &Thread, trace: Option<&Trace>, is_main: bool) -> Markup {
    html! {
        details.thread open[is_main || trace.is_some_and(|trace| trace.owns_gil)] {
            summary {
                "thread " (thread.tid)
                @if is_main { " (main)" }
                @if let Some(comm) = &thread.comm { " " (short(comm)) }
                @if let Some(trace) = trace { (name(trace)) @if trace.owns_gil { " " strong { "holds the GIL" } } }
                @if let Some(state) = thread.state { ", " (state_words(state)) }
            }
            dl.facts {
                @if let Some(call) = &thread.call { dt { "system call" } dd { (call_words(call)) } }
                @if let Some(wchan) = thread.wchan.as_deref().filter(|it| *it != "0") { dt { "in the kernel" } dd { code { (wchan) } } }
                @if let Some(since) = thread.unchanged_since { dt { "has not run since" } dd { (since.human()) " UTC" } }
            }
            @if let Some(trace) = trace { (frames(trace)) }
            @if !thread.kernel_stack.is_empty() {
                details { summary { "kernel stack" } pre tabindex="0" { (thread.kernel_stack.join("\n")) } }
            }
        }
    }
}

fn name(trace: &Trace) -> String {
    let name = trace.thread_name.as_deref();
    name.map_or_else(String::new, |name| format!(" {}", short(name)))
}

fn frames(trace: &Trace) -> Markup {
    html! {
        ol.frames {
            @for frame in trace.frames.iter().take(FRAMES) {
                li { code { (frame.name) } " " span.path { (frame.filename) ":" (frame.line) } }
            }
        }
        @if trace.frames.len() > FRAMES { p.quiet { "and " (trace.frames.len() - FRAMES) " more frames" } }
    }
}

fn call_words(call: &SystemCall) -> String {
    let mut words = vec![call.name.clone()];
    words.extend(call.operation.clone());
    words.extend(call.path.clone());
    words.extend(call.fd.map(|fd| format!("descriptor {fd}")));
    words.extend(call.fd_target.clone());
    words.extend(call.waits_for.map(|pid| format!("child {pid}")));
    words.extend(call.timeout_ms.map(|time| format!("for {time} ms")));
    words.join(", ")
}

fn memory_split(memory: &MemoryFacts) -> Markup {
    let parts = [
        ("resident (RSS)", Some(memory.rss_bytes)),
        ("highest RSS", memory.peak_rss_bytes),
        ("without a file", memory.rss_anon_bytes),
        ("of files", memory.rss_file_bytes),
        ("shared", memory.rss_shmem_bytes),
        ("proportional (PSS)", memory.pss_bytes),
        ("its own (USS)", memory.uss_bytes),
        ("swapped out", memory.swap_bytes),
        ("huge pages", memory.hugetlb_bytes),
        ("locked", memory.locked_bytes),
        ("page tables", memory.page_table_bytes),
        ("address space", memory.virtual_bytes),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, bytes)| Some((name.to_owned(), size_words(bytes?))));
    pairs(&known.collect::<Vec<_>>())
}

fn descriptors(process: &Process) -> Markup {
    let all = &process.proc.file_descriptors;
    html! {
        @if all.is_empty() { p.quiet { "none are known" } } @else {
            details {
                summary { (all.len()) " open" }
                div.wide tabindex="0" { table { tbody {
                    @for descriptor in all.iter().take(DESCRIPTORS) {
                        tr { td.number { (descriptor.fd) } td { code { (descriptor.target) } } }
                    }
                } } }
                @if all.len() > DESCRIPTORS { p.quiet { "and " (all.len() - DESCRIPTORS) " more" } }
            }
        }
    }
}

fn gaps(snapshot: &Snapshot, process: &Process) -> Markup {
    let all = snapshot.gaps.iter();
    let own: Vec<&Gap> = all
        .filter(|gap| gap.process == Some(process.identity))
        .collect();
    html! {
        @if own.is_empty() { p.quiet { "everything was seen" } } @else {
            ul {
                @for gap in own {
                    li {
                        code { (gap.what) } ": " (code_words(gap.code))
                        @if gap.count > 1 { " (" (gap.count) " times)" }
                        @if let Some(detail) = &gap.detail { ", " (detail) }
                        @if let Some(remedy) = &gap.remedy { ". " strong { "Remedy: " } (remedy) }
                    }
                }
            }
        }
    }
}
