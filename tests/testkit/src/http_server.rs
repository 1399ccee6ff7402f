//! An HTTP server on loopback that answers as a test says, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a client may take with one request.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server; it ends when this is dropped, and with it every connection that it keeps waiting.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What the server was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its body.
    pub body: Vec<u8>,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its method and path, such as `POST /hook`.
    pub line: String,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status, headers, and a body.
    Whole(u16, Vec<(String, String)>, Vec<u8>),
    /// Nothing, while the server lives.
    Silence,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    received: Mutex<Vec<Received>>,
    /// Connections that are kept waiting.
    waiting: Mutex<Vec<TcpStream>>,
}

impl Answer {
    /// Returns an answer of `status` with nothing else.
    pub fn status(status: u16) -> Self {
        Self::Whole(status, Vec::new(), Vec::new())
    }
}

impl Received {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl HttpServer {
    /// Starts a server that answers with what `answer` says of a request and of how many came before it.
    pub fn start(answer: impl Fn(&Received, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ours.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (ours, answer) = (Arc::clone(&ours), Arc::clone(&answer));
                // A client that goes away is its own business.
                thread::spawn(move || serve(stream, &ours, &*answer).ok());
            }
        });
        Self { address, shared }
    }

    /// Returns where it is, such as `http://127.0.0.1:40000`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns what it was asked so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received().clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // wakes the thread that accepts
    }
}

impl Shared {
    fn received(&self) -> std::sync::MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(
    stream: TcpStream,
    shared: &Shared,
    answer: &dyn Fn(&Received, usize) -> Answer,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let received = read(&mut reader)?;
    let before = {
        let mut all = shared.received();
        all.push(received.clone());
        all.len() - 1
    };
    match answer(&received, before) {
        Answer::Silence => {
            let mut waiting = shared
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            waiting.push(stream);
        }
        Answer::Whole(status, headers, body) => {
            let length = ("content-length".to_owned(), body.len().to_string());
            let mut lines = vec![
                format!("HTTP/1.1 {status} X"),
                "connection: close".to_owned(),
            ];
            for (name, value) in headers.iter().chain([&length]) {
                lines.push(format!("{name}: {value}"));
            }
            let head = lines.join("\r\n") + "\r\n\r\n";
            let mut stream = stream;
            stream.write_all(head.as_bytes())?;
            stream.write_all(&body)?;
        }
    }
    Ok(())
}

fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Received> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line
        .rsplit_once(' ')
        .map_or("", |(line, _)| line)
        .to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Received {
        body,
        headers,
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_as_it_is_told_and_remembers_what_it_was_asked() {
        let server = HttpServer::start(|received, before| {
            assert_eq!(before, 0);
            Answer::Whole(
                503,
                vec![("retry-after".to_owned(), "1".to_owned())],
                received.body.clone(),
            )
        });
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .write_all(b"POST /hook HTTP/1.1\r\nX-Token: a\r\ncontent-length: 2\r\n\r\nhi")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503 X\r\n")
                && answer.ends_with("retry-after: 1\r\ncontent-length: 2\r\n\r\nhi"),
            "{answer}"
        );
        let received = &server.received()[0];
        assert_eq!(
            (received.line.as_str(), received.header("x-token")),
            ("POST /hook", Some("a"))
        );
    }
}
