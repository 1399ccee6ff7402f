//! The webhook over HTTPS, against a server with a certificate of its own.

use std::process::{Child, Command, Stdio};

use testkit::newest_python;

use super::*;

/// A server that keeps what it is sent; its port is in the file `port` when it listens.
const SERVER: &str = r#"
import http.server, os, ssl

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with open("received", "ab") as received:
            received.write(self.path.encode() + b" " + body + b"\n")
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("ours.pem", "ours.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
with open("port.new", "w") as port:
    port.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
"#;

/// The server, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes a certificate for this machine that nobody has signed but itself. Nothing where there is no openssl.
fn certificate(sandbox: &Sandbox, name: &str) -> Option<()> {
    let settings = format!(
        "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = more\n\
         [name]\nCN = {name}.example\n[more]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = CA:FALSE\n"
    );
    sandbox.write(&format!("{name}.cnf"), &settings);
    let mut openssl = Command::new("openssl");
    openssl.current_dir(sandbox.directory());
    openssl.args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "30"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-config", &format!("{name}.cnf")]);
    openssl.args(["-keyout", &format!("{name}.key")]);
    openssl.args(["-out", &format!("{name}.pem")]);
    let made = match openssl.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no HTTPS is tried, because there is no openssl here");
            return None;
        }
        made => made.unwrap(),
    };
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{told}");
    Some(())
}

/// What the webhook of [`hooked`] does with a server whose certificate is `ours.pem`, where `trusted` is trusted.
fn over_https(trusted: &str, is_right: impl Fn(&Value) -> bool) -> Option<(Value, String)> {
    let servers = sandbox();
    certificate(&servers, "ours")?;
    certificate(&servers, "other")?;
    servers.write("server.py", SERVER);
    let mut server = Command::new(&newest_python().path);
    server
        .arg("server.py")
        .current_dir(servers.directory())
        .stdin(Stdio::null());
    let server = Server(server.spawn().unwrap());
    wait_until(DEADLINE, || servers.path("port").exists());
    let port = std::fs::read_to_string(servers.path("port")).unwrap();
    let url = format!("https://127.0.0.1:{port}");
    let trusted = servers.path(trusted);
    let sandbox = hooked_to(
        &url,
        &format!("permissions = {{ http = [\"{url}\"], secrets = [\"HOOK_TOKEN\"] }}\n"),
    )
    .environment("SSL_CERT_FILE", trusted.to_str().unwrap());
    let running = watch(&sandbox);
    let seen = wait_for_snapshot(&sandbox, is_right);
    sandbox.write("stop", "");
    running.wait(DEADLINE).exited(5);
    drop(server);
    let received = std::fs::read_to_string(servers.path("received")).unwrap_or_default();
    Some((seen, received))
}

#[test]
fn a_webhook_is_told_over_https_where_its_certificate_is_trusted() {
    let delivered = |it: &Value| hook(it)["sink"]["delivered"] == 1;
    let Some((seen, received)) = over_https("ours.pem", delivered) else {
        return;
    };
    assert_eq!(hook(&seen)["outcome"], "ok");
    let (path, body) = received.trim_end().split_once(' ').unwrap();
    assert_eq!(path, format!("/hook/{SECRET}"));
    assert!(body.contains("Something is wrong."), "{body}");
}

#[test]
fn a_certificate_that_is_not_trusted_gets_nothing_and_the_reason_is_told() {
    let refused = |it: &Value| hook(it)["outcome"] == "refused";
    let Some((seen, received)) = over_https("other.pem", refused) else {
        return;
    };
    let expected = "invalid peer certificate: UnknownIssuer";
    assert_eq!(hook(&seen)["message"], expected);
    assert_eq!(hook(&seen)["sink"]["delivered"], 0);
    assert_eq!(received, "");
}
