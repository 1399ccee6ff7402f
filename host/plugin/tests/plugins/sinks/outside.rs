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

/// What is told of the sink `odd`, which waits for what never comes. A busy machine may take all of a short deadline, so that the sink
/// has no time to say what was the matter: then it gets a longer one.
async fn waits_in_vain(entry: &SinkEntry) -> PluginOutcome {
    let mut told = None;
    for deadline in [2, 20].map(Duration::from_secs) {
        let mut odd = entry.clone();
        odd.entry.deadline = deadline;
        let sinks = loaded(vec![odd]).await;
        sinks.offer(machine::snapshot(1));
        until(|| outcome(&sinks, "odd").message.is_some()).await;
        let outcome = outcome(&sinks, "odd");
        let is_in_time = outcome.outcome != OutcomeKind::OutOfTime;
        told = Some(outcome);
        if is_in_time {
            break;
        }
    }
    told.unwrap()
}

#[tokio::test]
async fn a_server_that_hangs_costs_the_call_no_more_than_its_deadline() {
    let server = HttpServer::start(|_, _| Answer::Silence);
    let config = json!({ "do": "post", "url": server.url() });
    let outcome = waits_in_vain(&sink("odd", &config, granted(&[&server.url()]))).await;
    assert_eq!(outcome.outcome, OutcomeKind::Refused);
    // Nine tenths of what is left of the deadline: 1.8 s, or 18.
    let message = outcome.message.unwrap();
    assert!(message.starts_with("no answer within 1"), "{message}");
    assert_eq!(outcome.sink.unwrap().queued, 1);
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
    let denied =
        "Err(ErrorKind::Denied); storage is not granted; `storage = true` in its permissions would";
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
    let keeper = sink("odd", &json!({ "do": "store" }), grants);
    let message = waits_in_vain(&keeper).await.message.unwrap();
    assert!(
        message.starts_with("the store did not answer within 1"),
        "{message}"
    );
}

#[tokio::test]
async fn an_enricher_cannot_ask_for_http() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins");
    let entry = sink("odd", &json!({}), SinkGrants::default()).entry;
    let mut plugins = taskscope_plugin::Plugins::load(vec![entry], about(), compiler(Some(cache)));
    let reason = plugins.ready(PATIENCE).await.remove(0).1.unwrap_err();
    assert_eq!(reason, "it is a sink, and this entry wants an enricher");
    let sinks = load(vec![SinkEntry {
        entry: ranks(),
        grants: SinkGrants::default(),
    }]);
    let reason = sinks.ready(PATIENCE).await.remove(0).1.unwrap_err();
    assert_eq!(reason, "it is an enricher, and this entry wants a sink");
}
