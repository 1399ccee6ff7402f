//! A plugin that misbehaves as its settings say: `{"do":"trap"}` and the like. For the host's tests only; never
//! embedded.

mod hostile;

mod bindings {
    #![expect(clippy::pedantic, reason = "generated")]
    wit_bindgen::generate!({ world: "enricher", path: "../../wit" });
}

use std::cell::{Cell, RefCell};

use bindings::exports::taskscope::plugin::enrich::{Enrichment, Guest as Enrich};
use bindings::exports::taskscope::plugin::plugin::{Context, Description, Guest as Plugin, Needs};
use bindings::taskscope::plugin::types::{
    Annotation, Error, ErrorKind, Evidence, Finding, Severity, Target, Value,
};
use bindings::taskscope::plugin::{snapshot, state};

thread_local! {
    /// How often this instance was called.
    static AGE: Cell<u32> = const { Cell::new(0) };
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Testing;

impl Plugin for Testing {
    fn describe() -> Description {
        Description {
            name: "testing".to_owned(),
            version: variant().to_owned(),
            summary: "misbehaves".to_owned(),
            needs: Needs::PROCESSES | Needs::DOCUMENT,
            config_schema: None,
            requires: Vec::new(),
        }
    }

    fn init(context: Context) -> Result<(), Error> {
        if asked(&context.config, "refuse-config") {
            return Err(error(ErrorKind::Config, "`colour` is no setting"));
        }
        assert!(!asked(&context.config, "trap-in-init"), "cannot even begin");
        assert!(!variant().ends_with("-traps"), "the new code cannot begin");
        CONFIG.set(context.config);
        Ok(())
    }
}

impl Enrich for Testing {
    fn run() -> Result<Enrichment, Error> {
        let config = CONFIG.with_borrow(Clone::clone);
        let does = |what: &str| asked(&config, what);
        if does("trap") {
            panic!("rank table is upside down");
        } else if let Some(enrichment) = hostile::enrichment(&config) {
            return Ok(enrichment);
        } else if does("refuse") {
            return Err(error(ErrorKind::Rejected, "no such shard"));
        } else if does("unavailable") {
            return Err(error(ErrorKind::Unavailable, "the other side is away"));
        } else if does("age") {
            AGE.set(AGE.get() + 1);
            return Ok(annotated(vec![
                note("age", &AGE.get().to_string()),
                note("total", &total().to_string()),
            ]));
        } else if does("many") {
            return Ok(annotated((0..60_000).map(|_| note("n", "x")).collect()));
        } else if does("garbage") {
            return Ok(garbage());
        } else if does("find") {
            return Ok(trouble());
        } else if does("count") {
            return Ok(annotated(vec![note("calls", &count().to_string())]));
        } else if does("look") {
            return Ok(annotated(look()));
        } else if does("once-trap") && count() == 1 {
            panic!("the first call fails");
        }
        Ok(annotated(vec![note("alive", "yes")]))
    }
}

/// The version, which tests replace in the finished component by another of its length: `-other`, or `-traps`, which
/// cannot begin.
fn variant() -> &'static str {
    std::hint::black_box("0.0.1-plain")
}

/// Whether `what` is the value of `do` in the settings, which the tests write without spaces.
fn asked(config: &str, what: &str) -> bool {
    config.contains(&format!("\"do\":\"{what}\""))
}

fn error(kind: ErrorKind, message: &str) -> Error {
    Error {
        kind,
        message: message.to_owned(),
        retry_after_ms: None,
    }
}

fn annotated(annotations: Vec<Annotation>) -> Enrichment {
    Enrichment {
        annotations,
        findings: Vec::new(),
    }
}

fn note(key: &str, text: &str) -> Annotation {
    about(Target::Snapshot, key, Value::Text(text.to_owned()))
}

fn about(target: Target, key: &str, value: Value) -> Annotation {
    Annotation {
        target,
        key: key.to_owned(),
        value,
    }
}

/// How often this plugin was called, over crashes.
fn count() -> u32 {
    let before = state::get("calls").map_or(0, |bytes| u32::from(bytes[0]));
    let now = before + 1;
    state::set("calls", &[u8::try_from(now).unwrap_or(u8::MAX)])
        .expect("one byte is within the quota");
    let whole = vec![0_u8; 2 << 20];
    assert!(
        state::set("whole", &whole).is_err(),
        "2 MiB is over the quota"
    );
    now
}

/// One finding, in every snapshot.
fn trouble() -> Enrichment {
    let finding = Finding {
        kind: "trouble".to_owned(),
        severity: Severity::Error,
        message: "Something is wrong.".to_owned(),
        target: Target::Snapshot,
        evidence: Vec::new(),
    };
    Enrichment {
        annotations: Vec::new(),
        findings: vec![finding],
    }
}

/// Counts the calls of all instances.
fn total() -> u32 {
    let before = state::get("total").and_then(|bytes| bytes.try_into().ok());
    let now = before.map_or(0, u32::from_le_bytes) + 1;
    state::set("total", &now.to_le_bytes()).expect("four bytes are within the quota");
    now
}

fn garbage() -> Enrichment {
    let text = || Value::Text("x".to_owned());
    let annotations = vec![
        about(Target::Process(4_000_000), "a", text()),
        about(Target::Thread((4_000_000, 1)), "a", text()),
        about(Target::Thread((100, 7)), "a", text()),
        about(Target::Stack(9_999), "a", text()),
        about(Target::Frame(u32::MAX), "a", text()),
        about(Target::Group("nobody".to_owned()), "a", text()),
        about(
            Target::Process(4_000_000),
            "group",
            Value::Text("ghosts".to_owned()),
        ),
        about(Target::Group("ghosts".to_owned()), "a", text()),
        about(Target::Snapshot, "Not A Key", text()),
        about(Target::Snapshot, "", text()),
        about(Target::Snapshot, "nan", Value::Number(f64::NAN)),
        about(Target::Snapshot, "infinite", Value::Number(f64::INFINITY)),
        about(Target::Snapshot, "long", Value::Text("x".repeat(5_000))),
        note("good", "yes"),
    ];
    let finding = |kind: &str, pointer: &str, value: &str| Finding {
        kind: kind.to_owned(),
        severity: Severity::Warning,
        message: "something".to_owned(),
        target: Target::Snapshot,
        evidence: vec![Evidence {
            pointer: pointer.to_owned(),
            value: value.to_owned(),
        }],
    };
    let findings = vec![
        finding("no-such-place", "/processes/99/state", "\"S\""),
        finding("other-value", "/processes/0/pid", "1"),
        finding(
            "not-granted",
            "/processes/0/distributed_environment/RANK",
            "\"0\"",
        ),
        finding("holds", "/processes/0/pid", "100"),
    ];
    Enrichment {
        annotations,
        findings,
    }
}

/// What can be seen, as annotations.
#[expect(
    clippy::disallowed_methods,
    reason = "whether there is an environment is the question"
)]
fn look() -> Vec<Annotation> {
    let about = snapshot::about();
    let names = ["RANK", "WORLD_SIZE", "SECRET"].map(str::to_owned);
    let environment: Vec<String> = snapshot::environment(&names)
        .into_iter()
        .map(|found| format!("{}:{}={}", found.pid, found.name, found.value))
        .collect();
    let encoding = snapshot::Encoding {
        format: snapshot::Format::Json,
        compression: snapshot::Compression::None,
        stacks: false,
        annotations: false,
    };
    let document =
        snapshot::encode(encoding).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let document = document.unwrap_or_default();
    let stacks = snapshot::stacks();
    let own = std::env::vars().count() + std::env::args().count();
    vec![
        note("task", &format!("{} on {}", about.task, about.node)),
        note(
            "counts",
            &format!("{} {}", about.process_count, about.thread_count),
        ),
        note("environment", &environment.join(" ")),
        note(
            "query",
            &snapshot::query("/processes/0/distributed_environment").unwrap_or_default(),
        ),
        note(
            "nothing",
            &format!("{:?}", snapshot::query("/processes/99")),
        ),
        note("encoded-secret", &document.contains("SECRET").to_string()),
        note(
            "encoded-stacks",
            &document.contains("train_step").to_string(),
        ),
        note("encoded-pid", &document.contains("\"pid\":100").to_string()),
        note("stacks", &(stacks.offsets.len() - 1).to_string()),
        note("earlier", &snapshot::annotations("").len().to_string()),
        note("threads", &snapshot::threads_of(100).len().to_string()),
        note("own-environment", &own.to_string()),
        note("files", &std::fs::read_dir("/").is_ok().to_string()),
        note(
            "network",
            &std::net::TcpStream::connect("127.0.0.1:1")
                .is_ok()
                .to_string(),
        ),
    ]
}

bindings::export!(Testing with_types_in bindings);
