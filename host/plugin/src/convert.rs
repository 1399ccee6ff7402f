//! Model to WIT and back; the only place that knows both. Checks of what a plugin says are in `answer.rs`.

use model::{ProcessId, StackTable, Value};

use crate::bindings::exports::taskscope::plugin::plugin as wit_plugin;
use crate::bindings::taskscope::plugin::snapshot as wit_snapshot;
use crate::bindings::taskscope::plugin::types as wit;
use crate::document::ThreadStacks;
use crate::entry::{About, Description, Entry};
use crate::limits;
use crate::text::one_line;

/// Returns the head of `snapshot`.
pub(crate) fn summary(snapshot: &model::Snapshot) -> wit_snapshot::Summary {
    let capture = &snapshot.capture;
    let threads = snapshot
        .processes
        .iter()
        .map(|process| process.proc.threads.len())
        .sum();
    let micros = capture.completed_at.since(capture.started_at).as_micros();
    wit_snapshot::Summary {
        sequence: capture.sequence,
        captured_at_ms: u64::try_from(capture.started_at.as_microseconds() / 1_000).unwrap_or(0),
        capture_us: u64::try_from(micros).unwrap_or(u64::MAX),
        trigger: capture.trigger.map(trigger),
        task: snapshot.task.pathspec.to_string(),
        node: snapshot.task.node.clone(),
        process_count: count(snapshot.processes.len()),
        thread_count: count(threads),
    }
}

/// Returns the head of no snapshot, for questions outside a call.
pub(crate) fn no_summary() -> wit_snapshot::Summary {
    wit_snapshot::Summary {
        sequence: 0,
        captured_at_ms: 0,
        capture_us: 0,
        trigger: None,
        task: String::new(),
        node: String::new(),
        process_count: 0,
        thread_count: 0,
    }
}

fn trigger(trigger: model::Trigger) -> wit_snapshot::Trigger {
    match trigger {
        model::Trigger::Start => wit_snapshot::Trigger::Start,
        model::Trigger::Interval => wit_snapshot::Trigger::Interval,
        model::Trigger::Requested => wit_snapshot::Trigger::Requested,
        model::Trigger::Signal => wit_snapshot::Trigger::Signal,
        model::Trigger::Pressure => wit_snapshot::Trigger::Pressure,
        model::Trigger::Deadline => wit_snapshot::Trigger::Deadline,
        model::Trigger::Burst => wit_snapshot::Trigger::Burst,
        model::Trigger::Exit => wit_snapshot::Trigger::Exit,
    }
}

/// Returns `process`; `ticks` are the clock ticks of a second, 0 where unknown.
pub(crate) fn process(process: &model::Process, ticks: u64) -> wit::Process {
    let facts = &process.proc;
    wit::Process {
        pid: number(process.pid),
        ppid: number(process.ppid),
        start_ticks: process.start_time_ticks,
        name: name(process),
        exe: process.exe.clone(),
        cmdline: process.cmdline.clone(),
        uid: facts.credentials.as_ref().map(|ids| ids.real_uid),
        state: run_state(Some(process.state)),
        runtime: if process.python_candidate || process.pyspy.is_some() {
            wit::Runtime::Python
        } else {
            wit::Runtime::Other
        },
        thread_count: count(facts.threads.len()),
        cpu_ms: cpu_ms(facts.utime_ticks, facts.stime_ticks, ticks),
        rss_bytes: process.memory.as_ref().map(|memory| memory.rss_bytes),
        attributes: attributes(process),
    }
}

/// What the record has no field for.
fn attributes(process: &model::Process) -> Vec<wit::Attribute> {
    let matches = process.matches_pattern.then(|| wit::Attribute {
        key: "matches-pattern".to_owned(),
        value: "true".to_owned(),
    });
    matches.into_iter().collect()
}

/// The name of the main thread, else what status says, else the program.
fn name(process: &model::Process) -> String {
    let main = process
        .proc
        .threads
        .iter()
        .find(|thread| thread.tid == process.pid);
    let comm = main
        .and_then(|thread| thread.comm.as_ref())
        .or_else(|| process.proc.status.get("Name"));
    let program = || {
        process
            .cmdline
            .first()
            .map(|program| program.rsplit('/').next().unwrap_or(program).to_owned())
    };
    comm.cloned().or_else(program).unwrap_or_default()
}

/// Returns the threads of `process`, with the stacks that are known.
pub(crate) fn threads(
    process: &model::Process,
    stacks: &ThreadStacks,
    ticks: u64,
) -> Vec<wit::Thread> {
    let thread = |thread: &model::Thread| {
        let stack = u64::try_from(thread.tid)
            .ok()
            .and_then(|tid| stacks.get(&(process.identity, tid)));
        let name = stack
            .and_then(|stack| stack.name.as_ref())
            .or(thread.comm.as_ref());
        wit::Thread {
            pid: number(process.pid),
            tid: number(thread.tid),
            name: name.cloned().unwrap_or_default(),
            state: run_state(thread.state),
            cpu_ms: cpu_ms(thread.utime_ticks, thread.stime_ticks, ticks),
            waiting_in: thread
                .wchan
                .clone()
                .filter(|place| !place.is_empty() && place != "0"),
            stack: stack.map(|stack| stack.stack),
            owns_gil: stack.map(|stack| stack.owns_gil),
        }
    };
    process.proc.threads.iter().map(thread).collect()
}

/// Returns those threads of `process` whose stack is known.
pub(crate) fn stacked_threads<'a>(
    process: &'a model::Process,
    stacks: &'a ThreadStacks,
) -> impl Iterator<Item = wit::StackedThread> + 'a {
    process.proc.threads.iter().filter_map(|thread| {
        let tid = u64::try_from(thread.tid).ok()?;
        let stack = stacks.get(&(process.identity, tid))?.stack;
        Some(wit::StackedThread {
            pid: number(process.pid),
            tid: number(thread.tid),
            state: run_state(thread.state),
            stack,
        })
    })
}

/// Returns one variable of `process`.
pub(crate) fn environment_value(
    process: &model::Process,
    name: &str,
    value: &str,
) -> wit_snapshot::EnvValue {
    wit_snapshot::EnvValue {
        pid: number(process.pid),
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

fn run_state(letter: Option<char>) -> wit::RunState {
    match letter {
        Some('R') => wit::RunState::Running,
        Some('S') => wit::RunState::Sleeping,
        Some('D') => wit::RunState::Uninterruptible,
        Some('T') => wit::RunState::Stopped,
        Some('t') => wit::RunState::Traced,
        Some('I') => wit::RunState::Idle,
        Some('Z') => wit::RunState::Zombie,
        Some('X' | 'x') => wit::RunState::Dead,
        _ => wit::RunState::Other,
    }
}

fn cpu_ms(user: Option<u64>, system: Option<u64>, ticks: u64) -> Option<u64> {
    user?
        .checked_add(system?)?
        .checked_mul(1_000)?
        .checked_div(ticks)
}

/// Returns `table` as it crosses the boundary.
pub(crate) fn stack_table(table: &StackTable) -> wit::StackTable {
    let frame = |frame: &model::FrameEntry| wit::Frame {
        function: frame.function,
        file: frame.file,
        line: frame.line,
        kind: wit::FrameKind::Python,
    };
    wit::StackTable {
        strings: table.strings.clone(),
        frames: table.frames.iter().map(frame).collect(),
        offsets: table.offsets.clone(),
        frame_ids: table.frame_ids.clone(),
    }
}

/// Returns `annotation` with its key as it is stored.
pub(crate) fn annotation(annotation: &model::Annotation) -> wit::Annotation {
    wit::Annotation {
        target: target(&annotation.target),
        key: annotation.key.clone(),
        value: match &annotation.value {
            Value::Text(text) => wit::Value::Text(text.clone()),
            Value::Number(number) => wit::Value::Number(*number),
            Value::Flag(flag) => wit::Value::Flag(*flag),
        },
    }
}

/// Returns `finding`.
pub(crate) fn finding(finding: &model::Finding) -> wit::Finding {
    let evidence = |evidence: &model::Evidence| wit::Evidence {
        pointer: evidence.pointer.clone(),
        value: evidence.value.clone(),
    };
    wit::Finding {
        kind: finding.kind.clone(),
        severity: match finding.severity {
            model::Severity::Info => wit::Severity::Info,
            model::Severity::Warning => wit::Severity::Warning,
            model::Severity::Error => wit::Severity::Error,
        },
        message: finding.message.clone(),
        target: target(&finding.target),
        evidence: finding.evidence.iter().map(evidence).collect(),
    }
}

fn target(target: &model::Target) -> wit::Target {
    match target {
        model::Target::Snapshot => wit::Target::Snapshot,
        model::Target::Process(id) => wit::Target::Process(number(id.pid)),
        model::Target::Thread { process, tid } => {
            wit::Target::Thread((number(process.pid), number(*tid)))
        }
        model::Target::Stack(index) => wit::Target::Stack(*index),
        model::Target::Frame(index) => wit::Target::Frame(*index),
        model::Target::Group(name) => wit::Target::Group(name.clone()),
    }
}

/// Returns the target that a plugin names; `identify` finds the process of a PID.
pub(crate) fn model_target(
    target: wit::Target,
    identify: impl Fn(i32) -> Option<ProcessId>,
) -> Option<model::Target> {
    let process = |pid: u32| identify(i32::try_from(pid).ok()?);
    Some(match target {
        wit::Target::Snapshot => model::Target::Snapshot,
        wit::Target::Process(pid) => model::Target::Process(process(pid)?),
        wit::Target::Thread((pid, tid)) => model::Target::Thread {
            process: process(pid)?,
            tid: i32::try_from(tid).ok()?,
        },
        wit::Target::Stack(index) => model::Target::Stack(index),
        wit::Target::Frame(index) => model::Target::Frame(index),
        wit::Target::Group(name) => model::Target::Group(name),
    })
}

/// Returns a value that a plugin says.
pub(crate) fn model_value(value: wit::Value) -> Value {
    match value {
        wit::Value::Text(text) => Value::Text(text),
        wit::Value::Number(number) => Value::Number(number),
        wit::Value::Flag(flag) => Value::Flag(flag),
    }
}

/// Returns a finding of the plugin `instance` about `target`.
pub(crate) fn model_finding(
    finding: wit::Finding,
    target: model::Target,
    instance: &str,
) -> model::Finding {
    let evidence = |evidence: wit::Evidence| model::Evidence {
        pointer: evidence.pointer,
        value: evidence.value,
    };
    model::Finding {
        evidence: finding.evidence.into_iter().map(evidence).collect(),
        kind: finding.kind,
        message: finding.message,
        plugin: Some(instance.to_owned()),
        severity: match finding.severity {
            wit::Severity::Info => model::Severity::Info,
            wit::Severity::Warning => model::Severity::Warning,
            wit::Severity::Error => model::Severity::Error,
        },
        target,
    }
}

/// Returns what the plugin of `entry` is told about where it runs.
pub(crate) fn context(entry: &Entry, about: &About, resumed: bool) -> wit_plugin::Context {
    wit_plugin::Context {
        instance: entry.instance.clone(),
        config: entry.config_json.clone(),
        task: about.task.clone(),
        node: about.node.clone(),
        host_version: about.host_version.clone(),
        resumed,
    }
}

/// Returns what a plugin says about itself, each line cut to a sane length.
pub(crate) fn description(said: wit_plugin::Description) -> Description {
    let names = [
        (wit_plugin::Needs::PROCESSES, "processes"),
        (wit_plugin::Needs::THREADS, "threads"),
        (wit_plugin::Needs::STACKS, "stacks"),
        (wit_plugin::Needs::ENVIRONMENT, "environment"),
        (wit_plugin::Needs::ANNOTATIONS, "annotations"),
        (wit_plugin::Needs::FINDINGS, "findings"),
        (wit_plugin::Needs::DOCUMENT, "document"),
    ];
    let line = |text: &str| one_line(text, limits::KEY_BYTES * 4);
    Description {
        config_schema: said.config_schema,
        name: line(&said.name),
        needs: names
            .into_iter()
            .filter(|(flag, _)| said.needs.contains(*flag))
            .map(|(_, name)| name)
            .collect(),
        requires: said.requires.iter().map(|text| line(text)).collect(),
        summary: line(&said.summary),
        version: line(&said.version),
    }
}

/// Kernel numbers are never negative; one that is, in a hand-made document, names nothing.
fn number(signed: i32) -> u32 {
    u32::try_from(signed).unwrap_or(0)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn targets() -> impl Strategy<Value = model::Target> {
        let id = (1..i32::MAX, any::<u64>()).prop_map(|(pid, start_time_ticks)| ProcessId {
            pid,
            start_time_ticks,
        });
        prop_oneof![
            Just(model::Target::Snapshot),
            id.clone().prop_map(model::Target::Process),
            (id, 1..i32::MAX).prop_map(|(process, tid)| model::Target::Thread { process, tid }),
            any::<u32>().prop_map(model::Target::Stack),
            any::<u32>().prop_map(model::Target::Frame),
            ".*".prop_map(model::Target::Group),
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            ".*".prop_map(Value::Text),
            any::<f64>()
                .prop_filter("finite", |number| number.is_finite())
                .prop_map(Value::Number),
            any::<bool>().prop_map(Value::Flag),
        ]
    }

    fn process_of(target: &model::Target) -> Option<ProcessId> {
        match target {
            model::Target::Process(id) | model::Target::Thread { process: id, .. } => Some(*id),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn what_goes_out_comes_back_the_same(target in targets(), value in values(), key in ".*", message in ".*") {
            let known = process_of(&target);
            let identify = |pid: i32| known.filter(|id| id.pid == pid);
            let said = model::Annotation { key: key.clone(), plugin: String::new(), target: target.clone(), value: value.clone() };
            let crossed = annotation(&said);
            prop_assert_eq!(&crossed.key, &key);
            prop_assert_eq!(model_target(crossed.target, identify), Some(target.clone()));
            prop_assert_eq!(model_value(crossed.value), value);

            let evidence = vec![model::Evidence { pointer: key, value: message.clone() }];
            let said = model::Finding {
                evidence, kind: "k".to_owned(), message, plugin: Some("p".to_owned()), severity: model::Severity::Error, target: target.clone(),
            };
            prop_assert_eq!(model_finding(finding(&said), target, "p"), said);
        }

        #[test]
        fn cpu_time_never_overflows(user in any::<u64>(), system in any::<u64>(), ticks in any::<u64>()) {
            if let Some(milliseconds) = cpu_ms(Some(user), Some(system), ticks) {
                prop_assert!(u128::from(milliseconds) * u128::from(ticks) <= (u128::from(user) + u128::from(system)) * 1_000);
            }
        }
    }
}
