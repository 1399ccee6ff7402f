//! Compiling in a process of its own, and what is kept of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model::{OutcomeKind, PluginOutcome};
use taskscope_plugin::{CompileLimits, Compiler, ComponentSource, Entry, Plugins};
use testkit::wait_until;

use crate::{PATIENCE, about, compiler, guest, load, machine, outcome, ranks};

/// A component that takes hundreds of megabytes and some seconds to compile: a module with three functions of 600,000
/// statements on 40,000 variables.
fn monster() -> Vec<u8> {
    const FUNCTIONS: usize = 3;
    let mut body = vec![1]; // one group of locals:
    body.extend(leb(40_000));
    body.push(0x7f); // i32
    for local in (0..40_000).cycle().take(600_000) {
        let index = leb(local);
        body.push(0x20); // local.get
        body.extend(&index);
        body.extend([0x41, 7, 0x6a, 0x21]); // i32.const 7, i32.add, local.set
        body.extend(index);
    }
    body.push(0x0b); // end
    let mut code = leb(FUNCTIONS);
    for _ in 0..FUNCTIONS {
        code.extend(leb(body.len()));
        code.extend(&body);
    }
    let mut functions = leb(FUNCTIONS);
    functions.extend([0; FUNCTIONS]);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    for (id, section) in [(1, vec![1, 0x60, 0, 0]), (3, functions), (10, code)] {
        module.push(id);
        module.extend(leb(section.len()));
        module.extend(section);
    }
    let mut component = b"\0asm\x0d\0\x01\0\x01".to_vec(); // a core module follows
    component.extend(leb(module.len()));
    component.extend(module);
    component
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn load_with(entries: Vec<Entry>, compiler: &Compiler) -> Plugins {
    Plugins::load(entries, about(), compiler.clone())
}

async fn outcome_of(entry: Entry, compiler: &Compiler) -> PluginOutcome {
    let instance = entry.instance.clone();
    let mut plugins = load_with(vec![entry], compiler);
    let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
    outcome(&snapshot, &instance).clone()
}

fn compiled(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_component_is_compiled_once_and_then_loaded_from_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let first = compiler(Some(cache.clone()));
    assert_eq!(
        outcome_of(guest("nothing"), &first).await.outcome,
        OutcomeKind::Ok
    );
    let files = compiled(&cache);
    assert_eq!(files.len(), 1, "{files:?}");
    let used: Duration = first
        .helpers
        .hold()
        .used(0)
        .iter()
        .map(|(_, cpu)| *cpu)
        .sum();
    assert!(used > Duration::ZERO, "what it cost is known");
    let no_compiler = Compiler {
        program: "/nowhere".into(),
        ..first.clone()
    };
    let again = outcome_of(guest("nothing"), &no_compiler).await;
    assert_eq!(again.outcome, OutcomeKind::Ok);
    let elsewhere = Compiler {
        cache: None,
        ..no_compiler.clone()
    };
    let other = outcome_of(guest("nothing"), &elsewhere).await;
    assert_eq!(
        (other.outcome, other.message.as_deref()),
        (
            OutcomeKind::LoadFailed,
            Some("cannot start /nowhere to compile it: No such file or directory (os error 2)")
        )
    );

    // Torn, and somebody else's.
    let whole = std::fs::read(&files[0]).unwrap();
    for bytes in [&whole[..whole.len() / 2], b"\x7fELF and so on", b""] {
        std::fs::remove_file(&files[0]).unwrap(); // what is loaded stays as it is
        std::fs::write(&files[0], bytes).unwrap();
        assert_eq!(
            outcome_of(guest("nothing"), &first).await.outcome,
            OutcomeKind::Ok
        );
        assert!(std::fs::read(&files[0]).unwrap() == whole);
    }
}

#[tokio::test]
async fn without_a_cache_code_lies_in_memory_and_no_process_of_ours_remains() {
    let compiler = compiler(None);
    let mut plugins = load_with(vec![ranks(), guest("nothing")], &compiler);
    wait_until(testkit::DEADLINE, || compiler.helpers.pids().len() == 1);
    let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
    for instance in ["ranks", "odd"] {
        assert_eq!(outcome(&snapshot, instance).outcome, OutcomeKind::Ok);
    }
    assert!(compiler.helpers.pids().is_empty());
}

#[tokio::test]
async fn a_component_that_takes_all_time_or_memory_to_compile_costs_its_limits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("monster.wasm");
    std::fs::write(&path, monster()).unwrap();
    let entry = Entry {
        component: ComponentSource::File(path),
        ..guest("nothing")
    };
    let small = CompileLimits {
        memory_bytes: 256 << 20,
        ..compiler(None).limits
    };
    let short = CompileLimits {
        cpu: Duration::from_secs(1),
        memory_bytes: 8 << 30,
        ..small
    };
    let late = CompileLimits {
        wall: Duration::from_millis(1),
        ..small
    };
    let cases = [
        (small, "compiling it took more than 256 MiB of memory"),
        (short, "compiling it took more than 1s of CPU time"),
        (late, "compiling it took longer than 1ms"),
    ];
    for (limits, expected) in cases {
        let compiler = Compiler {
            limits,
            ..compiler(Some(directory.path().join("cache")))
        };
        let outcome = outcome_of(entry.clone(), &compiler).await;
        assert_eq!(
            (outcome.outcome, outcome.message.as_deref()),
            (OutcomeKind::LoadFailed, Some(expected))
        );
        assert!(compiler.helpers.pids().is_empty());
    }
    // A built-in plugin does not wait for it, though its entry comes later.
    let mut plugins = load(vec![entry, ranks()]);
    let snapshot = plugins.enrich(machine::snapshot(1), Duration::ZERO).await;
    let outcomes = ["odd", "ranks"].map(|instance| outcome(&snapshot, instance).outcome);
    assert_eq!(outcomes, [OutcomeKind::NotReady, OutcomeKind::Ok]);
}

#[tokio::test]
async fn built_in_plugins_are_ready_at_once_without_a_compiler_a_cache_or_time() {
    let unwritable = Path::new("/proc/taskscope-has-no-cache-here");
    for cache in [None, Some(unwritable.to_owned())] {
        let nothing = Compiler {
            program: "/nowhere".into(),
            ..compiler(cache)
        };
        let entry = |name: &&str| Entry {
            component: ComponentSource::Builtin((*name).to_owned()),
            instance: (*name).to_owned(),
            ..ranks()
        };
        let names = taskscope_plugin::builtins();
        let mut plugins = load_with(names.iter().map(entry).collect(), &nothing);
        plugins.hurry().up();
        let snapshot = plugins.enrich(machine::snapshot(1), Duration::ZERO).await;
        for name in names {
            let outcome = outcome(&snapshot, name);
            assert_eq!(outcome.outcome, OutcomeKind::Ok, "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_program_that_is_no_compiler_is_said_to_be_none() {
    let compiler = Compiler {
        program: "/bin/true".into(),
        ..compiler(None)
    };
    let outcome = outcome_of(guest("nothing"), &compiler).await;
    assert_eq!(outcome.outcome, OutcomeKind::LoadFailed);
    assert_eq!(
        outcome.message.unwrap(),
        "the process that compiled it ended without a word"
    );
}

#[tokio::test]
async fn dropping_the_plugins_ends_the_compiler() {
    let compiler = Compiler {
        program: "/bin/sleep".into(),
        arguments: vec!["600".into()],
        ..compiler(None)
    };
    let plugins = load_with(vec![guest("nothing")], &compiler);
    wait_until(testkit::DEADLINE, || !compiler.helpers.pids().is_empty());
    drop(plugins);
    wait_until(testkit::DEADLINE, || compiler.helpers.pids().is_empty());
}

#[test]
fn a_compiler_ends_with_whoever_reads_its_words() {
    let mut child = Command::new(compiler(None).program)
        .args(CompileLimits::default().arguments())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It waits for the rest of its input, as if it were at work.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"\0asm").unwrap();
    drop(child.stderr.take());
    wait_until(testkit::DEADLINE, || child.try_wait().unwrap().is_some());
}
