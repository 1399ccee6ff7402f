//! Who is let in, and what a hostile client gets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Barrier};

use crate::client::{DEADLINE, Page};
use crate::job::{self, Job};

const SMALL: Job = Job {
    nodes: 1,
    ranks: 2,
    snapshots: 4,
    stuck: None,
};

fn page() -> (tempfile::TempDir, Page) {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), SMALL);
    let page = Page::of(root.path());
    (root, page)
}

#[test]
fn without_the_token_nothing_is_there() {
    let (_root, page) = page();
    let token = page.home.trim_matches('/').to_owned();
    let wrong: String = token.chars().rev().collect();
    for path in [
        "/".to_owned(),
        "/runs".to_owned(),
        "/api/v1/runs".to_owned(),
        "/assets/page.js".to_owned(),
        format!("/{wrong}/"),
        format!("/{}/", &token[1..]),
        format!("/{}/", token.to_uppercase()),
        format!("//{token}/"),
        format!("/x/../{token}/"),
    ] {
        let reply = page.ask("GET", &path, &[]);
        // A token of digits alone has no other case.
        let is_same = path.trim_matches('/') == token && !path.starts_with("//");
        assert!(reply.status == 404 || is_same, "{path}: {}", reply.status);
        assert!(!reply.text().contains(&token), "{path}");
    }
    assert_eq!(page.get("").status, 200);
}

#[test]
fn names_that_are_led_here_and_other_pages_are_refused() {
    let (_root, page) = page();
    for (header, value) in [
        ("Host", "evil.example"),
        ("Host", "evil.example:80"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
    ] {
        let reply = page.ask(
            "GET",
            &format!("{}api/v1/run", page.home),
            &[(header, value)],
        );
        assert_eq!(reply.status, 403, "{header}: {value}");
        assert_eq!(reply.header("access-control-allow-origin"), "");
        assert!(!reply.text().contains("node-0"));
    }
}

#[test]
fn every_answer_is_guarded() {
    let (_root, page) = page();
    for path in [
        "",
        "runs",
        "api/v1/run",
        "assets/page.js",
        "nothing",
        "part/verdict",
    ] {
        let reply = page.get(path);
        let policy = reply.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none';"),
            "{path}: {policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), "", "{path}");
        let text = reply.text();
        // The one style within a page is known by a number that nobody can guess.
        for style in text.split("<style").skip(1) {
            let nonce = style.split('"').nth(1).unwrap_or_default();
            assert!(nonce.len() >= 32 && policy.contains(&format!("style-src 'nonce-{nonce}'")));
        }
        for inline in [
            " style=",
            " onclick=",
            " onload=",
            "javascript:",
            "http://",
            "https://",
        ] {
            let is_name = inline.starts_with("http") && text.contains("www.w3.org");
            assert!(!text.contains(inline) || is_name, "{path} has `{inline}`");
        }
    }
}

#[test]
fn only_reading_is_allowed() {
    let (_root, page) = page();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"] {
        let reply = page.ask(method, &page.home, &[("Content-Length", "0")]);
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("allow"), "GET, HEAD", "{method}");
    }
    let huge = page.ask("POST", &page.home, &[("Content-Length", "99999999999")]);
    assert_eq!(huge.status, 405);
}

#[test]
fn head_says_what_get_would_and_a_known_answer_is_not_sent_again() {
    let (_root, page) = page();
    for path in ["", "runs", "api/v1/run", "assets/page.js"] {
        let path = format!("{}{path}", page.home);
        let whole = page.ask("GET", &path, &[]);
        let head = page.ask("HEAD", &path, &[]);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        for name in ["content-length", "content-type", "etag"] {
            assert_eq!(head.header(name), whole.header(name), "{path} {name}");
        }
        assert_eq!(whole.header("content-length"), whole.body.len().to_string());
        let tag = whole.header("etag");
        for known in [tag, "*", &format!("\"x\", W/{tag}")] {
            let again = page.ask("GET", &path, &[("If-None-Match", known)]);
            assert_eq!((again.status, again.body.len()), (304, 0), "{path} {known}");
            assert_eq!(again.header("etag"), tag);
        }
        let other = page.ask("GET", &path, &[("If-None-Match", "\"x\"")]);
        assert_eq!(other.status, 200);
    }
}

#[test]
fn paths_lead_to_no_file() {
    let (root, page) = page();
    std::fs::write(root.path().join("secret.txt"), "the secret").unwrap();
    for path in [
        "assets/../../../../etc/passwd",
        "assets/..%2f..%2f..%2fetc%2fpasswd",
        "assets/%2e%2e/%2e%2e/etc/passwd",
        "assets/..%5c..%5cetc%5cpasswd",
        "assets/%252e%252e%252fetc%252fpasswd",
        "assets/..%c0%af..%c0%afetc/passwd",
        "assets/page.js%00.txt",
        "assets/secret.txt",
        "api/v1/..%2frun",
        "part/..%2f..%2fsecret.txt",
        "docs/..%2f..%2fsecret.txt",
        "?task=..%2f..%2fetc&attempt=0",
        "api/v1/snapshot?node=..%2f..%2fetc",
        "api/v1/snapshot?at=..%2f..%2fsecret.txt",
        "api/v1/run?task=%00",
        "value?pointer=%2f..%2f..%2fsecret.txt",
    ] {
        let reply = page.get(path);
        assert!(
            [400, 404].contains(&reply.status),
            "{path}: {}",
            reply.status
        );
        let text = reply.text();
        assert!(
            !text.contains("the secret") && !text.contains("root:"),
            "{path}"
        );
    }
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_is_served() {
    let (_root, page) = page();
    let home = &page.home;
    let long = format!(
        "GET {home}?x={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(1 << 20)
    );
    let many: Vec<String> = (0..1000).map(|it| format!("X-{it}: y\r\n")).collect();
    let many = format!(
        "GET {home} HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        many.concat()
    );
    for request in [
        long.as_bytes(),
        many.as_bytes(),
        b"\x00\x01\x02\xff\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        format!("GET {home}\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes(),
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let reply = page.say(request);
        let is_refused = reply.status == 0 || (400..500).contains(&reply.status);
        assert!(is_refused, "{}", reply.status);
    }
    assert_eq!(page.get("").status, 200);
}

#[test]
fn a_client_that_says_nothing_is_let_go_and_holds_up_nobody() {
    let (_root, page) = page();
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(page.address).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
            stream
        })
        .collect();
    assert_eq!(page.get("api/v1/run").status, 200);
    let mut rest = Vec::new();
    slow[0].read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[test]
fn a_thousand_polls_at_once_are_all_answered() {
    const AT_ONCE: usize = 100;
    let (_root, page) = page();
    let page = Arc::new(page);
    let start = Arc::new(Barrier::new(AT_ONCE));
    let polls: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (page, start) = (Arc::clone(&page), Arc::clone(&start));
            std::thread::spawn(move || {
                // Ten connections of each thread are open together.
                start.wait();
                let mut streams: Vec<TcpStream> = (0..10)
                    .map(|_| TcpStream::connect(page.address).unwrap())
                    .collect();
                let request = format!(
                    "GET {}api/v1/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                    page.home
                );
                let ask = |stream: &mut TcpStream| stream.write_all(request.as_bytes()).unwrap();
                streams.iter_mut().for_each(ask);
                let answered = |stream: &mut TcpStream| {
                    stream.set_read_timeout(Some(DEADLINE)).unwrap();
                    let mut text = String::new();
                    stream.read_to_string(&mut text).unwrap();
                    text.starts_with("HTTP/1.1 200")
                };
                streams
                    .iter_mut()
                    .map(answered)
                    .filter(|is_fine| *is_fine)
                    .count()
            })
        })
        .collect();
    let answered: usize = polls.into_iter().map(|poll| poll.join().unwrap()).sum();
    assert_eq!(answered, 1000);
}
