//! What a sink tries outside, granted or not, and what comes of it.

use std::net::{TcpStream, ToSocketAddrs, UdpSocket};

use crate::bindings::taskscope::plugin::http::{self, Filled, Header, Method, Request, Response};
use crate::bindings::taskscope::plugin::snapshot::{self, Compression, Encoding, Format};
use crate::bindings::taskscope::plugin::storage::{self, Content};
use crate::bindings::taskscope::plugin::types::Error;
use crate::setting;

const WHOLE: Encoding = Encoding {
    format: Format::Json,
    compression: Compression::Gzip,
    stacks: true,
    annotations: true,
};

fn request(method: Method) -> Request {
    Request {
        method,
        url: Filled::Template(setting("url")),
        headers: Vec::new(),
        body: None,
        timeout_ms: setting("timeout-ms").parse().ok(),
    }
}

fn told(error: &Error) -> String {
    format!("{:?}: {}", error.kind, error.message)
}

/// Sends the snapshot as it is.
pub(crate) fn post() -> Result<(), Error> {
    let mut request = request(Method::Post);
    request.body = Some(Content::Snapshot(WHOLE));
    let response = http::send(&request)?;
    if response.status == 200 {
        return Ok(());
    }
    Err(crate::said(&format!("answered {}", response.status)))
}

/// Sends until it is stopped, and says why it was.
pub(crate) fn flood() -> String {
    for sent in 0..1_000 {
        if let Err(error) = http::send(&request(Method::Get)) {
            return format!("{sent} sent, then {}", told(&error));
        }
    }
    "nobody stopped it".to_owned()
}

/// Sends a secret to a server that sends it back, and looks for it in all of its own memory.
pub(crate) fn secret() -> Result<String, Error> {
    let mut request = request(Method::Post);
    request.headers.push(Header {
        name: "x-token".to_owned(),
        value: Filled::Template("Bearer {secret:TOKEN}".to_owned()),
    });
    let Response { headers, body, .. } = http::send(&request)?;
    let echoed = headers.iter().find(|header| header.name == "x-echo");
    let echoed = echoed
        .map(|header| header.value.clone())
        .unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let found = occurrences(setting("reversed").as_bytes());
    Ok(format!("header {echoed}, body {body}, found {found} times"))
}

/// How often the reverse of `reversed` is in this plugin's memory.
fn occurrences(reversed: &[u8]) -> usize {
    let size = core::arch::wasm32::memory_size::<0>() * (64 << 10);
    // SAFETY: all of linear memory can be read; it is read byte by byte, and nothing else runs.
    let byte = |at: usize| unsafe { core::ptr::read_volatile(at as *const u8) };
    let last = size - reversed.len();
    let is_here = |at: usize| {
        (0..reversed.len()).all(|offset| byte(at + offset) == reversed[reversed.len() - 1 - offset])
    };
    (1..last).filter(|&at| is_here(at)).count()
}

/// Reads and writes what is granted and what is not.
pub(crate) fn files() -> String {
    let read = |path: &str| std::fs::read_to_string(path).is_ok();
    let write = |path: &str| std::fs::write(path, "x").is_ok();
    format!(
        "root {} passwd {} ro {} {} escape {} rw {} {}",
        std::fs::read_dir("/").is_ok(),
        read("/etc/passwd"),
        read("/in/file"),
        write("/in/new"),
        read("/in/../secret"),
        write("/out/new"),
        read("/out/new"),
    )
}

/// Opens connections past `http`.
pub(crate) fn sockets() -> String {
    let address = setting("url").replace("http://", "");
    format!(
        "tcp {} udp {} names {}",
        TcpStream::connect(address.trim_end_matches('/')).is_ok(),
        UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.send_to(b"x", "127.0.0.1:9"))
            .is_ok(),
        ("localhost", 80).to_socket_addrs().is_ok(),
    )
}

/// Writes outside its own folder.
pub(crate) fn escape() -> String {
    let mut results = Vec::new();
    for path in ["../other/x", "a/../../x", "/etc/x", "", ".x", "a\\..\\x"] {
        let put = storage::put(path, &Content::Bytes(Vec::new()));
        results.push(format!("{:?}", put.map_err(|error| error.kind)));
    }
    let put = storage::put("../x", &Content::Bytes(Vec::new()));
    results.dedup();
    format!(
        "{}; {}",
        results.join(" "),
        put.map_or_else(|error| error.message, |()| "written".to_owned())
    )
}

/// Keeps objects, reads and lists them, and deletes one.
pub(crate) fn store() -> Result<(), Error> {
    storage::put("whole/snapshot.json.gz", &Content::Snapshot(WHOLE))?;
    storage::put("note", &Content::Bytes(b"old".to_vec()))?;
    storage::put("note", &Content::Bytes(b"new".to_vec()))?;
    storage::put("gone", &Content::Bytes(Vec::new()))?;
    storage::delete("gone")?;
    let seen = (
        storage::get("note")?,
        storage::get("gone")?,
        storage::list("")?,
        storage::list("whole")?,
    );
    let paths = |paths: &[&str]| {
        paths
            .iter()
            .map(|&path| path.to_owned())
            .collect::<Vec<_>>()
    };
    let whole = "whole/snapshot.json.gz";
    let mut all = seen.2;
    all.retain(|path| path != "flushed" && path != "closed");
    if (seen.0, seen.1, all, seen.3)
        == (
            Some(b"new".to_vec()),
            None,
            paths(&["note", whole]),
            paths(&[whole]),
        )
    {
        return Ok(());
    }
    Err(crate::said("the store is not as it was left"))
}

/// Looks for variables of the watched processes, and for its own.
#[expect(
    clippy::disallowed_methods,
    reason = "whether there is an environment is the question"
)]
pub(crate) fn environment() -> String {
    let names = ["RANK", "SECRET"].map(str::to_owned);
    let seen: Vec<String> = snapshot::environment(&names)
        .into_iter()
        .map(|found| format!("{}={}", found.name, found.value))
        .collect();
    let document = snapshot::encode(Encoding {
        compression: Compression::None,
        ..WHOLE
    });
    let document = String::from_utf8_lossy(&document.unwrap_or_default()).into_owned();
    let own = std::env::vars().count() + std::env::args().count();
    format!(
        "{} secret {} own {own}",
        seen.join(" "),
        document.contains("hunter2")
    )
}
