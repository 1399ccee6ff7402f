//! A served page and a client that says exactly what a test wants it to.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use taskscope_view::{Server, Shown, View};
use tokio::runtime::Runtime;

/// How long a test waits for an answer on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(4);

/// A page that is served until this is dropped.
pub(crate) struct Page {
    pub(crate) address: SocketAddr,
    /// The path of the page, `/TOKEN/`.
    pub(crate) home: String,
    _runtime: Runtime,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) status: u16,
}

impl Page {
    /// Serves the store in `directory`.
    pub(crate) fn of(directory: &Path) -> Self {
        Self::shown(directory, Shown::default())
    }

    /// Serves the store in `directory`, with this run first.
    pub(crate) fn shown(directory: &Path, shown: Shown) -> Self {
        Self::with(directory, shown, 4)
    }

    /// Serves the store in `directory` with so many threads that answer.
    pub(crate) fn with(directory: &Path, shown: Shown, threads: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap();
        let view = View::new(open(directory), shown, 64 << 20, 2);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = runtime.block_on(Server::bind(any)).unwrap();
        let url = server.url();
        runtime.spawn(server.serve(view));
        let (address, home) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        Self {
            address: address.parse().unwrap(),
            home: format!("/{home}"),
            _runtime: runtime,
        }
    }

    /// Returns the address that a browser opens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.home)
    }

    /// Asks for what is below the token.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", &format!("{}{path}", self.home), &[])
    }

    /// Asks for a document.
    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap()
    }

    /// Asks for the document again and again until it is whole: what a page does as well.
    #[track_caller]
    pub(crate) fn whole(&self, path: &str) -> Value {
        let begun = std::time::Instant::now();
        loop {
            let document = self.json(path);
            if document["missing"] == 0 {
                return document;
            }
            assert!(begun.elapsed() < DEADLINE, "{path} is never whole");
        }
    }

    /// Asks for a whole path, with headers beside those that every client sends.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut lines = vec![("Connection", "close")];
        let host = self.address.to_string();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            lines.push(("Host", &host));
        }
        lines.extend(headers);
        let lines: Vec<String> = lines
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let request = format!("{method} {path} HTTP/1.1\r\n{}\r\n", lines.concat());
        self.say(request.as_bytes())
    }

    /// Sends bytes as they are, and reads what comes until the connection ends. A connection that ends without an answer has
    /// status 0.
    pub(crate) fn say(&self, request: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // A request that is refused early may not be taken whole.
        _ = stream.write_all(request);
        let mut text = Vec::new();
        _ = stream.read_to_end(&mut text);
        Reply::parse(&text)
    }
}

impl Reply {
    fn parse(text: &[u8]) -> Self {
        let end = text.windows(4).position(|it| it == b"\r\n\r\n");
        let head = String::from_utf8_lossy(&text[..end.unwrap_or(0)]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        });
        Self {
            body: text[end.map_or(0, |end| end + 4)..].to_vec(),
            headers: headers.collect(),
            status: status.map_or(0, |status| status.parse().unwrap()),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

fn open(directory: &Path) -> store::Store {
    let location = store::Location::parse(".", directory).unwrap();
    store::Store::open(&location).unwrap()
}
