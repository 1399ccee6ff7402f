//! Real storage servers on loopback: moto (S3), gcp-storage-emulator (GCS) and Azurite (Azure), each from its registry
//! and kept in the target directory between runs.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::waiting::holds_within;
use crate::{environment, newest_python, venv};

/// The bucket or container that each has.
pub const BUCKET: &str = "bucket";
/// Azurite's account; both are written in its manual.
pub const AZURE_ACCOUNT: &str = "devstoreaccount1";
/// Azurite's key.
pub const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const REQUIREMENTS: &str = include_str!("../../servers/requirements.txt");
const CONTAINER_SCRIPT: &str = include_str!("../../servers/container.py");
const AZURITE: &str = "azurite@3.35.0";
/// How long a server may take to answer, on a machine that is busy.
const START: Duration = Duration::from_mins(2);

/// A server at work. It dies with the value.
#[derive(Debug)]
pub struct StorageServer {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl StorageServer {
    /// Starts an S3 server. Nothing where it cannot be had: the reason is printed, and the test is to be skipped.
    pub fn s3() -> Option<Self> {
        let program = python_program("moto_server")?;
        let port = free_port();
        let server = Self::start(
            Command::new(program).args(["-H", "127.0.0.1", "-p", &port.to_string()]),
            port,
        );
        let made = ask(port, "PUT", &format!("/{BUCKET}"));
        assert!(made.contains(" 200 "), "{made}");
        Some(server)
    }

    /// Starts a server of Google Cloud Storage, or skips.
    pub fn gcs() -> Option<Self> {
        let program = python_program("gcp-storage-emulator")?;
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["start", "--host=127.0.0.1", "--in-memory"]);
        command.args([
            format!("--port={port}"),
            format!("--default-bucket={BUCKET}"),
        ]);
        Some(Self::start(&mut command, port))
    }

    /// Starts a server of Azure Blob Storage, or skips.
    pub fn azure() -> Option<Self> {
        let program = azurite()?;
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
        command.args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]);
        command.arg("--disableTelemetry");
        let server = Self::start(&mut command, port);
        let made = Command::new(&newest_python().path)
            .args(["-c", CONTAINER_SCRIPT, &server.azure_endpoint()])
            .args([AZURE_ACCOUNT, AZURE_KEY, BUCKET])
            .output()
            .expect("Python runs");
        let words = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "no container: {words}");
        Some(server)
    }

    /// Where Azurite answers for its account.
    pub fn azure_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{AZURE_ACCOUNT}", self.port)
    }

    fn start(command: &mut Command, port: u16) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        // Dies with this value from here on, if it never answers.
        let server = Self { child, port };
        let answers = holds_within(START, || !ask(port, "GET", "/").is_empty());
        assert!(answers, "{command:?} does not answer");
        server
    }
}

impl Drop for StorageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Returns the beginning of the answer, or nothing.
fn ask(port: u16, verb: &str, path: &str) -> String {
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?;
        let mut beginning = [0; 64];
        let length = stream.read(&mut beginning)?;
        Ok(String::from_utf8_lossy(&beginning[..length]).into_owned())
    });
    asked.unwrap_or_default()
}

fn python_program(name: &str) -> Option<PathBuf> {
    let lines = REQUIREMENTS.lines();
    let requirements: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    let interpreter = venv(newest_python(), &requirements)?;
    Some(interpreter.with_file_name(name))
}

fn azurite() -> Option<PathBuf> {
    let directory = environment::target_directory().join("tmp").join(AZURITE);
    match install_azurite(&directory) {
        Ok(program) => Some(program),
        Err(reason) => {
            #[expect(
                clippy::print_stderr,
                reason = "a skipped test must not look like a passed one"
            )]
            {
                eprintln!("SKIPPED: {AZURITE} cannot be had: {reason}");
            }
            None
        }
    }
}

fn install_azurite(directory: &Path) -> Result<PathBuf, String> {
    let say = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(say)?;
    // Tests run in several processes at once; the lock goes with the file when we are done or dead.
    let lock = File::create(directory.join(".lock")).map_err(say)?;
    lock.lock().map_err(say)?;
    let program = directory.join("node_modules/.bin/azurite-blob");
    let complete = directory.join(".complete");
    if complete.exists() {
        return Ok(program);
    }
    let output = Command::new("npm")
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            "--prefix",
        ])
        .arg(directory)
        .arg(AZURITE)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("npm: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    File::create(complete).map_err(say)?;
    Ok(program)
}
