//! Real components on hand-built snapshots: the built-in plugin, and a guest that misbehaves as its settings say.
#![expect(clippy::unwrap_used, reason = "a test")]

mod compile;
mod hostile;
mod inspect;
mod machine;
mod reload;
mod sinks;
mod soak;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome, Snapshot, Target, Value};
use taskscope_plugin::{About, CompileLimits, Compiler, ComponentSource, Entry, Plugins};

/// How long anything may take that is expected to happen; a compiler comes last on a busy machine.
const PATIENCE: Duration = Duration::from_mins(9);

fn about() -> About {
    About {
        host_version: "0.1.0".to_owned(),
        node: "n0".to_owned(),
        task: "train/1".to_owned(),
    }
}

fn ranks() -> Entry {
    Entry {
        component: ComponentSource::Builtin("torchrun-ranks".to_owned()),
        config_json: "{}".to_owned(),
        deadline: Duration::from_secs(20),
        environment: ["RANK", "LOCAL_*", "WORLD_SIZE", "MASTER_*"]
            .map(str::to_owned)
            .to_vec(),
        instance: "ranks".to_owned(),
        memory_bytes: 64 << 20,
        sha256: None,
    }
}

/// The test guest, which does what `what` says.
fn guest(what: &str) -> Entry {
    Entry {
        component: ComponentSource::File(PathBuf::from(env!("PLUGIN_TESTING"))),
        config_json: format!("{{\"do\":\"{what}\"}}"),
        environment: Vec::new(),
        instance: "odd".to_owned(),
        ..ranks()
    }
}

/// The compiler that cargo builds with this crate's tests, `examples/plugin_compiler.rs`, with a cache in `cache`.
fn compiler(cache: Option<PathBuf>) -> Compiler {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let program = built.join("examples/plugin_compiler");
    assert!(
        program.exists(),
        "{} is missing: run `cargo test -p taskscope-plugin` without `--test`",
        program.display()
    );
    Compiler {
        arguments: Vec::new(),
        cache,
        helpers: helper::Register::default(),
        // Tests wait for it, on machines that are busy with other tests.
        limits: CompileLimits {
            nice: 0,
            ..CompileLimits::default()
        },
        program,
    }
}

/// Compiled once for all tests.
fn load(entries: Vec<Entry>) -> Plugins {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins");
    Plugins::load(entries, about(), compiler(Some(cache)))
}

/// Compiled each time, which takes its time.
fn load_anew(entries: Vec<Entry>) -> Plugins {
    Plugins::load(entries, about(), compiler(None))
}

fn outcome<'a>(snapshot: &'a Snapshot, instance: &str) -> &'a PluginOutcome {
    let mut found = snapshot
        .plugins
        .iter()
        .filter(|outcome| outcome.instance == instance);
    let outcome = found.next().unwrap();
    assert!(found.next().is_none(), "{instance} has two outcomes");
    outcome
}

/// Everything but what plugins may add is, byte for byte, what it is without them.
fn assert_only_added(snapshot: &Snapshot, before: &Snapshot) {
    let mut bare = snapshot.clone();
    (bare.annotations, bare.findings, bare.plugins) = (Vec::new(), Vec::new(), Vec::new());
    assert_eq!(
        serde_json::to_string(&bare).unwrap(),
        serde_json::to_string(before).unwrap()
    );
}

fn said(snapshot: &Snapshot, key: &str) -> Vec<(i32, String)> {
    let of = |annotation: &model::Annotation| match &annotation.target {
        Target::Process(id) => (id.pid, annotation.value.to_string()),
        _ => (0, annotation.value.to_string()),
    };
    snapshot
        .annotations
        .iter()
        .filter(|annotation| annotation.key == key)
        .map(of)
        .collect()
}

/// Asks `odd` behind `ranks`, and checks that `ranks` is none the worse for it.
async fn beside_ranks(odd: Entry) -> (PluginOutcome, Snapshot) {
    let mut plugins = load(vec![odd, ranks()]);
    let snapshot = plugins.enrich(machine::snapshot(2), PATIENCE).await;
    assert_eq!(
        said(&snapshot, "rank"),
        [(200, "0".to_owned()), (201, "1".to_owned())]
    );
    assert_eq!(outcome(&snapshot, "ranks").outcome, OutcomeKind::Ok);
    (outcome(&snapshot, "odd").clone(), snapshot)
}

#[tokio::test]
async fn the_built_in_plugin_names_ranks() {
    let mut plugins = load(vec![ranks()]);
    let snapshot = plugins.enrich(machine::snapshot(4), PATIENCE).await;
    let outcome = outcome(&snapshot, "ranks");
    assert_eq!(
        (outcome.outcome, outcome.message.as_deref()),
        (OutcomeKind::Ok, None)
    );
    assert_eq!(outcome.version.as_deref(), Some("0.1.0"));
    assert!(outcome.duration_us.is_some() && outcome.memory_bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(
        usize::try_from(outcome.annotations),
        Ok(snapshot.annotations.len())
    );
    let expected: Vec<(i32, String)> = (0..4).map(|rank| (200 + rank, rank.to_string())).collect();
    assert_eq!(said(&snapshot, "rank"), expected);
    assert_eq!(said(&snapshot, "role")[0], (200, "rank".to_owned()));
    assert!(said(&snapshot, "role").contains(&(100, "launcher".to_owned())));
    assert!(
        snapshot
            .annotations
            .iter()
            .all(|annotation| annotation.plugin == "ranks")
    );
    assert_eq!(snapshot.findings, []);
}

#[tokio::test]
async fn a_missing_rank_is_a_finding_whose_evidence_resolves_in_the_document() {
    let mut plugins = load(vec![ranks()]);
    let mut snapshot = machine::snapshot(4);
    snapshot.processes.retain(|process| process.pid != 202);
    let snapshot = plugins.enrich(snapshot, PATIENCE).await;
    let finding = &snapshot.findings[0];
    assert_eq!(
        (finding.kind.as_str(), finding.plugin.as_deref()),
        ("missing-ranks", Some("ranks"))
    );
    assert_eq!(finding.message, "Rank 2 of 4 is not running.");
    let group = Target::Group("127.0.0.1:29500".to_owned());
    assert_eq!(finding.target, group);
    let missing = snapshot
        .annotations
        .iter()
        .find(|annotation| annotation.key == "missing-ranks")
        .unwrap();
    assert_eq!(
        (&missing.target, &missing.value),
        (&group, &Value::Text("2".to_owned()))
    );
    let document = serde_json::to_value(&snapshot).unwrap();
    assert!(!finding.evidence.is_empty());
    for evidence in &finding.evidence {
        let found = document.pointer(&evidence.pointer).unwrap();
        assert_eq!(found.to_string(), evidence.value);
    }
}

#[tokio::test]
async fn no_plugins_leave_a_snapshot_as_it_is() {
    let snapshot = machine::snapshot(1);
    let mut plugins = load(Vec::new());
    assert_eq!(plugins.enrich(snapshot.clone(), PATIENCE).await, snapshot);
    assert!(plugins.ready(PATIENCE).await.is_empty());
}

#[tokio::test]
async fn each_way_to_fail_costs_one_outcome_that_says_why_and_nothing_else() {
    use OutcomeKind::{ConfigRefused, Ok, OverLimit, Refused, Trapped};
    let cases = [
        (
            "trap",
            Trapped,
            "panicked at testing/src/lib.rs:*: rank table is upside down",
        ),
        (
            "trap-in-init",
            Trapped,
            "panicked at testing/src/lib.rs:*: cannot even begin",
        ),
        ("eat", OverLimit, "it wanted more than 16 MiB of memory*"),
        ("huge", OverLimit, "it *"),
        ("refuse", Refused, "no such shard"),
        ("unavailable", Refused, "the other side is away"),
        ("refuse-config", ConfigRefused, "`colour` is no setting"),
        ("chatter", Ok, ""),
    ];
    let odd = |&(what, ..): &(&str, OutcomeKind, &str)| Entry {
        instance: what.to_owned(),
        memory_bytes: 16 << 20,
        ..guest(what)
    };
    let mut plugins = load(cases.iter().map(odd).chain([ranks()]).collect());
    let snapshot = plugins.enrich(machine::snapshot(2), PATIENCE).await;
    for (what, kind, expected) in cases {
        let outcome = outcome(&snapshot, what);
        let message = outcome.message.as_deref().unwrap_or_default();
        assert_eq!(outcome.outcome, kind, "{what}: {message}");
        let (start, end) = expected.split_once('*').unwrap_or((expected, expected));
        assert!(
            message.starts_with(start) && message.ends_with(end),
            "{what}: {message}"
        );
    }
    assert_eq!(
        said(&snapshot, "rank"),
        [(200, "0".to_owned()), (201, "1".to_owned())]
    );
    assert_eq!(outcome(&snapshot, "ranks").outcome, OutcomeKind::Ok);

    // The next snapshot: who answered with an error is asked again, who crashed rests, bad settings stay bad.
    let snapshot = plugins.enrich(machine::snapshot(2), PATIENCE).await;
    let asked = |what: &str| {
        (
            outcome(&snapshot, what).outcome,
            outcome(&snapshot, what).duration_us.is_some(),
        )
    };
    assert_eq!(
        [asked("refuse"), asked("unavailable")],
        [(Refused, true); 2]
    );
    assert_eq!(asked("refuse-config"), (ConfigRefused, false));
    assert_eq!((asked("chatter"), asked("ranks")), ((Ok, true), (Ok, true)));
}

#[tokio::test]
async fn an_answer_of_twenty_megabytes_is_not_taken() {
    let (outcome, _) = beside_ranks(guest("huge")).await;
    assert_eq!(outcome.outcome, OutcomeKind::OverLimit);
    assert_eq!(
        outcome.message.unwrap(),
        "it handed over more than 16 MiB in one call"
    );
}

#[tokio::test]
async fn a_plugin_that_cannot_run_says_why_when_asked_what_it_is() {
    let small = Entry {
        instance: "small".to_owned(),
        memory_bytes: 1 << 10,
        ..guest("nothing")
    };
    let ready = load(vec![guest("refuse-config"), small])
        .ready(PATIENCE)
        .await;
    assert_eq!(
        ready[0],
        ("odd".to_owned(), Err("`colour` is no setting".to_owned()))
    );
    let message = ready[1].1.as_ref().unwrap_err();
    assert!(
        message.starts_with("it wanted more than 1024 bytes of memory"),
        "{message}"
    );
}

#[tokio::test]
async fn an_endless_loop_ends_at_its_deadline_and_never_holds_the_caller() {
    let deadline = Duration::from_millis(300);
    let mut plugins = load(vec![
        Entry {
            deadline,
            ..guest("loop")
        },
        ranks(),
    ]);
    plugins.ready(PATIENCE).await;
    let begun = Instant::now();
    let beats = std::cell::Cell::new(0);
    let heart = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            beats.set(beats.get() + 1);
        }
    };
    // On one thread: if the guest held the caller there would be no beat.
    let snapshot = tokio::select! {
        snapshot = plugins.enrich(machine::snapshot(2), PATIENCE) => snapshot,
        () = heart => unreachable!("a heart that beats for ever"),
    };
    assert!(beats.get() >= 5, "{} beats", beats.get());
    assert!(begun.elapsed() >= deadline);
    let outcome = outcome(&snapshot, "odd");
    assert_eq!(
        (outcome.outcome, outcome.message.as_deref()),
        (OutcomeKind::OutOfTime, Some("no answer within 300ms"))
    );
    assert_eq!(said(&snapshot, "rank").len(), 2);
}

#[tokio::test]
async fn of_too_many_annotations_the_first_are_taken() {
    let (outcome, snapshot) = beside_ranks(guest("many")).await;
    assert_eq!(
        (outcome.outcome, outcome.annotations),
        (OutcomeKind::OverLimit, 50_000)
    );
    assert_eq!(
        outcome.message.unwrap(),
        "10000 of its statements were dropped: 10000 over the limit of one answer"
    );
    assert_eq!(said(&snapshot, "odd/n").len(), 50_000);
}

#[tokio::test]
async fn garbage_is_dropped_and_counted_and_what_is_sound_is_kept() {
    let (outcome, snapshot) = beside_ranks(guest("garbage")).await;
    assert_eq!(
        (outcome.outcome, outcome.annotations, outcome.findings),
        (OutcomeKind::Ok, 1, 1)
    );
    assert_eq!(
        outcome.message.unwrap(),
        "16 of its statements were dropped: 8 about something that is not in the snapshot, \
         2 with a key that is not 1 to 64 of a-z 0-9 - _ ., 2 with a number that is not finite, \
         1 with a text over 4 KiB, 3 with evidence that does not hold"
    );
    assert_eq!(said(&snapshot, "odd/good"), [(0, "yes".to_owned())]);
    assert_eq!(snapshot.findings[0].kind, "holds");
}

#[tokio::test]
async fn after_a_crash_a_plugin_rests_and_then_works_again_with_its_state() {
    let mut plugins = load(vec![guest("once-trap"), ranks()]);
    let snapshot = plugins.enrich(machine::snapshot(2), PATIENCE).await;
    assert_eq!(outcome(&snapshot, "odd").outcome, OutcomeKind::Trapped);
    let snapshot = plugins.enrich(machine::snapshot(2), PATIENCE).await;
    let resting = outcome(&snapshot, "odd");
    assert_eq!(
        (resting.outcome, resting.duration_us),
        (OutcomeKind::BackedOff, None)
    );
    let message = resting.message.as_deref().unwrap();
    assert!(
        message.starts_with("it rests after a failure: panicked at "),
        "{message}"
    );

    let begun = Instant::now();
    loop {
        let snapshot = plugins.enrich(machine::snapshot(2), PATIENCE).await;
        assert_eq!(said(&snapshot, "rank").len(), 2);
        if outcome(&snapshot, "odd").outcome == OutcomeKind::Ok {
            assert_eq!(said(&snapshot, "odd/alive"), [(0, "yes".to_owned())]);
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it rests for too long"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn one_instance_is_kept_and_a_worn_one_leaves_its_state_behind() {
    let entry = |instance: &str, memory_bytes| Entry {
        instance: instance.to_owned(),
        memory_bytes,
        ..guest("count")
    };
    // It needs over 3 MiB for what it tries to keep: three quarters of 4 MiB, so a new instance is made each time.
    let mut plugins = load(vec![entry("kept", 64 << 20), entry("worn", 4 << 20)]);
    for call in 1..=3 {
        let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
        for key in ["kept/calls", "worn/calls"] {
            assert_eq!(
                said(&snapshot, key),
                [(0, call.to_string())],
                "{key} {:?}",
                snapshot.plugins
            );
        }
    }
}

#[tokio::test]
async fn a_plugin_sees_what_is_granted_and_nothing_else() {
    let looker = Entry {
        environment: vec!["RANK".to_owned()],
        ..guest("look")
    };
    let mut plugins = load(vec![ranks(), looker]);
    let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
    let told = |key: &str| said(&snapshot, &format!("odd/{key}"))[0].1.clone();
    assert_eq!(told("task"), "train/1 on n0");
    assert_eq!(told("counts"), "2 2");
    assert_eq!(told("environment"), "200:RANK=0");
    assert_eq!(
        (told("query"), told("nothing")),
        ("{}".to_owned(), "None".to_owned())
    );
    assert_eq!(
        (told("encoded-pid"), told("encoded-secret")),
        ("true".to_owned(), "false".to_owned())
    );
    assert_eq!(
        (told("stacks"), told("encoded-stacks")),
        ("1".to_owned(), "false".to_owned())
    );
    assert_eq!(
        (told("threads"), told("own-environment")),
        ("1".to_owned(), "0".to_owned())
    );
    assert_eq!(
        (told("files"), told("network")),
        ("false".to_owned(), "false".to_owned())
    );
    let earlier = usize::try_from(outcome(&snapshot, "ranks").annotations).unwrap();
    assert_eq!(told("earlier"), earlier.to_string());
}

#[tokio::test]
async fn a_snapshot_does_not_wait_for_a_plugin_that_is_still_being_compiled() {
    let mut plugins = load_anew(vec![guest("nothing")]);
    let snapshot = plugins.enrich(machine::snapshot(1), Duration::ZERO).await;
    assert_eq!(outcome(&snapshot, "odd").outcome, OutcomeKind::NotReady);
    let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
    assert_eq!(outcome(&snapshot, "odd").outcome, OutcomeKind::Ok);
}

#[tokio::test]
async fn a_hurry_ends_the_wait_for_a_plugin_that_is_still_being_compiled() {
    let mut plugins = load_anew(vec![guest("nothing")]);
    plugins.hurry().up();
    let begun = std::time::Instant::now();
    let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
    assert_eq!(outcome(&snapshot, "odd").outcome, OutcomeKind::NotReady);
    assert!(begun.elapsed() < PATIENCE);
}

#[tokio::test]
async fn what_is_no_plugin_is_said_as_that() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        ComponentSource::File(path)
    };
    let cases = [
        (
            ComponentSource::File(directory.path().join("none.wasm")),
            "none.wasm: No such file or directory",
        ),
        (
            ComponentSource::File(directory.path().to_owned()),
            "Is a directory",
        ),
        (
            file("words.wasm", b"hello"),
            "not a WebAssembly component: it does not begin as one",
        ),
        (
            file("text.wasm", b"(module)"),
            "not a WebAssembly component: it is WebAssembly as text",
        ),
        (
            file("module.wasm", b"\0asm\x01\0\0\0"),
            "not a WebAssembly component: it is a core module; build it for the target wasm32-wasip2",
        ),
        (
            file("empty.wasm", b"\0asm\x0d\0\x01\0"),
            "it is a component of another kind: it exports nothing, and a plugin exports",
        ),
        (
            ComponentSource::Builtin("ranks".to_owned()),
            "there is no built-in plugin `ranks`; built in: torchrun-ranks, process-tags, focus-files",
        ),
    ];
    let entry = |(number, (component, _)): (usize, &(ComponentSource, &str))| Entry {
        component: component.clone(),
        instance: number.to_string(),
        ..ranks()
    };
    let mut plugins = load(cases.iter().enumerate().map(entry).collect());
    let snapshot = plugins.enrich(machine::snapshot(1), PATIENCE).await;
    for (number, (_, expected)) in cases.iter().enumerate() {
        let outcome = outcome(&snapshot, &number.to_string());
        assert_eq!(outcome.outcome, OutcomeKind::LoadFailed);
        let message = outcome.message.as_deref().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_component_that_is_not_the_pinned_one_is_refused() {
    let pin = |sha256: &str| Entry {
        sha256: Some(sha256.to_owned()),
        ..guest("nothing")
    };
    let (outcome, _) = beside_ranks(pin(&"0".repeat(64))).await;
    assert_eq!(outcome.outcome, OutcomeKind::LoadFailed);
    let message = outcome.message.unwrap();
    let found = message
        .strip_prefix("its SHA-256 is ")
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    let (outcome, _) = beside_ranks(pin(&found.to_uppercase())).await;
    assert_eq!(outcome.outcome, OutcomeKind::Ok);
    // One whose code is in the binary has a component all the same.
    let builtin = Entry {
        instance: "odd".to_owned(),
        sha256: Some("0".repeat(64)),
        ..ranks()
    };
    let (outcome, _) = beside_ranks(builtin).await;
    assert_eq!(outcome.outcome, OutcomeKind::LoadFailed);
}

#[tokio::test]
async fn plugins_say_what_they_are() {
    let ready = load(vec![ranks()]).ready(PATIENCE).await;
    let description = ready[0].1.as_ref().unwrap();
    assert_eq!(
        (description.name.as_str(), description.version.as_str()),
        ("torchrun-ranks", "0.1.0")
    );
    assert_eq!(description.needs, ["processes", "environment"]);
}
