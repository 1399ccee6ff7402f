//! A sink that does what its settings say: `{"do":"post","url":"…"}` and the like. What it found out it says as an error
//! of the kind `rejected`, whose message is in the outcome. For the host's tests only; never embedded.

mod bindings {
    #![expect(clippy::pedantic, reason = "generated")]
    wit_bindgen::generate!({ world: "sink", path: "../../wit" });
}
mod outside;

use std::cell::RefCell;
use std::hint::black_box;

use bindings::exports::taskscope::plugin::deliver::{CloseReason, Guest as Deliver, Receipt};
use bindings::exports::taskscope::plugin::plugin::{Context, Description, Guest as Plugin, Needs};
use bindings::taskscope::plugin::types::{Error, ErrorKind};
use bindings::taskscope::plugin::{state, storage};
use serde_json::Value;

thread_local! {
    static CONFIG: RefCell<Value> = const { RefCell::new(Value::Null) };
}

struct Testing;

impl Plugin for Testing {
    fn describe() -> Description {
        Description {
            name: "testing-sink".to_owned(),
            version: variant().to_owned(),
            summary: "does what it is told".to_owned(),
            needs: Needs::PROCESSES | Needs::DOCUMENT,
            config_schema: None,
            requires: Vec::new(),
        }
    }

    fn init(context: Context) -> Result<(), Error> {
        CONFIG.set(serde_json::from_str(&context.config).unwrap_or_default());
        if asked("refuse-config") {
            return Err(error(ErrorKind::Config, "`colour` is no setting"));
        }
        Ok(())
    }
}

/// The version, which tests replace in the finished component by another of its length.
fn variant() -> &'static str {
    black_box("0.0.1-plain")
}

impl Deliver for Testing {
    fn open() -> Result<(), Error> {
        if asked("late") && count("opened") < 3 {
            return Err(again("nobody is there yet"));
        }
        Ok(())
    }

    fn write() -> Result<Receipt, Error> {
        let text = setting("do");
        let taken = Receipt {
            delivered: 1,
            skipped: 0,
        };
        match text.as_str() {
            "trap" => panic!("the printer is on fire"),
            "trap-once" if count("calls") == 1 => panic!("the first call fails"),
            "loop" => loop {
                black_box(0);
            },
            "refuse" => Err(error(ErrorKind::Rejected, "not this one")),
            "away" => Err(Error {
                kind: ErrorKind::Unavailable,
                message: "the other side is away".to_owned(),
                retry_after_ms: setting("retry-ms").parse().ok(),
            }),
            "away-twice" if count("calls") <= 2 => Err(again("not yet")),
            "post" => outside::post().map(|()| taken),
            "flood" => Err(said(&outside::flood())),
            "secret" => Err(said(&outside::secret()?)),
            "files" => Err(said(&outside::files())),
            "sockets" => Err(said(&outside::sockets())),
            "escape" => Err(said(&outside::escape())),
            "store" => outside::store().map(|()| taken),
            "environment" => Err(said(&outside::environment())),
            _ => Ok(taken),
        }
    }

    fn flush() -> Result<(), Error> {
        if !asked("store") {
            return Ok(());
        }
        storage::put("flushed", &storage::Content::Bytes(b"yes".to_vec()))
    }

    fn close(reason: CloseReason) {
        if asked("store") {
            let reason = format!("{reason:?}");
            let _ = storage::put("closed", &storage::Content::Bytes(reason.into_bytes()));
        }
    }
}

fn setting(key: &str) -> String {
    CONFIG.with_borrow(|config| config[key].as_str().unwrap_or_default().to_owned())
}

fn asked(what: &str) -> bool {
    setting("do") == what
}

fn error(kind: ErrorKind, message: &str) -> Error {
    Error {
        kind,
        message: message.to_owned(),
        retry_after_ms: None,
    }
}

fn said(text: &str) -> Error {
    error(ErrorKind::Rejected, text)
}

fn again(message: &str) -> Error {
    Error {
        kind: ErrorKind::Unavailable,
        message: message.to_owned(),
        retry_after_ms: Some(50),
    }
}

/// Counts in the state, so over instances.
fn count(key: &str) -> u8 {
    let now = state::get(key)
        .map_or(0, |bytes| bytes[0])
        .saturating_add(1);
    state::set(key, &[now]).expect("one byte is within the quota");
    now
}

bindings::export!(Testing with_types_in bindings);
