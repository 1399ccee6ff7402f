//! `taskscope plugin`, and that the built-in plugins are ready when a task starts.

use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::{Answer, DEADLINE, HttpServer, Sandbox, newest_python};

use crate::support::{
    binary, four_ranks, misbehaving, sandbox, snapshot, stored, testing_sink, wait_for_snapshot,
    wait_for_stored,
};

const BUILTINS: [&str; 3] = ["torchrun-ranks", "process-tags", "focus-files"];

#[test]
fn check_tells_what_a_component_is_or_why_it_is_none() {
    let sandbox = sandbox();
    for name in BUILTINS {
        let output = sandbox.run(["plugin", "check", &format!("builtin:{name}")]);
        let output = output.success();
        let expected = format!("plugin    {name} 0.1.0\n");
        assert!(output.stdout.starts_with(&expected), "{output}");
        for words in [
            "is        an enricher, built against",
            "imports   ",
            "pin       sha256 = \"",
        ] {
            assert!(output.stdout.contains(words), "{output}");
        }
    }
    let ranks = sandbox
        .run(["plugin", "check", "builtin:torchrun-ranks"])
        .success();
    let needs = "needs     permissions = { environment = [\"RANK\", \"WORLD_SIZE\"] } or { environment = [\"OMPI_COMM_WORLD_*\"] } or";
    assert!(ranks.stdout.contains(needs), "{ranks}");

    let guest = misbehaving();
    let output = sandbox
        .run(["plugin", "check", "--json", guest.to_str().unwrap()])
        .success();
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (
            &document["fits"],
            &document["contract"]["world"],
            &document["served"]
        ),
        (&true.into(), &"enricher".into(), &"0.1.0".into())
    );

    sandbox.write("words.wasm", "hello");
    let cases = [
        (
            "words.wasm",
            "words.wasm cannot be used: not a WebAssembly component: it does not begin as one",
        ),
        ("none.wasm", "none.wasm cannot be used: "),
    ];
    for (component, expected) in cases {
        let output = sandbox.run(["plugin", "check", component]).exited(1);
        assert!(output.stderr.contains(expected), "{output}");
        let output = sandbox
            .run(["plugin", "check", "--json", component])
            .exited(1);
        let document: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(document["fits"], false);
    }
    let output = sandbox
        .run(["plugin", "check", "builtin:nothing"])
        .exited(2);
    let expected = "there is no built-in plugin `nothing`; built in: torchrun-ranks, process-tags, focus-files, webhook";
    assert!(output.stderr.contains(expected), "{output}");
}

#[test]
fn check_tells_what_a_sink_may_use_and_needs() {
    let sandbox = sandbox();
    let hook = sandbox
        .run(["plugin", "check", "builtin:webhook"])
        .success();
    assert!(
        hook.stdout.starts_with("plugin    webhook 0.1.0\n"),
        "{hook}"
    );
    for words in [
        "is        a sink, built against taskscope:plugin 0.1.0",
        "requests to the hosts that are granted",
        "needs     permissions = { http = [\"https://…\"] }",
        "settings  ",
    ] {
        assert!(hook.stdout.contains(words), "{hook}");
    }
    assert!(!hook.stdout.contains("objects in the store"), "{hook}");
    let guest = testing_sink();
    let testing = sandbox.run(["plugin", "check", guest.to_str().unwrap()]);
    let testing = testing.success();
    for words in [
        "is        a sink, ",
        "objects in the store, under its own prefix, where granted",
        "files, in the directories that are granted",
        "needs     no permission; it makes requests where `http` grants hosts; it keeps objects where `storage` is \
         granted; it reads those environment variables of processes that are granted\n",
    ] {
        assert!(testing.stdout.contains(words), "{testing}");
    }
}

#[test]
fn list_shows_what_the_settings_load_and_what_is_wrong_with_it() {
    let sandbox = sandbox();
    let guest = misbehaving();
    let guest = guest.display();
    sandbox.write(
        "collector.toml",
        &format!(
            "[[enricher]]\nname = \"process-tags\"\nenabled = false\n\
             [[enricher]]\nname = \"fine\"\nwasm = \"{guest}\"\npermissions = {{ environment = [\"RANK\"] }}\n\
             limits = {{ memory = \"32 MiB\", deadline = \"3s\" }}\n\
             [[enricher]]\nname = \"pinned\"\nwasm = \"{guest}\"\nsha256 = \"{}\"\n\
             [[enricher]]\nname = \"refusing\"\nwasm = \"{guest}\"\nconfig = {{ do = \"refuse-config\" }}\n",
            "0".repeat(64)
        ),
    );
    let output = sandbox.run(["plugin", "list", "--json"]).exited(2);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let rows = document["plugins"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let all = [&BUILTINS[..], &["fine", "pinned", "refusing"]].concat();
    assert_eq!(names, all);
    let tags = row("process-tags");
    assert_eq!(
        (&tags["enabled"], &tags["code"]),
        (&false.into(), &"embedded".into())
    );
    let fine = row("fine");
    assert_eq!(
        (&fine["problem"], &fine["code"], &fine["plugin"]),
        (&Value::Null, &"cached".into(), &"testing".into())
    );
    assert_eq!(fine["environment"], serde_json::json!(["RANK"]));
    let limits = serde_json::json!({ "deadline_ms": 3000, "memory_bytes": 32 << 20 });
    assert_eq!(fine["limits"], limits);
    let problem = |name: &str| row(name)["problem"].as_str().unwrap().to_owned();
    let pin = problem("pinned");
    assert!(pin.contains("and the settings pin 0000"), "{pin}");
    assert_eq!(problem("refusing"), "`colour` is no setting");

    let output = sandbox.run(["plugin", "list"]).exited(2);
    for words in [
        "disabled",
        "cannot be used",
        "32.0 MiB",
        "RANK",
        "compiled plugins are kept in ",
    ] {
        assert!(output.stdout.contains(words), "{output}");
    }
    assert!(
        output
            .stderr
            .contains("error: plugin refusing: `colour` is no setting"),
        "{output}"
    );
    sandbox.write("collector.toml", "");
    sandbox.run(["plugin", "list"]).success();
}

/// Settings of five sinks: with a host and secrets, with folders, without a host, no sink, and switched off.
fn write_sinks(sandbox: &Sandbox) {
    let guest = testing_sink();
    let guest = guest.display();
    std::fs::create_dir(sandbox.path("out")).unwrap();
    sandbox.write(
        "collector.toml",
        &format!(
            "[[sink]]\nname = \"hook\"\nwasm = \"builtin:webhook\"\nconfig = {{ url = \"https://a.example/\" }}\n\
             permissions = {{ http = [\"a.example\"], secrets = [\"HOOK_TOKEN\", \"NO_SUCH\"] }}\n\
             [[sink]]\nname = \"all\"\nwasm = \"{guest}\"\nlimits = {{ memory = \"32 MiB\", deadline = \"3s\" }}\n\
             permissions = {{ environment = [\"RANK\"], storage = true, dirs = [{{ host = \"out\", guest = \"/out\", mode = \"rw\" }}] }}\n\
             [[sink]]\nname = \"bare\"\nwasm = \"builtin:webhook\"\nconfig = {{ url = \"https://a.example/\" }}\n\
             [[sink]]\nname = \"other\"\nwasm = \"{}\"\n\
             [[sink]]\nname = \"off\"\nwasm = \"{guest}\"\nenabled = false\n",
            misbehaving().display()
        ),
    );
}

#[test]
fn list_shows_sinks_with_all_that_they_are_granted() {
    let sandbox = sandbox().environment("HOOK_TOKEN", "x");
    write_sinks(&sandbox);
    let output = sandbox.run(["plugin", "list", "--json"]).exited(2);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let rows = document["plugins"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(rows.len(), BUILTINS.len() + 5);
    assert_eq!(row("focus-files")["http"], Value::Null);
    let hook = row("hook");
    assert_eq!(
        (&hook["kind"], &hook["problem"]),
        (&"sink".into(), &Value::Null)
    );
    assert_eq!(
        (&hook["code"], &hook["plugin"]),
        (&"embedded".into(), &"webhook".into())
    );
    assert_eq!(hook["http"], serde_json::json!(["https://a.example:443"]));
    let secrets = serde_json::json!([{ "is_set": true, "name": "HOOK_TOKEN" }, { "is_set": false, "name": "NO_SUCH" }]);
    assert_eq!(hook["secrets"], secrets);
    assert_eq!(hook["limits"]["deadline_ms"], 10_000);
    let all = row("all");
    assert_eq!(
        (&all["problem"], &all["code"]),
        (&Value::Null, &"cached".into())
    );
    assert_eq!(
        (&all["storage"], &all["environment"][0]),
        (&true.into(), &"RANK".into())
    );
    assert_eq!(
        (&all["dirs"][0]["guest"], &all["dirs"][0]["mode"]),
        (&"/out".into(), &"rw".into())
    );
    let limits = serde_json::json!({ "deadline_ms": 3000, "memory_bytes": 32 << 20 });
    assert_eq!(all["limits"], limits);
    let missing = "it cannot work without the permission `http = [\"https://…\"]`";
    assert_eq!(row("bare")["problem"], missing);
    let wrong = "error: plugin other: it is an enricher, and this entry wants a sink";
    assert!(output.stderr.contains(wrong), "{output}");
    assert_eq!(
        (&row("off")["enabled"], &row("off")["problem"]),
        (&false.into(), &Value::Null)
    );
    let output = sandbox.run(["plugin", "list"]).exited(2);
    for words in [
        "https://a.example:443, secret HOOK_TOKEN, secret NO_SUCH (not set)",
        "RANK, rw ",
        ", storage",
        "disabled",
    ] {
        assert!(output.stdout.contains(words), "{output}");
    }
}

#[test]
fn an_enricher_without_what_it_needs_is_refused_in_words() {
    let sandbox = sandbox();
    let ranks = misbehaving().with_file_name("torchrun_ranks.wasm");
    sandbox.write(
        "collector.toml",
        &format!(
            "[[enricher]]\nname = \"mine\"\nwasm = \"{}\"\n",
            ranks.display()
        ),
    );
    let output = sandbox.run(["plugin", "list"]).exited(2);
    let missing = "error: plugin mine: it cannot work without the permission `environment = [\"RANK\", \"WORLD_SIZE\"] or environment";
    assert!(output.stderr.contains(missing), "{output}");
    // Where Slurm alone numbers the ranks its variables are enough.
    sandbox.write(
        "collector.toml",
        &format!(
            "[[enricher]]\nname = \"mine\"\nwasm = \"{}\"\npermissions = {{ environment = [\"SLURM_*\"] }}\n",
            ranks.display()
        ),
    );
    let output = sandbox.run(["plugin", "list"]).success();
    assert!(!output.stderr.contains("cannot work"), "{output}");
}

#[test]
fn what_is_wrong_with_entries_that_are_switched_off_is_listed_and_fails_nothing() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        "[[enricher]]\nname = \"mine\"\nenabled = false\n\
         [[sink]]\nname = \"hook\"\nwasm = \"builtin:webhook\"\nenabled = false\npermissions = { http = [\"https://a.example/x\"] }\n\
         [[sink]]\nname = \"a/b\"\nwasm = \"x.wasm\"\nenabled = false\n",
    );
    let output = sandbox.run(["plugin", "list"]).success();
    for words in [
        "plugin mine, which is disabled: [[enricher]] `mine`: there is no built-in plugin `mine`",
        "plugin hook, which is disabled: permissions.http: `https://a.example/x` is no host; write ",
        "plugin a/b, which is disabled: [[sink]] `a/b`: its name is to be 1 to 64",
    ] {
        assert!(output.stderr.contains(words), "{output}");
    }
    assert_eq!(output.stdout.matches("disabled").count(), 3, "{output}");
    let output = sandbox.run(["plugin", "list", "--json"]).success();
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let rows = document["plugins"].as_array().unwrap();
    assert_eq!(rows.len(), BUILTINS.len() + 3);
    let hook = rows.iter().find(|row| row["name"] == "hook").unwrap();
    assert_eq!(
        (&hook["origin"], &hook["enabled"], &hook["limits"]),
        (&"builtin:webhook".into(), &false.into(), &Value::Null)
    );
    // The same entries that are switched on are refused as before.
    sandbox.write("collector.toml", "[[enricher]]\nname = \"mine\"\n");
    let output = sandbox.run(["plugin", "list"]).exited(2);
    assert!(
        output.stderr.contains("there is no built-in plugin `mine`"),
        "{output}"
    );
}

#[test]
fn a_test_of_a_sink_sends_nothing_and_shows_what_it_would() {
    let sandbox = sandbox();
    let server = HttpServer::start(|_, _| Answer::status(200));
    let (finder, url) = (misbehaving(), server.url());
    sandbox.write(
        "collector.toml",
        &format!(
            "[[enricher]]\nname = \"finder\"\nwasm = \"{}\"\nconfig = {{ do = \"find\" }}\n",
            finder.display()
        ),
    );
    let task = "while [ ! -e stop ]; do sleep 0.05; done";
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", "sh", "-c", task]);
    let has_trouble = |snapshot: &Value| snapshot["findings"].to_string().contains("\"trouble\"");
    wait_for_snapshot(&sandbox, has_trouble);
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
    let ids = stored(&sandbox);
    let troubles = ids.iter().filter(|id| has_trouble(&snapshot(&sandbox, id)));
    let (count, troubles) = (ids.len(), troubles.count());
    // A run would send; a test does not, though all is granted.
    sandbox.write(
        "collector.toml",
        &format!(
            "[[sink]]\nname = \"hook\"\nwasm = \"builtin:webhook\"\n\
             config = {{ url = \"{url}/hook/{{secret:HOOK_TOKEN}}\", kinds = [\"trouble\"] }}\n\
             permissions = {{ http = [\"{url}\"], secrets = [\"HOOK_TOKEN\"] }}\n"
        ),
    );
    let on = ["plugin", "test", "builtin:webhook", "--on", ".taskscope"];
    let output = sandbox.run(on).success();
    let request = format!("  not sent: POST {url}/hook/{{secret:HOOK_TOKEN}} with ");
    assert_eq!(
        output.stdout.matches(&request).count(),
        troubles,
        "{output}"
    );
    for words in ["Refused: nothing is sent in a test", "flush and close  "] {
        assert!(output.stdout.contains(words), "{output}");
    }
    assert!(
        output.stderr.contains(" not sent, because this is a test"),
        "{output}"
    );
    assert_eq!(server.received(), []);

    // With nothing to tell.
    let quiet = [&on[..], &["--json", "--setting", "kinds=[\"none\"]"]].concat();
    let output = sandbox.run(quiet).success();
    let done: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(done.len(), count + 1);
    assert_eq!(done[0]["outcome"]["outcome"], "ok");
    assert_eq!(
        (&done[0]["delivered"], &done[0]["kept_back"]),
        (&0.into(), &serde_json::json!([]))
    );
    assert_eq!(done[count]["snapshot"], Value::Null);
}

#[test]
fn a_test_of_a_sink_says_what_it_took_and_what_went_wrong() {
    let sandbox = sandbox();
    sandbox.run(["run", "--", "true"]).success();
    let guest = testing_sink();
    let test = |what: &str| {
        let setting = format!("do={what}");
        let guest = guest.to_str().unwrap();
        sandbox.run([
            "plugin",
            "test",
            guest,
            "--on",
            ".taskscope",
            "--setting",
            &setting,
        ])
    };
    let taken = test("nothing").success();
    assert!(
        taken.stdout.contains("  1 delivered  0 skipped  "),
        "{taken}"
    );
    let crashed = test("trap").exited(1);
    assert!(
        crashed.stderr.contains(" was not taken: ")
            && crashed.stderr.contains("the printer is on fire"),
        "{crashed}"
    );
    assert!(!crashed.stdout.contains("flush and close"), "{crashed}");
    let stores = test("store").exited(1);
    assert!(stores.stderr.contains("storage is not granted"), "{stores}");
}

#[test]
fn what_a_plugin_says_of_a_stored_run_is_what_the_run_recorded() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        "[capture]\nprocess-pattern = \"train[.]py\"\nfocus-files = [\"train.py\"]\n\
         [[enricher]]\nname = \"process-tags\"\nconfig = { rules = [{ tag = \"job\", command = \"launch\" }] }\n",
    );
    let python = newest_python().path.to_str().unwrap().to_owned();
    let launch = four_ranks().join("launch.py");
    let command = [&python, launch.to_str().unwrap()];
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", command[0], command[1]]);
    wait_for_stored(&sandbox, 6);
    running.signal(15);
    let _ = running.wait(DEADLINE);
    let count = stored(&sandbox).len();
    for name in BUILTINS {
        let component = format!("builtin:{name}");
        let on = ["plugin", "test", &component, "--on", ".taskscope", "--json"];
        let output = sandbox.run(on).success();
        let answers: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(answers.len(), count);
        for answer in &answers {
            assert_eq!(answer["recorded"], "same", "{name}: {answer}");
        }
        let said = answers
            .iter()
            .any(|answer| answer["annotations"] != serde_json::json!([]));
        assert!(said, "{name}: {output}");
        assert!(
            output
                .stderr
                .contains(&format!("{count} snapshots: median ")),
            "{output}"
        );
    }
    // Other settings, one snapshot, as a file: not the last one, which may show that all have ended.
    let id = stored(&sandbox).swap_remove(3);
    sandbox.write("one.json", &snapshot(&sandbox, &id).to_string());
    let rules = "rules=[{\"tag\":\"other\",\"command\":\"launch\"}]";
    let output = sandbox
        .run([
            "plugin",
            "test",
            "builtin:process-tags",
            "--on",
            "one.json",
            "--setting",
            rules,
        ])
        .success();
    assert!(output.stdout.contains("tag = other"), "{output}");
    assert!(
        output.stdout.contains("NOT the same as in the run"),
        "{output}"
    );
}

#[test]
fn a_test_of_a_plugin_that_fails_says_so() {
    let sandbox = sandbox();
    let document = sandbox.run([
        "snapshot",
        "--pid",
        &std::process::id().to_string(),
        "--json",
    ]);
    sandbox.write("one.json", &document.success().stdout);
    let guest = misbehaving();
    let guest = guest.to_str().unwrap();
    let on = [
        "plugin",
        "test",
        guest,
        "--on",
        "one.json",
        "one.json",
        "--setting",
        "do=trap",
    ];
    let output = sandbox.run(on).exited(1);
    assert!(output.stderr.contains("no answer to "), "{output}");
    assert!(
        output.stderr.contains("rank table is upside down"),
        "{output}"
    );
    let output = sandbox
        .run(["plugin", "test", guest, "--on", "nowhere"])
        .exited(1);
    let expected = "--on nowhere: there is neither a snapshot file nor a store of this name";
    assert!(output.stderr.contains(expected), "{output}");
    sandbox.write("bad.json", "{}");
    let output = sandbox
        .run(["plugin", "test", guest, "--on", "bad.json"])
        .exited(2);
    assert!(output.stderr.contains("cannot read `bad.json`"), "{output}");
}

/// Processes that take all CPU they get; they end with this.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Self {
        let spin = || {
            Command::new("/bin/sh")
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        Self((0..count).map(|_| spin()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn built_in_plugins_answer_in_the_first_snapshot_of_a_busy_machine_with_no_cache() {
    let load = Load::start(6);
    for cache in ["empty-cache", "/proc/no-cache-here"] {
        let sandbox = Sandbox::new(&binary());
        let cache = sandbox.path(cache);
        let sandbox = sandbox
            .environment("XDG_CACHE_HOME", cache.to_str().unwrap())
            .environment("TASKSCOPE_NAME", "test/one");
        sandbox.run(["run", "--", "sleep", "0.05"]).success();
        let ids = stored(&sandbox);
        let first = snapshot(&sandbox, &ids[0]);
        let outcomes: Vec<&Value> = first["plugins"].as_array().unwrap().iter().collect();
        assert_eq!(outcomes.len(), BUILTINS.len());
        for outcome in outcomes {
            assert_eq!(outcome["outcome"], "ok", "{outcome}");
        }
        assert!(!cache.join("taskscope").exists(), "nothing was compiled");
    }
    drop(load);
}
