//! Sinks: what is delivered, what is tried again, what is dropped, and what nobody may do outside.

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

use crate::{PATIENCE, about, compiler, machine, ranks};

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
    sinks.close(Duration::from_secs(20)).await;
    assert!(begun.elapsed() < Duration::from_secs(22));
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
            before.elapsed() < Duration::from_secs(1),
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
        ("post", OutcomeKind::Refused, "no answer within 0.9 s"),
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
    let (storage, mut requests) = Storage::new();
    let grants = SinkGrants {
        storage: Some(storage),
        ..SinkGrants::default()
    };
    let sinks = loaded(vec![sink("keeper", &json!({ "do": "store" }), grants)]).await;
    let server = tokio::spawn(async move {
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
    });
    sinks.offer(machine::snapshot(1));
    let outcome = settled(&sinks, "keeper", 1).await;
    assert_eq!((outcome.outcome, outcome.message), (OutcomeKind::Ok, None));
    sinks.close(PATIENCE).await;
    let objects = server.await.unwrap();
    assert_eq!(objects["flushed"], b"yes");
    assert_eq!(objects["closed"], b"CloseReason::TaskExit");
}

mod outside {
    //! What nobody may do.

    use super::*;

    #[tokio::test]
    async fn a_host_that_is_not_granted_is_not_reached() {
        let server = HttpServer::start(|_, _| Answer::status(200));
        let url = server.url();
        let not_granted =
            format!("{url} is not granted; `http = [\"{url}\"]` in its permissions would");
        let post = |url: &str| json!({ "do": "post", "url": url });
        assert_eq!(
            says(&post(&url), granted(&["https://a.example"])).await,
            not_granted
        );
        assert_eq!(says(&post(&url), granted(&[])).await, not_granted);
        let other_port = format!("http://127.0.0.1:{}", server.port() - 1);
        assert_eq!(
            says(&post(&url), granted(&[&other_port])).await,
            not_granted
        );
        let disguised = format!("http://a.example@127.0.0.1:{}/", server.port());
        assert_eq!(
            says(&post(&disguised), granted(&["http://a.example"])).await,
            not_granted
        );
        assert_eq!(server.received(), []);
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_followed() {
        let server = HttpServer::start(|_, _| Answer::status(200));
        // The name of this machine: it leads to itself, or nowhere.
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let name = name.trim().to_ascii_lowercase();
        let url = format!("http://{name}:{}", server.port());
        let config = json!({ "do": "post", "url": url, "timeout-ms": "5000" });
        let message = says(&config, granted(&[&url]));
        // Without such an address, the lookup has failed and the snapshot would wait for ever.
        let message = tokio::time::timeout(Duration::from_mins(2), message).await;
        let leads = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 80));
        if let Some(address) = leads.ok().and_then(|mut addresses| addresses.next()) {
            let expected = format!(
                "`{name}` leads to {}, an address of the inside that is not granted by itself",
                address.ip()
            );
            assert_eq!(message.unwrap(), expected);
        }
        assert_eq!(server.received(), []);
    }

    #[tokio::test]
    async fn localhost_is_reached_where_it_is_granted_by_name() {
        let server = HttpServer::start(|_, _| Answer::status(200));
        let url = format!("http://localhost:{}", server.port());
        let sinks = loaded(vec![sink(
            "odd",
            &json!({ "do": "post", "url": url }),
            granted(&[&url]),
        )])
        .await;
        sinks.offer(machine::snapshot(1));
        assert_eq!(settled(&sinks, "odd", 1).await.outcome, OutcomeKind::Ok);
        assert_eq!(server.received().len(), 1);
    }

    #[tokio::test]
    async fn a_secret_never_reaches_the_memory_of_the_plugin() {
        // The service sends back what it was sent, in a header and in the body.
        let server = HttpServer::start(|received, _| {
            let token = received.header("x-token").unwrap().to_owned();
            let body = format!("got {token}");
            Answer::Whole(200, vec![("X-Echo".to_owned(), token)], body.into_bytes())
        });
        let reversed: String = SECRET.chars().rev().collect();
        let config = json!({ "do": "secret", "url": server.url(), "reversed": reversed });
        let said = says(&config, granted(&[&server.url()])).await;
        let place = "Bearer {secret:TOKEN}";
        assert_eq!(
            said,
            format!("header {place}, body got {place}, found 0 times")
        );
        assert_eq!(
            server.received()[0].header("x-token").unwrap(),
            format!("Bearer {SECRET}")
        );
        // The search does find what is there: the settings hold the reverse of this.
        let config =
            json!({ "do": "secret", "url": server.url(), "reversed": SECRET, "there": reversed });
        let said = says(&config, granted(&[&server.url()])).await;
        assert!(!said.ends_with("found 0 times"), "{said}");
    }

    #[tokio::test]
    async fn a_secret_that_is_not_granted_is_not_filled_in() {
        let server = HttpServer::start(|_, _| Answer::status(200));
        let config = json!({ "do": "secret", "url": server.url() });
        let grants = SinkGrants {
            secrets: BTreeMap::new(),
            ..granted(&[&server.url()])
        };
        let expected =
            "the secret `TOKEN` is not granted; `secrets = [\"TOKEN\"]` in its permissions would";
        assert_eq!(says(&config, grants).await, expected);
        assert_eq!(server.received(), []);
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_is_not_followed() {
        let other = HttpServer::start(|_, _| Answer::status(200));
        let location = other.url();
        let server = HttpServer::start(move |_, _| {
            Answer::Whole(
                302,
                vec![("Location".to_owned(), location.clone())],
                Vec::new(),
            )
        });
        let config = json!({ "do": "post", "url": server.url() });
        assert_eq!(
            says(&config, granted(&[&server.url(), &other.url()])).await,
            "answered 302"
        );
        assert_eq!(other.received(), []);
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_not_taken() {
        let server = HttpServer::start(|_, _| Answer::Whole(200, Vec::new(), vec![b'x'; 3 << 20]));
        let config = json!({ "do": "post", "url": server.url() });
        let said = says(&config, granted(&[&server.url()])).await;
        assert_eq!(said, "the answer has more than 1 MiB of body");
    }

    #[tokio::test]
    async fn a_server_that_hangs_costs_the_call_no_more_than_its_deadline() {
        let server = HttpServer::start(|_, _| Answer::Silence);
        let config = json!({ "do": "post", "url": server.url() });
        let mut hanging = sink("hanging", &config, granted(&[&server.url()]));
        hanging.entry.deadline = Duration::from_secs(2);
        let sinks = loaded(vec![hanging]).await;
        sinks.offer(machine::snapshot(1));
        until(|| outcome(&sinks, "hanging").message.is_some()).await;
        let outcome = outcome(&sinks, "hanging");
        assert_eq!(
            (outcome.outcome, outcome.message.as_deref()),
            (OutcomeKind::Refused, Some("no answer within 1.8 s"))
        );
        assert_eq!(tally(&sinks, "hanging").queued, 1);
    }

    #[tokio::test]
    async fn a_flood_of_requests_is_stopped() {
        let server = HttpServer::start(|_, _| Answer::status(200));
        let config = json!({ "do": "flood", "url": server.url() });
        let said = says(&config, granted(&[&server.url()])).await;
        assert_eq!(
            said,
            "64 sent, then ErrorKind::Limit: more than 64 requests in one call"
        );
        assert_eq!(server.received().len(), 64);
    }

    #[tokio::test]
    async fn there_are_no_sockets_but_by_way_of_the_grants() {
        let server = HttpServer::start(|_, _| Answer::status(200));
        let config = json!({ "do": "sockets", "url": server.url() });
        let said = says(&config, granted(&[&server.url()])).await;
        assert_eq!(said, "tcp false udp false names false");
    }

    #[tokio::test]
    async fn only_directories_that_are_granted_are_seen() {
        let room = tempfile::tempdir().unwrap();
        for (folder, file) in [("in", "in/file"), ("out", "secret")] {
            std::fs::create_dir(room.path().join(folder)).unwrap();
            std::fs::write(room.path().join(file), "x").unwrap();
        }
        let config = json!({ "do": "files" });
        let nothing = "root false passwd false ro false false escape false rw false false";
        assert_eq!(says(&config, SinkGrants::default()).await, nothing);
        let directory = |name: &str, access| Directory {
            access,
            guest: format!("/{name}"),
            host: room.path().join(name),
        };
        let grants = SinkGrants {
            directories: vec![
                directory("in", Access::Read),
                directory("out", Access::ReadWrite),
            ],
            ..SinkGrants::default()
        };
        let some = "root false passwd false ro true false escape false rw true true";
        assert_eq!(says(&config, grants).await, some);
        assert!(room.path().join("out/new").exists() && !room.path().join("in/new").exists());
    }

    #[tokio::test]
    async fn only_variables_that_are_granted_are_seen() {
        let mut looker = sink(
            "odd",
            &json!({ "do": "environment" }),
            SinkGrants::default(),
        );
        looker.entry.environment = vec!["RANK".to_owned()];
        let sinks = loaded(vec![looker]).await;
        sinks.offer(machine::snapshot(1));
        let outcome = settled(&sinks, "odd", 1).await;
        assert_eq!(
            outcome.message.as_deref(),
            Some("RANK=0 secret false own 0")
        );
    }

    #[tokio::test]
    async fn no_object_lies_outside_the_folder() {
        let config = json!({ "do": "escape" });
        let denied = "Err(ErrorKind::Denied); storage is not granted; `storage = true` in its permissions would";
        assert_eq!(says(&config, SinkGrants::default()).await, denied);
        let (storage, mut requests) = Storage::new();
        let grants = SinkGrants {
            storage: Some(storage),
            ..SinkGrants::default()
        };
        let said = says(&config, grants).await;
        assert!(
            said.starts_with("Err(ErrorKind::Rejected); `../x` is no path; it has 8 names at most"),
            "{said}"
        );
        assert!(requests.try_recv().is_err(), "a path reached the store");
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_holds_nobody_up() {
        let (storage, _requests) = Storage::new();
        let grants = SinkGrants {
            storage: Some(storage),
            ..SinkGrants::default()
        };
        let mut keeper = sink("keeper", &json!({ "do": "store" }), grants);
        keeper.entry.deadline = Duration::from_secs(2);
        let sinks = loaded(vec![keeper]).await;
        sinks.offer(machine::snapshot(1));
        until(|| outcome(&sinks, "keeper").message.is_some()).await;
        let outcome = outcome(&sinks, "keeper");
        assert_eq!(
            outcome.message.as_deref(),
            Some("the store did not answer within 1.8 s")
        );
    }

    #[tokio::test]
    async fn an_enricher_cannot_ask_for_http() {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins");
        let entry = sink("odd", &json!({}), SinkGrants::default()).entry;
        let mut plugins =
            taskscope_plugin::Plugins::load(vec![entry], about(), compiler(Some(cache)));
        let reason = plugins.ready(PATIENCE).await.remove(0).1.unwrap_err();
        assert!(
            reason.starts_with("it does not fit the world `enricher` of taskscope:plugin@0.1: "),
            "{reason}"
        );
        let sinks = load(vec![SinkEntry {
            entry: ranks(),
            grants: SinkGrants::default(),
        }]);
        let reason = sinks.ready(PATIENCE).await.remove(0).1.unwrap_err();
        assert!(
            reason.starts_with("it does not fit the world `sink` of taskscope:plugin@0.1: "),
            "{reason}"
        );
    }
}
