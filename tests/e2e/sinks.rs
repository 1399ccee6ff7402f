//! Sinks: the webhook against a real server, and what becomes of snapshots that it does not take.

mod tls;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Answer, DEADLINE, HttpServer, Running, Sandbox, wait_until};

use crate::support::{files, misbehaving, sandbox, stored, testing_sink, wait_for_snapshot};

const SECRET: &str = "T0k3n/of/this-test";

/// A sandbox with an enricher that finds the same in every snapshot, and a webhook that tells of it to `server`.
fn hooked(server: &HttpServer, more: &str) -> Sandbox {
    hooked_to(&server.url(), more)
}

/// The same for a server at `url`.
fn hooked_to(url: &str, more: &str) -> Sandbox {
    let sandbox = sandbox().environment("HOOK_TOKEN", SECRET);
    let finder = misbehaving();
    sandbox.write(
        "collector.toml",
        &format!(
            "[[enricher]]\nname = \"finder\"\nwasm = \"{}\"\nconfig = {{ do = \"find\" }}\n\
             [[sink]]\nname = \"hook\"\nwasm = \"builtin:webhook\"\n\
             config = {{ url = \"{url}/hook/{{secret:HOOK_TOKEN}}\", kinds = [\"trouble\"], format = \"slack\" }}\n{more}",
            finder.display()
        ),
    );
    sandbox
}

/// What the webhook needs, for the end of [`hooked`].
fn granted(server: &HttpServer) -> String {
    format!(
        "permissions = {{ http = [\"{}\"], secrets = [\"HOOK_TOKEN\"] }}\n",
        server.url()
    )
}

fn watch(sandbox: &Sandbox) -> Running {
    let task = "while [ ! -e stop ]; do sleep 0.05; done; exit 5";
    sandbox.spawn(["run", "--interval", "300ms", "--", "sh", "-c", task])
}

/// The sink's part in a snapshot.
fn hook(snapshot: &Value) -> &Value {
    let mut outcomes = snapshot["plugins"].as_array().unwrap().iter();
    outcomes.find(|it| it["instance"] == "hook").unwrap()
}

/// Whether `text` is in any file below `directory`.
fn is_written(directory: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return is_written(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    })
}

#[test]
fn the_webhook_tells_once_and_its_secret_is_nowhere_else() {
    let server = HttpServer::start(|_, _| Answer::Whole(200, Vec::new(), b"ok".to_vec()));
    let sandbox = hooked(&server, &granted(&server)).environment("TASKSCOPE_LOG", "trace");
    let running = watch(&sandbox);
    let seen = wait_for_snapshot(&sandbox, |it| {
        hook(it)["sink"]["snapshots"].as_u64() >= Some(3)
    });
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    assert_eq!(hook(&seen)["outcome"], "ok");
    assert_eq!(hook(&seen)["sink"]["delivered"], 1);
    let received = server.received();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].line, format!("POST /hook/{SECRET}"));
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(
        text.starts_with("test/one on ") && text.ends_with(": error trouble: Something is wrong."),
        "{text}"
    );
    assert!(output.stderr.contains("Plugin started"), "{output}");
    let told = output.stderr.lines().find(|line| line.contains(SECRET));
    assert_eq!(told, None);
    let shown = sandbox.run(["show", "--json"]).success().stdout;
    assert!(!shown.contains(SECRET) && !is_written(sandbox.directory(), SECRET));
    let settings = sandbox.run(["config", "show"]).success().stdout;
    assert!(settings.contains("{secret:HOOK_TOKEN}") && !settings.contains(SECRET));
}

/// A service that asks for a second of patience, then takes everything.
fn busy_at_first() -> HttpServer {
    HttpServer::start(|_, before| match before {
        0 => Answer::Whole(
            503,
            vec![("Retry-After".to_owned(), "1".to_owned())],
            Vec::new(),
        ),
        _ => Answer::status(200),
    })
}

#[test]
fn what_a_service_has_no_time_for_comes_again_after_the_time_it_asks_for() {
    let server = busy_at_first();
    let sandbox = hooked(&server, &granted(&server));
    let running = watch(&sandbox);
    let waiting = wait_for_snapshot(&sandbox, |it| hook(it)["outcome"] == "refused");
    assert_eq!(hook(&waiting)["message"], "the service answered 503");
    let told = wait_for_snapshot(&sandbox, |it| hook(it)["sink"]["delivered"] == 1);
    assert_eq!(
        (&hook(&told)["outcome"], &hook(&told)["sink"]["dropped"]),
        (&"ok".into(), &0.into())
    );
    assert_eq!(server.received().len(), 2);
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    assert_eq!(
        output
            .stderr
            .matches("Plugin hook has no answer: the service answered 503")
            .count(),
        1,
        "{output}"
    );
}

#[test]
fn a_host_that_is_not_granted_is_refused_once_in_words() {
    let server = HttpServer::start(|_, _| Answer::status(200));
    let permissions =
        "permissions = { http = [\"https://hooks.example.com\"], secrets = [\"HOOK_TOKEN\"] }\n";
    let sandbox = hooked(&server, permissions);
    let running = watch(&sandbox);
    let seen = wait_for_snapshot(&sandbox, |it| {
        hook(it)["sink"]["dropped"].as_u64() >= Some(2)
    });
    let url = server.url();
    let reason = format!("{url} is not granted; `http = [\"{url}\"]` in its permissions would");
    assert_eq!(hook(&seen)["message"], reason.as_str());
    assert_eq!(hook(&seen)["sink"]["last_dropped"], reason.as_str());
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    assert_eq!(output.stderr.matches(&reason).count(), 1, "{output}");
    assert_eq!(server.received(), []);
}

#[test]
fn a_server_that_hangs_delays_nothing_and_what_it_keeps_waiting_is_counted() {
    let server = HttpServer::start(|_, _| Answer::Silence);
    let sandbox = hooked(&server, &granted(&server));
    let running = watch(&sandbox);
    wait_until(DEADLINE, || !server.received().is_empty());
    let begun = Instant::now();
    let full = wait_for_snapshot(&sandbox, |it| {
        hook(it)["sink"]["dropped"].as_u64() >= Some(2)
    });
    let tally = &hook(&full)["sink"];
    // One of them is with the sink, but for the second after a call that got no answer.
    assert!(
        [Some(8), Some(9)].contains(&tally["queued"].as_u64()),
        "{tally}"
    );
    assert_eq!(tally["delivered"], 0);
    let reason = tally["last_dropped"].as_str().unwrap();
    assert!(reason.starts_with("its queue is full"), "{reason}");
    // Snapshots go on at their pace: these are more than a call of ten seconds would let through.
    assert!(stored(&sandbox).len() >= 11 && begun.elapsed() < DEADLINE);
    sandbox.write("stop", "");
    let begun = Instant::now();
    let output = running.wait(DEADLINE).exited(5);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        output.stderr.contains("[taskscope] warning: Sink hook: ")
            && output.stderr.contains(" not delivered before the end"),
        "{output}"
    );
}

#[test]
fn what_waits_when_the_task_ends_still_goes_out() {
    let server = busy_at_first();
    let sandbox = hooked(&server, &granted(&server));
    let task = "while [ ! -e stop ]; do sleep 0.05; done";
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", "sh", "-c", task]);
    wait_until(DEADLINE, || server.received().len() == 1);
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).success();
    assert_eq!(server.received().len(), 2, "{output}");
    assert!(!output.stderr.contains("not delivered"), "{output}");
}

#[test]
fn a_sink_keeps_objects_of_its_own_beside_the_snapshots() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        &format!(
            "[[sink]]\nname = \"hook\"\nwasm = \"{}\"\nconfig = {{ do = \"store\" }}\npermissions = {{ storage = true }}\n",
            testing_sink().display()
        ),
    );
    let running = watch(&sandbox);
    wait_for_snapshot(&sandbox, |it| {
        hook(it)["sink"]["snapshots"].as_u64() >= Some(1)
    });
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(5);
    let folder = sandbox.path(".taskscope/test/one/attempt-0/plugins/hook");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert_eq!(
        (read("note").as_str(), read("flushed").as_str()),
        ("new", "yes"),
        "{output}"
    );
    assert_eq!(read("closed"), "CloseReason::TaskExit");
    assert_eq!(files(&folder, "snapshot.json.gz").len(), 1);
    // Readers of snapshots do not take them for any.
    let listed = sandbox.run(["list", "--json"]).success().stdout;
    let tasks: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!((tasks.len(), &tasks[0]["task"]), (1, &"test/one".into()));
}

#[test]
fn wrong_grants_are_refused_before_the_task_starts() {
    let sandbox = sandbox();
    let sink = "[[sink]]\nname = \"webhook\"\nconfig = { url = \"https://a.example/\" }\n";
    sandbox.write(
        "collector.toml",
        &format!("{sink}permissions = {{ http = [\"*\"] }}\n"),
    );
    let output = sandbox.run(["run", "--", "touch", "started"]).exited(125);
    assert!(
        output
            .stderr
            .contains("[[sink]] `webhook`: permissions.http: `*` is no host; write "),
        "{output}"
    );
    assert!(!sandbox.path("started").exists());
    sandbox.write("collector.toml", sink);
    let output = sandbox.run(["config", "check"]).exited(2);
    let missing =
        "error: plugin webhook: it cannot work without the permission `http = [\"https://…\"]`";
    assert!(output.stderr.contains(missing), "{output}");
    sandbox.write(
        "collector.toml",
        &format!("{sink}permissions = {{ http = [\"a.example\"] }}\n"),
    );
    let output = sandbox.run(["config", "check"]).success();
    assert!(
        output.stderr.contains("plugin webhook: webhook 0.1.0"),
        "{output}"
    );
}
