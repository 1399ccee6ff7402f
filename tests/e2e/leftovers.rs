//! Processes that outlive the main one: named with what they keep, and ended where that is asked for.

use testkit::{DEADLINE, process_state, wait_until};

use crate::ends::{obituaries, ours, python};
use crate::support::sandbox;

/// Goes on when its parent is gone, listening and with the output of the task open.
const SERVER: &str = r#"
import os, socket, sys, time
if os.fork() == 0:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    open("port.part", "w").write(str(listener.getsockname()[1]))
    os.rename("port.part", "port")
    open("pid", "w").write(str(os.getpid()))
    os.rename("pid", "server.pid")
    time.sleep(600)
while not os.path.exists("server.pid"):
    time.sleep(0.01)
"#;

#[test]
fn who_outlives_the_task_is_named_with_what_it_keeps() {
    let sandbox = sandbox();
    sandbox.write("server.py", SERVER);
    let running = sandbox.spawn(["run", "--", python(), "server.py"]);
    wait_until(DEADLINE, || sandbox.path("server.pid").exists());
    let pid = std::fs::read_to_string(sandbox.path("server.pid")).unwrap();
    let port = std::fs::read_to_string(sandbox.path("port")).unwrap();
    running.wait_for_stderr("outlives the task");
    wait_until(DEADLINE, || running.has_ended());
    let said = running.stderr();
    let line = said
        .lines()
        .find(|line| line.contains(&format!("(pid {pid}) outlives the task")));
    let line = line.map(str::to_owned);
    testkit::send_signal(pid.parse().unwrap(), 9);
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.contains(&format!("listens at 127.0.0.1:{port}")),
        "{said}"
    );
    running.wait(DEADLINE).success();
}

/// Two that go on: one with a port, a pipe and a device, and one that ignores SIGTERM.
const TWO: &str = r#"
import os, signal, socket, sys, time
def child(work):
    if os.fork() == 0:
        for stream in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        os.closerange(3, 256)
        work()
        while True:
            time.sleep(600)
def say(name, text):
    open(name + ".part", "w").write(text)
    os.rename(name + ".part", name)
def server():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    kept = [listener, os.pipe()]
    try:
        kept.append(os.open("/dev/loop-control", os.O_RDONLY))
        device = "/dev/loop-control"
    except OSError:
        device = ""
    globals()["kept"] = kept
    say("server", "%d %d %s" % (os.getpid(), listener.getsockname()[1], device))
def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("stubborn", str(os.getpid()))
child(server)
child(stubborn)
while not (os.path.exists("server") and os.path.exists("stubborn") and os.path.exists("go")):
    time.sleep(0.01)
"#;

#[test]
fn who_outlives_the_task_is_ended_where_that_is_set_and_has_an_obituary() {
    let sandbox = sandbox();
    sandbox.write("two.py", TWO);
    let settings = "[run]\nleftovers = \"end\"\nstop-grace = \"1s\"\n";
    sandbox.write("collector.toml", settings);
    let running = sandbox.spawn(["run", "--interval", "300ms", "--", python(), "two.py"]);
    wait_until(DEADLINE, || {
        sandbox.path("server").exists() && sandbox.path("stubborn").exists()
    });
    let text = |name| std::fs::read_to_string(sandbox.path(name)).unwrap();
    let (server, stubborn) = (text("server"), text("stubborn"));
    crate::support::wait_for_snapshot(&sandbox, |snapshot| {
        snapshot["processes"].as_array().unwrap().len() == 3
    });
    sandbox.write("go", "");
    let output = running.wait(DEADLINE * 2).success();
    let mut words = server.split(' ');
    let (pid, port) = (words.next().unwrap(), words.next().unwrap());
    let device = words.next().filter(|device| !device.is_empty());
    if device.is_none() {
        eprintln!("SKIPPED in part: no device can be opened here");
    }
    let device = device.map_or(String::new(), |device| format!("; has {device} open"));
    let lines = ours(&output);
    let kept = format!(
        "(pid {pid}) outlives the task: listens at 127.0.0.1:{port}{device}; has 1 pipe open"
    );
    assert!(lines.iter().any(|line| line.ends_with(&kept)), "{output}");
    let other = format!("(pid {stubborn}) outlives the task");
    assert!(lines.iter().any(|line| line.ends_with(&other)), "{output}");
    assert!(
        lines.contains(&"1 of 2 had to be ended by SIGKILL"),
        "{output}"
    );
    let told = obituaries(&sandbox);
    for (pid, signal) in [(pid, 15), (stubborn.as_str(), 9)] {
        assert!(matches!(
            process_state(pid.parse().unwrap()),
            None | Some('Z')
        ));
        let process = format!("{pid}:");
        let mut told = told.iter();
        let own = told.find(|one| one["process"].as_str().unwrap().starts_with(&process));
        let own = own.unwrap_or_else(|| panic!("{output}"));
        assert_eq!(own["ending"]["killed"]["signal"], signal, "{own}");
        assert_eq!(own["cpu"]["is_final"], true, "{own}");
    }
}
