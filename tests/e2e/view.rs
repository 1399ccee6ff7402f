//! `view`: a page on this machine, and nothing of it on stdout.

use std::io::{Read, Write};
use std::net::TcpStream;

use testkit::{DEADLINE, Running, wait_until};

use crate::support::{sandbox, stored};

/// Waits for the address that a program prints, and returns it.
#[track_caller]
fn address(running: &Running) -> String {
    let line = || {
        let stderr = running.stderr();
        let line = stderr
            .lines()
            .find(|line| line.contains("http://127.0.0.1:"));
        line.map(|line| line.trim_start_matches("[taskscope] ").to_owned())
    };
    wait_until(DEADLINE, || line().is_some());
    line().unwrap()
}

/// Asks a page for what is below its address.
fn get(address: &str, path: &str) -> String {
    let (host, home) = address
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request =
        format!("GET /{home}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_stored_run_is_a_page_whose_address_is_printed() {
    let sandbox = sandbox();
    sandbox.run(["run", "--", "sleep", "0.2"]).success();
    assert!(!stored(&sandbox).is_empty());
    let running = sandbox.spawn(["view", "--open"]);
    let address = address(&running);
    let page = get(&address, "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(
        page.contains("test/one") && page.contains("id=\"verdict\""),
        "{page}"
    );
    assert!(get(&address, "api/v1/run").contains("\"task\":\"test/one\""));
    assert_eq!(running.stdout(), "");
    assert_eq!(running.stderr().lines().count(), 1, "{}", running.stderr());
    running.signal(2);
    running.wait(DEADLINE).killed_by(2);
}

#[test]
fn a_run_shows_itself_while_it_lasts_and_its_output_is_its_own() {
    let sandbox = sandbox();
    let task = "echo begun; while [ ! -e stop ]; do sleep 0.05; done; exit 3";
    let running = sandbox.spawn([
        "run",
        "--view",
        "--interval",
        "200ms",
        "--",
        "sh",
        "-c",
        task,
    ]);
    let address = address(&running);
    wait_until(DEADLINE, || get(&address, "").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "part/processes").contains("sh -c"));
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).exited(3);
    assert_eq!(output.stdout, "begun\n");
}

#[test]
fn a_port_that_is_taken_and_a_foreign_address_are_said() {
    let sandbox = sandbox();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = sandbox.run(["view", "--port", &port]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains(&format!("cannot listen at 127.0.0.1:{port}")),
        "{}",
        refused.stderr
    );
    let open = sandbox.spawn(["view", "--address", "0.0.0.0"]);
    let address = address(&open);
    assert!(
        open.stderr()
            .contains("warning: whoever reaches this address")
    );
    let empty = get(&address, "");
    assert!(
        empty.starts_with("HTTP/1.1 404") && empty.contains("no snapshots yet"),
        "{empty}"
    );
}
