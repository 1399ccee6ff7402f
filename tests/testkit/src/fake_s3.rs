//! A stand-in for S3 on loopback that speaks the few verbs a store needs, and fails as it is told.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The one bucket.
const BUCKET: &str = "bucket";

/// How a request goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum S3Fault {
    /// It is answered with this status and code, and nothing is done.
    Answer(u16, &'static str),
    /// The connection is cut in the middle of the body: the request's for `PUT`, else the answer's.
    Cut,
    /// It is done, but the connection is cut before the answer.
    LoseReply,
    /// It is never answered.
    Hang,
}

/// The server. It ends with the value.
#[derive(Debug)]
pub struct FakeS3 {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    objects: BTreeMap<String, Vec<u8>>,
    rules: Vec<Rule>,
    requests: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    verb: &'static str,
    part: &'static str,
    fault: S3Fault,
    times: usize,
}

#[derive(Debug)]
struct Request {
    verb: String,
    key: String,
    query: String,
    only_new: bool,
    length: usize,
}

impl FakeS3 {
    /// Starts it on a free port.
    pub fn start() -> Self {
        Self::start_at(0)
    }

    /// Starts it on this port, or a free one for 0.
    pub fn start_at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.state().is_over {
                    return;
                }
                let shared = Arc::clone(&of_thread);
                // A client that goes away in the middle is what tests are about.
                thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        Self { address, shared }
    }

    /// Returns a port at which nobody listens.
    pub fn free_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        listener.local_addr().expect("it is bound").port()
    }

    /// The URL of a store in the server at `port`.
    pub fn url_at(port: u16) -> String {
        format!(
            "s3://{BUCKET}/prefix?endpoint=http://127.0.0.1:{port}&access_key_id=test&secret_access_key=hunter2"
        )
    }

    /// The URL of a store in it.
    pub fn url(&self) -> String {
        Self::url_at(self.address.port())
    }

    /// Makes the next `times` requests of `verb` (`LIST` for a list) whose key contains `part` go wrong.
    pub fn fail(&self, verb: &'static str, part: &'static str, fault: S3Fault, times: usize) {
        self.shared.state().rules.push(Rule {
            verb,
            part,
            fault,
            times,
        });
    }

    /// Ends all faults, but not for requests that hang already.
    pub fn heal(&self) {
        self.shared.state().rules.clear();
    }

    /// Every request so far, as `VERB key`.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        self.shared.state().objects.keys().cloned().collect()
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault_of(&self, request: &Request) -> Option<S3Fault> {
        let mut state = self.state();
        let Request { verb, key, .. } = request;
        state.requests.push(format!("{verb} {key}"));
        let rule = state
            .rules
            .iter_mut()
            .find(|rule| rule.times > 0 && rule.verb == verb && key.contains(rule.part))?;
        rule.times -= 1;
        Some(rule.fault)
    }
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let request = read_head(&mut reader)?;
    let fault = shared.fault_of(&request);
    if let (Some(S3Fault::Cut), "PUT") = (fault, request.verb.as_str()) {
        let mut half = vec![0; request.length / 2];
        return reader.read_exact(&mut half);
    }
    let mut body = vec![0; request.length];
    reader.read_exact(&mut body)?;
    match fault {
        Some(S3Fault::Answer(status, code)) => refuse(stream, status, code),
        Some(S3Fault::LoseReply) => {
            act(&request, body, shared);
            Ok(())
        }
        Some(S3Fault::Hang) => {
            while !shared.state().is_over {
                thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        }
        Some(S3Fault::Cut) => {
            let whole = act(&request, body, shared);
            stream.write_all(&whole[..whole.len() - whole.len() / 4])
        }
        None => stream.write_all(&act(&request, body, shared)),
    }
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Request> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let verb = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path.trim_start_matches('/').strip_prefix(BUCKET);
    let key = decoded(key.unwrap_or_default().trim_start_matches('/'));
    let (mut length, mut only_new) = (0, false);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "if-none-match" => only_new = value.trim() == "*",
            _ => {}
        }
    }
    let is_list = verb == "GET" && key.is_empty();
    Ok(Request {
        verb: if is_list { "LIST".to_owned() } else { verb },
        key: if is_list {
            parameter(query, "prefix")
        } else {
            key
        },
        query: query.to_owned(),
        only_new,
        length,
    })
}

/// Does what is asked and returns the whole answer.
fn act(request: &Request, body: Vec<u8>, shared: &Shared) -> Vec<u8> {
    let mut state = shared.state();
    let key = &request.key;
    match request.verb.as_str() {
        "PUT" if request.only_new && state.objects.contains_key(key) => {
            answer(412, &error("PreconditionFailed"))
        }
        "PUT" => {
            state.objects.insert(key.clone(), body);
            answer(200, b"")
        }
        "DELETE" => {
            state.objects.remove(key);
            answer(204, b"")
        }
        "LIST" => answer(200, &list(&state.objects, request)),
        _ => match state.objects.get(key) {
            None => answer(404, &error("NoSuchKey")),
            Some(content) if request.verb == "HEAD" => head(200, content),
            Some(content) => answer(200, content),
        },
    }
}

fn refuse(mut stream: &TcpStream, status: u16, code: &str) -> io::Result<()> {
    stream.write_all(&answer(status, &error(code)))
}

fn error(code: &str) -> Vec<u8> {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as the test asked</Message></Error>")
        .into_bytes()
}

fn answer(status: u16, body: &[u8]) -> Vec<u8> {
    let mut whole = head(status, body);
    if status != 204 {
        whole.extend_from_slice(body);
    }
    whole
}

fn head(status: u16, body: &[u8]) -> Vec<u8> {
    let sum: u64 = body.iter().fold(7, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!(
        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\nETag: \"{sum:x}-{}\"\r\n\
         Last-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n\r\n",
        body.len(),
        body.len()
    )
    .into_bytes()
}

fn list(objects: &BTreeMap<String, Vec<u8>>, request: &Request) -> Vec<u8> {
    let prefix = parameter(&request.query, "prefix");
    let is_flat = parameter(&request.query, "delimiter").is_empty();
    let mut entries = Vec::new();
    let mut folders = Vec::new();
    for (key, content) in objects.range(prefix.clone()..) {
        let Some(rest) = key.strip_prefix(&prefix) else {
            break;
        };
        match rest.split_once('/') {
            Some((folder, _)) if !is_flat => folders.push(format!("{prefix}{folder}/")),
            _ => entries.push(format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-30T00:00:00.000Z</LastModified>\
                 <ETag>\"x\"</ETag><Size>{}</Size></Contents>",
                content.len()
            )),
        }
    }
    folders.dedup();
    for folder in folders {
        entries.push(format!(
            "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"
        ));
    }
    format!(
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>",
        entries.concat()
    )
    .into_bytes()
}

fn parameter(query: &str, name: &str) -> String {
    let mut parts = query.split('&').filter_map(|part| part.split_once('='));
    let found = parts.find(|(part, _)| *part == name);
    found.map_or_else(String::new, |(_, value)| decoded(value))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
        let digits = std::str::from_utf8(&digits).unwrap_or_default();
        bytes.push(u8::from_str_radix(digits, 16).unwrap_or_default());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
