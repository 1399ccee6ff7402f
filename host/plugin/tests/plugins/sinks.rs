//! Sinks: what is delivered, what is tried again, what is dropped, and what nobody may do outside.

mod outside;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome, SinkTally};
use serde_json::{Value, json};
use taskscope_plugin::{
    Access, ComponentSource, Directory, Entry, HttpGrant, Secret, SinkEntry, SinkGrants, Sinks,
    Storage, StorageRequest,
};
use testkit::{Answer, HttpServer};
use tokio::sync::mpsc;

use crate::reload::{put, variant_of};
use crate::{PATIENCE, about, assert_only_added, compiler, machine, ranks, said};

const SECRET: &str = "s3cr3t-of-this-test";

fn secrets() -> BTreeMap<String, Option<Secret>> {
    BTreeMap::from([("TOKEN".to_owned(), Some(Secret::new(SECRET.to_owned())))])
}

fn granted(hosts: &[&str]) -> SinkGrants {
    SinkGrants {
        http: hosts
            .iter()
            .map(|host| host.parse::<HttpGrant>().unwrap())
            .collect(),
        secrets: secrets(),
        ..SinkGrants::default()
    }
}

/// The test guest, which does what the settings say.
fn sink(instance: &str, config: &Value, grants: SinkGrants) -> SinkEntry {
    SinkEntry {
        entry: Entry {
            component: ComponentSource::File(PathBuf::from(env!("PLUGIN_TESTING_SINK"))),
            config_json: config.to_string(),
            deadline: PATIENCE,
            environment: Vec::new(),
            instance: instance.to_owned(),
            ..ranks()
        },
        grants,
    }
}

fn webhook(config: &Value, grants: SinkGrants) -> SinkEntry {
    let mut sink = sink("hook", config, grants);
    sink.entry.component = ComponentSource::Builtin("webhook".to_owned());
    sink
}

fn load(entries: Vec<SinkEntry>) -> Sinks {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins");
    Sinks::load(entries, about(), compiler(Some(cache)))
}

/// Loads sinks and waits until each of them is compiled.
async fn loaded(entries: Vec<SinkEntry>) -> Sinks {
    let sinks = load(entries);
    sinks.ready(PATIENCE).await;
    sinks
}

fn outcome(sinks: &Sinks, instance: &str) -> PluginOutcome {
    let mut outcomes = sinks.outcomes().into_iter();
    outcomes
        .find(|outcome| outcome.instance == instance)
        .unwrap()
}

fn tally(sinks: &Sinks, instance: &str) -> SinkTally {
    outcome(sinks, instance).sink.unwrap()
}

/// Waits until a sink has dealt with or lost so many snapshots.
async fn settled(sinks: &Sinks, instance: &str, count: u64) -> PluginOutcome {
    until(|| {
        let tally = tally(sinks, instance);
        tally.queued == 0 && tally.snapshots + tally.dropped >= count
    })
    .await;
    outcome(sinks, instance)
}

async fn until(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "it takes too long");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a sink says that was asked to do `config` with one snapshot.
async fn says(config: &Value, grants: SinkGrants) -> String {
    let sinks = loaded(vec![sink("odd", config, grants)]).await;
    sinks.offer(machine::snapshot(1));
    let outcome = settled(&sinks, "odd", 1).await;
    assert_eq!(outcome.outcome, OutcomeKind::Refused, "{outcome:?}");
    assert_eq!(outcome.sink.unwrap().last_dropped, outcome.message);
    outcome.message.unwrap()
}

/// A store in memory; returns what is in it once nobody can ask any more.
async fn keep(mut requests: mpsc::Receiver<StorageRequest>) -> BTreeMap<String, Vec<u8>> {
    let mut objects: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    while let Some(request) = requests.recv().await {
        match request {
            StorageRequest::Put {
                instance,
                path,
                bytes,
                reply,
            } => {
                assert_eq!(instance, "keeper");
                objects.insert(path, bytes.to_vec());
                reply.send(Ok(())).unwrap();
            }
            StorageRequest::Get { path, reply, .. } => {
                reply.send(Ok(objects.get(&path).cloned())).unwrap();
            }
            StorageRequest::List { folder, reply, .. } => {
                let found = objects.keys().filter(|path| path.starts_with(&folder));
                reply.send(Ok(found.cloned().collect())).unwrap();
            }
            StorageRequest::Delete { path, reply, .. } => {
                objects.remove(&path);
                reply.send(Ok(())).unwrap();
            }
        }
    }
    objects
}

fn finding(kind: &str) -> model::Finding {
    model::Finding {
        evidence: Vec::new(),
        kind: kind.to_owned(),
        message: "Rank 2 of 4 is not running.".to_owned(),
        plugin: Some("ranks".to_owned()),
        severity: model::Severity::Error,
        target: model::Target::Snapshot,
    }
}

/// The names of the threads of sinks whose name begins so.
fn threads_of(prefix: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // One that ends meanwhile has no name.
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    names.retain(|name| name.starts_with(&format!("sink {prefix}")));
    names.sort();
    names
}

#[tokio::test]
async fn sinks_that_are_busy_hold_up_no_other() {
    let server = HttpServer::start(|_, _| Answer::status(200));
    let busy = |number: u8| {
        let name = format!("busy-{number}");
        sink(&name, &json!({ "do": "loop" }), SinkGrants::default())
    };
    let config = json!({ "do": "post", "url": server.url() });
    let quick = sink("busy-not", &config, granted(&[&server.url()]));
    let sinks = loaded(vec![busy(1), busy(2), busy(3), quick]).await;
    sinks.offer(machine::snapshot(1));
    let outcome = settled(&sinks, "busy-not", 1).await;
    assert_eq!(outcome.outcome, OutcomeKind::Ok, "{outcome:?}");
    for number in 1..=3 {
        let tally = tally(&sinks, &format!("busy-{number}"));
        assert_eq!((tally.queued, tally.dropped), (1, 0), "it is under way");
    }
    let each = ["sink busy-1", "sink busy-2", "sink busy-3", "sink busy-not"];
    assert_eq!(threads_of("busy-"), each, "a thread for each");
    sinks.close(Duration::ZERO).await;
    until(|| threads_of("busy-").is_empty()).await;
}

#[tokio::test]
async fn the_webhook_tells_of_an_episode_once() {
    let server = HttpServer::start(|_, _| Answer::status(200));
    let config = json!({
        "url": format!("{}/hook/{{secret:TOKEN}}", server.url()),
        "headers": { "Authorization": "Bearer {secret:TOKEN}" },
        "kinds": ["missing-ranks"],
    });
    let sinks = loaded(vec![webhook(&config, granted(&[&server.url()]))]).await;
    let mut snapshot = machine::snapshot(1);
    sinks.offer(snapshot.clone());
    snapshot.findings = vec![finding("missing-ranks"), finding("other")];
    for _ in 0..3 {
        sinks.offer(snapshot.clone());
    }
    let outcome = settled(&sinks, "hook", 4).await;
    assert_eq!(
        (outcome.outcome, &outcome.message),
        (OutcomeKind::Ok, &None)
    );
    assert!(outcome.memory_bytes.is_some() && outcome.version.as_deref() == Some("0.1.0"));
    let tally = outcome.sink.unwrap();
    assert_eq!((tally.snapshots, tally.delivered, tally.dropped), (4, 1, 0));
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].line, format!("POST /hook/{SECRET}"));
    assert_eq!(
        received[0].header("authorization").unwrap(),
        format!("Bearer {SECRET}")
    );
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(body["findings"].as_array().unwrap().len(), 1);
    assert_eq!(
        body["summary"],
        "error missing-ranks: Rank 2 of 4 is not running."
    );
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_delivered_now_is_delivered_later() {
    let server = HttpServer::start(|_, before| match before {
        0 | 1 => Answer::Whole(
            503,
            vec![("Retry-After".to_owned(), "1".to_owned())],
            b"busy".to_vec(),
        ),
        _ => Answer::status(204),
    });
    let config = json!({ "url": server.url() });
    let sinks = loaded(vec![webhook(&config, granted(&[&server.url()]))]).await;
    let mut snapshot = machine::snapshot(1);
    snapshot.findings = vec![finding("missing-ranks")];
    let begun = Instant::now();
    sinks.offer(snapshot);
    until(|| outcome(&sinks, "hook").message.is_some()).await;
    let waits = outcome(&sinks, "hook");
    assert_eq!(
        waits.message.as_deref(),
        Some("the service answered 503: busy")
    );
    assert_eq!(
        (waits.outcome, tally(&sinks, "hook").queued),
        (OutcomeKind::Refused, 1)
    );
    let outcome = settled(&sinks, "hook", 1).await;
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "it did not wait as it was asked to"
    );
    assert_eq!(
        (outcome.outcome, server.received().len()),
        (OutcomeKind::Ok, 3)
    );
    assert_eq!(outcome.sink.unwrap().delivered, 1);
}

#[tokio::test]
async fn what_a_service_does_not_want_is_dropped_and_told() {
    let server =
        HttpServer::start(|_, _| Answer::Whole(403, Vec::new(), b"no such hook\n".to_vec()));
    let config = json!({ "url": server.url() });
    let sinks = loaded(vec![webhook(&config, granted(&[&server.url()]))]).await;
    let mut snapshot = machine::snapshot(1);
    snapshot.findings = vec![finding("missing-ranks")];
    sinks.offer(snapshot);
    let outcome = settled(&sinks, "hook", 1).await;
    let tally = outcome.sink.unwrap();
    let message = "the service answered 403: no such hook";
    assert_eq!(
        (tally.dropped, tally.last_dropped.as_deref()),
        (1, Some(message))
    );
}

#[tokio::test]
async fn a_full_queue_drops_the_oldest_and_counts_them() {
    let config = json!({ "do": "away", "retry-ms": "300000" });
    let sinks = loaded(vec![sink("odd", &config, SinkGrants::default())]).await;
    sinks.offer(machine::snapshot(1));
    until(|| outcome(&sinks, "odd").message.is_some()).await;
    for _ in 0..9 {
        sinks.offer(machine::snapshot(1));
    }
    let tally = tally(&sinks, "odd");
    assert_eq!((tally.queued, tally.dropped, tally.snapshots), (8, 2, 0));
    let reason = "its queue is full: the other side is away";
    assert_eq!(tally.last_dropped.as_deref(), Some(reason));
}

#[tokio::test]
async fn a_crash_costs_one_more_instance_and_then_the_snapshot() {
    let entries = vec![
        sink("once", &json!({ "do": "trap-once" }), SinkGrants::default()),
        sink("always", &json!({ "do": "trap" }), SinkGrants::default()),
        sink("fine", &json!({}), SinkGrants::default()),
    ];
    let sinks = loaded(entries).await;
    sinks.offer(machine::snapshot(1));
    let fine = settled(&sinks, "fine", 1).await;
    assert_eq!(fine.outcome, OutcomeKind::Ok);
    let once = settled(&sinks, "once", 1).await;
    assert_eq!(
        (once.outcome, once.sink.unwrap().snapshots),
        (OutcomeKind::Ok, 1)
    );
    let always = settled(&sinks, "always", 1).await;
    assert_eq!(always.outcome, OutcomeKind::Trapped);
    let tally = always.sink.unwrap();
    assert_eq!((tally.snapshots, tally.dropped), (0, 1));
    let reason = tally.last_dropped.unwrap();
    assert!(
        reason.starts_with("it crashed twice: panicked at testing-sink/src/lib.rs:")
            && reason.ends_with(": the printer is on fire"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_sink_that_refuses_its_settings_or_lacks_a_permission_is_off() {
    let entries = vec![
        sink(
            "odd",
            &json!({ "do": "refuse-config" }),
            SinkGrants::default(),
        ),
        webhook(
            &json!({ "url": "https://a.example/" }),
            SinkGrants::default(),
        ),
    ];
    let sinks = load(entries);
    let ready = sinks.ready(PATIENCE).await;
    let expected = [
        ("odd".to_owned(), Err("`colour` is no setting".to_owned())),
        (
            "hook".to_owned(),
            Err("it cannot work without the permission `http = [\"https://…\"]`".to_owned()),
        ),
    ];
    assert_eq!(ready, expected);
    sinks.offer(machine::snapshot(1));
    let odd = settled(&sinks, "odd", 1).await;
    assert_eq!(odd.outcome, OutcomeKind::ConfigRefused);
    assert_eq!(
        odd.sink.unwrap().last_dropped.as_deref(),
        Some("`colour` is no setting")
    );
}

#[tokio::test]
async fn a_sink_that_cannot_open_yet_is_asked_again_with_the_same_snapshot() {
    let config = json!({ "do": "late" });
    let sinks = loaded(vec![sink("late", &config, SinkGrants::default())]).await;
    sinks.offer(machine::snapshot(1));
    let outcome = settled(&sinks, "late", 1).await;
    assert_eq!((outcome.outcome, outcome.message), (OutcomeKind::Ok, None));
    assert_eq!(outcome.sink.unwrap().dropped, 0);
}

#[tokio::test]
async fn what_waits_goes_out_at_the_end_and_what_cannot_is_lost_in_time() {
    let server = HttpServer::start(|_, _| Answer::status(200));
    let config = json!({ "do": "post", "url": server.url() });
    let quick = sink("quick", &config, granted(&[&server.url()]));
    let away = sink("away", &json!({ "do": "away" }), SinkGrants::default());
    let sinks = loaded(vec![quick, away]).await;
    for _ in 0..3 {
        sinks.offer(machine::snapshot(1));
    }
    let begun = Instant::now();
    sinks.close(Duration::from_secs(10)).await;
    assert!(begun.elapsed() < Duration::from_mins(1));
    let received = server.received();
    assert_eq!(received.len(), 3);
    assert_eq!(received[0].body[..2], [0x1f, 0x8b]); // gzip, made by the host
    assert!(received.iter().all(|one| one.body == received[0].body));
}

#[tokio::test]
async fn whatever_a_sink_does_snapshots_are_taken_at_once_and_another_sink_has_them() {
    let server = HttpServer::start(|_, _| Answer::Silence);
    let doing = |what: &str| {
        let config = json!({ "do": what, "url": server.url() });
        let mut odd = sink(what, &config, granted(&[&server.url()]));
        odd.entry.deadline = Duration::from_secs(1);
        odd
    };
    let odd = ["loop", "trap", "post", "flood", "refuse", "away"];
    let mut entries: Vec<SinkEntry> = odd.iter().map(|what| doing(what)).collect();
    entries.push(sink("fine", &json!({}), SinkGrants::default()));
    let sinks = loaded(entries).await;
    for _ in 0..3 {
        let (snapshot, before) = (machine::snapshot(2), Instant::now());
        let outcomes = sinks.outcomes();
        sinks.offer(snapshot);
        assert_eq!(outcomes.len(), 7);
        assert!(
            before.elapsed() < Duration::from_secs(5),
            "the cycle was held up"
        );
    }
    let fine = settled(&sinks, "fine", 3).await;
    assert_eq!(
        (fine.outcome, fine.sink.unwrap().snapshots),
        (OutcomeKind::Ok, 3)
    );
    let expected = [
        ("loop", OutcomeKind::OutOfTime, "no answer within 1s"),
        ("refuse", OutcomeKind::Refused, "not this one"),
        ("away", OutcomeKind::Refused, "the other side is away"),
    ];
    for (what, kind, message) in expected {
        until(|| outcome(&sinks, what).message.is_some()).await;
        let outcome = outcome(&sinks, what);
        assert_eq!(
            (outcome.outcome, outcome.message.as_deref()),
            (kind, Some(message)),
            "{what}"
        );
    }
    // The request has a tenth less time than the call; where both share a busy thread, either may end first.
    until(|| outcome(&sinks, "post").message.is_some()).await;
    let message = outcome(&sinks, "post").message.unwrap_or_default();
    assert!(
        ["no answer within 0.9 s", "no answer within 1s"].contains(&message.as_str()),
        "{message}"
    );
}

#[tokio::test]
async fn beside_hostile_sinks_a_snapshot_is_byte_for_byte_what_it_is_without() {
    let doing = |what: &str| {
        let mut odd = sink(what, &json!({ "do": what }), SinkGrants::default());
        odd.entry.deadline = Duration::from_secs(1);
        odd
    };
    let odd = ["loop", "trap", "refuse", "away", "store"];
    let sinks = loaded(odd.iter().map(|what| doing(what)).collect()).await;
    let mut enrichers = crate::load(vec![ranks(), crate::guest("find")]);
    enrichers.ready(PATIENCE).await;
    let before = machine::snapshot(2);
    let alone = enrichers.enrich(before.clone(), PATIENCE).await;
    for _ in 0..3 {
        // As the collector does: what is told of sinks goes in before the snapshot goes to them.
        let mut beside = enrichers.enrich(before.clone(), PATIENCE).await;
        let outcomes = sinks.outcomes();
        assert_eq!(outcomes.len(), odd.len());
        beside.plugins.extend(outcomes);
        sinks.offer(beside.clone());
        assert_only_added(&beside, &before);
        assert_eq!(
            (&beside.annotations, &beside.findings),
            (&alone.annotations, &alone.findings)
        );
        assert_eq!(
            said(&beside, "rank"),
            [(200, "0".to_owned()), (201, "1".to_owned())]
        );
    }
    let expected = [
        ("loop", OutcomeKind::OutOfTime),
        ("trap", OutcomeKind::Trapped),
        ("refuse", OutcomeKind::Refused),
        ("away", OutcomeKind::Refused),
        ("store", OutcomeKind::Refused),
    ];
    for (what, kind) in expected {
        until(|| outcome(&sinks, what).message.is_some()).await;
        assert_eq!(outcome(&sinks, what).outcome, kind, "{what}");
    }
}

#[tokio::test]
async fn the_end_is_not_held_up_by_a_sink_that_never_answers() {
    let server = HttpServer::start(|_, _| Answer::Silence);
    let config = json!({ "do": "post", "url": server.url() });
    let hanging = sink("hanging", &config, granted(&[&server.url()]));
    let looping = sink("looping", &json!({ "do": "loop" }), SinkGrants::default());
    let sinks = loaded(vec![hanging, looping]).await;
    sinks.offer(machine::snapshot(1));
    until(|| !server.received().is_empty()).await;
    let begun = Instant::now();
    sinks.close(Duration::from_secs(1)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn objects_of_a_sink_are_asked_of_whoever_knows_the_store() {
    let (storage, requests) = Storage::new();
    let grants = SinkGrants {
        storage: Some(storage),
        ..SinkGrants::default()
    };
    let sinks = loaded(vec![sink("keeper", &json!({ "do": "store" }), grants)]).await;
    let server = tokio::spawn(keep(requests));
    sinks.offer(machine::snapshot(1));
    let outcome = settled(&sinks, "keeper", 1).await;
    assert_eq!((outcome.outcome, outcome.message), (OutcomeKind::Ok, None));
    sinks.close(PATIENCE).await;
    let objects = server.await.unwrap();
    assert_eq!(objects["flushed"], b"yes");
    assert_eq!(objects["closed"], b"CloseReason::TaskExit");
}

#[tokio::test]
async fn new_code_takes_over_and_the_old_is_flushed_and_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keeper.wasm");
    let plain = env!("PLUGIN_TESTING_SINK");
    put(&path, &variant_of(plain, "-plain"));
    let (storage, requests) = Storage::new();
    let grants = SinkGrants {
        storage: Some(storage),
        ..SinkGrants::default()
    };
    let mut keeper = sink("keeper", &json!({ "do": "store" }), grants);
    keeper.entry.component = ComponentSource::File(path.clone());
    let sinks = loaded(vec![keeper]).await;
    let server = tokio::spawn(keep(requests));
    sinks.offer(machine::snapshot(1));
    let before = settled(&sinks, "keeper", 1).await;
    assert_eq!(before.version.as_deref(), Some("0.0.1-plain"), "{before:?}");
    put(&path, &variant_of(plain, "-other"));
    let begun = Instant::now();
    let mut offered = 1;
    while outcome(&sinks, "keeper").version.as_deref() != Some("0.0.1-other") {
        assert!(begun.elapsed() < PATIENCE);
        sinks.offer(machine::snapshot(1));
        offered += 1;
        settled(&sinks, "keeper", offered).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(tally(&sinks, "keeper").dropped, 0);
    drop(sinks); // without a word, so nothing but the reload has closed one
    let objects = server.await.unwrap();
    assert_eq!(objects["flushed"], b"yes");
    assert_eq!(objects["closed"], b"CloseReason::Reload");
}
