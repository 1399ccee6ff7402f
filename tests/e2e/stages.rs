//! Stages: `taskscope stage` is the command itself, and what a task says of its stages is what the collector has.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{DEADLINE, Output, Sandbox, newest_python, pythons, wait_until};

use crate::support::{binary, sandbox};

const TERM: i32 = 15;
const KILL: i32 = 9;

/// What a script says last: what the collector has when it has taken all that the script's own connection told it.
const TELL: &str = "
import os, socket, sys
def taken():
    import taskscope_stage
    taskscope_stage._socket.setblocking(True)
    taskscope_stage._socket.sendall(b'ping\\n')
    taskscope_stage._socket.recv(100)
def tell():
    if 'taskscope_stage' in sys.modules: taken()
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(os.environ['TASKSCOPE_SOCKET'])
        asking.sendall(b'status\\n')
        print(asking.makefile().readline(), end='', flush=True)
";

/// The example's folder, which a script finds its module in.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/stages")
}

fn script(text: &str) -> String {
    let folder = examples();
    let path = folder.to_str().unwrap();
    format!(
        "{TELL}\nsys.dont_write_bytecode = True\nsys.path.insert(0, {path:?})\nfrom taskscope_stage import stage\n{text}"
    )
}

/// Runs a script under a collector with this interpreter.
#[track_caller]
fn watched(sandbox: &Sandbox, python: &Path, text: &str) -> Output {
    sandbox.write("train.py", text);
    let python = python.to_str().unwrap();
    sandbox.run(["run", "--interval", "1h", "--", python, "train.py"])
}

/// The stages of the last status that the task printed.
#[track_caller]
fn stages(output: &Output) -> Value {
    let line = output
        .stdout
        .lines()
        .rfind(|line| line.starts_with("{\"ok\":true"));
    let answer: Value = serde_json::from_str(line.unwrap_or_else(|| panic!("{output}"))).unwrap();
    answer["status"]["stages"].clone()
}

/// Path and error of each, in the order in which they began.
fn paths(stages: &Value) -> Vec<(String, Value)> {
    let mut records: Vec<&Value> = stages["records"].as_array().unwrap().iter().collect();
    records.sort_by_key(|record| record["id"].as_u64());
    let named = records.into_iter().map(|record| {
        let path = record["path"].as_array().unwrap().iter();
        let names: Vec<&str> = path.map(|name| name.as_str().unwrap()).collect();
        (names.join(" > "), record["error"].clone())
    });
    named.collect()
}

fn named(expected: &[(&str, Option<&str>)]) -> Vec<(String, Value)> {
    let named = expected.iter().map(|(path, error)| {
        let error = error.map_or(Value::Null, Value::from);
        ((*path).to_owned(), error)
    });
    named.collect()
}

#[test]
fn a_command_as_a_stage_is_the_command_alone() {
    let sandbox = sandbox();
    let stage = |arguments: &[&str]| sandbox.run(["stage", "a/b", "--"].iter().chain(arguments));
    let output = stage(&["sh", "-c", "echo out; echo err >&2; exit 7"]).exited(7);
    assert_eq!(output.stdout, "out\n");
    assert_eq!(
        output.stderr,
        "[taskscope] stage a/b is not recorded: TASKSCOPE_SOCKET is not set, so there is no collector\nerr\n"
    );
    stage(&["sh", "-c", "kill -KILL $$"]).killed_by(KILL);
    stage(&["no-such-command"]).exited(127);
    stage(&["/"]).exited(126);
    let output = sandbox
        .run(["stage", "a\nb", "--", "touch", "started"])
        .exited(125);
    assert!(
        output.stderr.contains("a stage's name is 1 to 200 bytes"),
        "{output}"
    );
    sandbox.run(["stage", "a"]).exited(125);
    assert!(!sandbox.path("started").exists());
    let input = ["stage", "a", "--", "cat"];
    assert_eq!(sandbox.run_with_input(input, "in").success().stdout, "in");
    // It has the PID, so every signal is the command's, those that nobody can forward too.
    let running = sandbox.spawn([
        "stage",
        "a",
        "--",
        "sh",
        "-c",
        "echo $$ here; exec sleep 1000",
    ]);
    running.wait_for_stdout(&format!("{} here", running.pid()));
    running.signal(TERM);
    running.wait(DEADLINE).killed_by(TERM);
}

#[test]
fn signals_that_were_ignored_or_blocked_stay_so() {
    let sandbox = sandbox();
    let script = "import os, signal, sys\n\
                  signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n\
                  signal.signal(signal.SIGPIPE, signal.SIG_IGN)\n\
                  signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])\n\
                  os.execv(sys.argv[1], sys.argv[1:])\n";
    let lines = |words: &[&str]| {
        let python = Sandbox::new(Path::new("python3"));
        let shown = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
        let arguments = ["-c", script]
            .into_iter()
            .chain(words.iter().copied())
            .chain(shown);
        python.run(arguments).success().stdout
    };
    let binary = binary();
    let alone = lines(&["/usr/bin/env"]);
    assert_eq!(
        lines(&[binary.to_str().unwrap(), "stage", "a", "--"]),
        alone
    );
    drop(sandbox);
}

#[test]
fn commands_nest_and_their_errors_are_how_they_ended() {
    let sandbox = sandbox();
    let text = format!(
        "{TELL}
import subprocess, time
stage = ['{0}', 'stage']
inner = \"'{0}' stage inner -- true; kill -KILL $$\"
subprocess.run(stage + ['outer x', '--'] + stage + ['again', '--', 'sh', '-c', inner])
subprocess.run(stage + ['fails', '--', 'sh', '-c', 'exit 3'])
subprocess.run(stage + ['missing', '--', 'no-such-command'])
deadline = time.time() + 30
while time.time() < deadline:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(os.environ['TASKSCOPE_SOCKET'])
        asking.sendall(b'status\\n')
        if '\"open\":0' in asking.makefile().readline(): break
    time.sleep(0.01)
tell()
",
        binary().display()
    );
    let output = watched(&sandbox, &newest_python().path, &text).success();
    let stages = stages(&output);
    assert_eq!(
        paths(&stages),
        named(&[
            ("outer x", Some("SIGKILL")),
            ("outer x > again", Some("SIGKILL")),
            ("outer x > again > inner", None),
            ("fails", Some("exited with 3")),
            ("missing", Some("exited with 127")),
        ])
    );
    let records = stages["records"].as_array().unwrap();
    assert!(records.iter().all(|record| record["ended_by"] == "process"));
    assert!(!output.stderr.contains("is not recorded"), "{output}");
}

/// Stages that nest, fail, and overlap in threads, asyncio tasks and a forked process.
const OVERLAPPING: &str = "
import threading
try: import asyncio, contextvars
except ImportError: asyncio = None
with stage('fit/all'):
    try:
        with stage('epoch'): raise ValueError
    except ValueError: pass
@stage('decorated\\nname')
def decorated(deep):
    if deep: decorated(False)
decorated(True)
both = threading.Barrier(2)
def work(name):
    with stage(name):
        both.wait()
        with stage('in ' + name): both.wait()
threads = [threading.Thread(target=work, args=('thread %d' % n,)) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
async def first(begun, ended):
    with stage('first'):
        await begun.wait()
    ended.set()
async def second(begun, ended):
    with stage('second'):
        begun.set()
        await ended.wait()
        with stage('in second'): pass
async def all():
    begun, ended = asyncio.Event(), asyncio.Event()
    await asyncio.gather(first(begun, ended), second(begun, ended))
if asyncio and sys.version_info >= (3, 7): asyncio.run(all())
pid = os.fork() if hasattr(os, 'fork') else 0
if not pid:
    with stage('forked'): pass
    os._exit(0)
os.waitpid(pid, 0)
tell()
";

#[test]
fn stages_of_python_nest_fail_and_overlap_in_threads_and_asyncio() {
    let text = script(OVERLAPPING);
    let new_enough = pythons()
        .iter()
        .filter(|python| python.version >= (3, 6, 0));
    for python in new_enough {
        let output = watched(&sandbox(), &python.path, &text).success();
        let stages = stages(&output);
        let mut paths = paths(&stages);
        paths.sort_by(|a, b| a.0.cmp(&b.0));
        let mut expected = vec![
            ("decorated name", None),
            ("decorated name > decorated name", None),
            ("fit/all", None),
            ("fit/all > epoch", Some("ValueError")),
            ("forked", None),
            ("thread 0", None),
            ("thread 0 > in thread 0", None),
            ("thread 1", None),
            ("thread 1 > in thread 1", None),
        ];
        if python.version >= (3, 7, 0) {
            expected.splice(2..2, [("first", None)]);
            expected.splice(6..6, [("second", None), ("second > in second", None)]);
        }
        assert_eq!(paths, named(&expected), "{}", python.name);
        let records = stages["records"].as_array().unwrap();
        let threads: std::collections::BTreeSet<i64> = records
            .iter()
            .filter_map(|it| it["thread"].as_i64())
            .collect();
        let count = if python.version >= (3, 8, 0) { 4 } else { 0 };
        assert_eq!(threads.len(), count, "{}", python.name); // main, two, and the forked one's
        let pids: std::collections::BTreeSet<i64> =
            records.iter().filter_map(|it| it["pid"].as_i64()).collect();
        assert_eq!(pids.len(), 2, "{}", python.name);
        assert!(
            records.iter().all(|it| it["ended_by"] == "owner"),
            "{records:?}"
        );
        assert_eq!(stages["trouble"]["unmatched_ends"], 0);
    }
}

#[test]
fn what_a_killed_process_left_open_ends_with_it() {
    let text = script(
        "
import signal
pid = os.fork()
if not pid:
    with stage('load'):
        with stage('read'):
            taken()
            os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
pid = os.fork()
if not pid:
    forgotten = stage('forgotten')
    forgotten.__enter__()
    taken()
    os._exit(0)
os.waitpid(pid, 0)
import time
with stage('outside'):
    deadline = time.time() + 30
    while time.time() < deadline:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(os.environ['TASKSCOPE_SOCKET'])
            asking.sendall(b'status\\n')
            if '\"open\":1,' in asking.makefile().readline(): break
        time.sleep(0.01)
    tell()
",
    );
    let output = watched(&sandbox(), &newest_python().path, &text).success();
    let stages = stages(&output);
    assert_eq!(
        paths(&stages),
        named(&[
            ("load", Some("SIGKILL")),
            ("load > read", Some("SIGKILL")),
            ("forgotten", Some("left open")),
            ("outside", None),
        ])
    );
    assert_eq!(stages["label"], "outside");
}

/// The only total of stages called so, and how many it counts.
#[track_caller]
fn total(stages: &Value, name: &str) -> u64 {
    let totals = stages["totals"].as_array().unwrap().iter();
    let mut named =
        totals.filter(|total| total["path"].as_array().unwrap().last().unwrap() == name);
    let total = named.next().unwrap_or_else(|| panic!("{name}: {stages}"));
    assert_eq!(named.next(), None, "{stages}");
    total["count"].as_u64().unwrap()
}

#[test]
fn of_stages_without_a_pause_none_is_lost_and_the_collector_does_not_grow() {
    let text = script(
        "
def resident():
    with open('/proc/%d/status' % os.getppid()) as status:
        return int(status.read().split('VmRSS:')[1].split()[0])
with stage('all'):
    for number in range(5000):
        with stage('first'): pass
    before = resident()
    for number in range(100000):
        with stage('step'): pass
    sys.stderr.write('grown by %d KiB' % (resident() - before))
tell()
",
    );
    // As long as it takes on a machine that has much else to do.
    let sandbox = sandbox()
        .environment("TASKSCOPE_STAGE_WAIT", "60")
        .deadline(4 * DEADLINE);
    let output = watched(&sandbox, &newest_python().path, &text).success();
    let stages = stages(&output);
    let nothing =
        serde_json::json!({"begun_twice": 0, "skipped": 0, "too_many": 0, "unmatched_ends": 0});
    assert_eq!(stages["trouble"], nothing, "{stages}");
    assert_eq!(
        (total(&stages, "first"), total(&stages, "step")),
        (5000, 100_000)
    );
    assert_eq!(total(&stages, "all"), 1);
    assert_eq!(stages["open"], 0, "{stages}");
    let words = output.stderr.split("grown by ").nth(1).unwrap();
    let grown: i64 = words.split(' ').next().unwrap().parse().unwrap();
    assert!(grown < 16 << 10, "{grown} KiB for 100,000 stages");
}

#[test]
fn a_collector_that_has_stopped_costs_a_task_one_wait_and_what_was_skipped_is_counted() {
    let text = script(
        "
import signal, time
os.kill(os.getppid(), signal.SIGSTOP)
begun = time.monotonic()
with stage('all'):
    for number in range(20000):
        with stage('step'): pass
    took = time.monotonic() - begun
    os.kill(os.getppid(), signal.SIGCONT)
    for number in range(100):
        time.sleep(0.01)
        with stage('late'): pass
sys.stderr.write('took %.3f s' % took)
tell()
",
    );
    let output = watched(&sandbox(), &newest_python().path, &text).success();
    let stages = stages(&output);
    let trouble = &stages["trouble"];
    for none in ["unmatched_ends", "begun_twice", "too_many"] {
        assert_eq!(trouble[none], 0, "{stages}");
    }
    assert_eq!(stages["open"], 0, "{stages}");
    let (kept, skipped) = (&stages["ended"], trouble["skipped"].as_u64().unwrap());
    assert_eq!(kept.as_u64().unwrap() + skipped, 20_101, "{stages}");
    assert!(skipped > 10_000, "{stages}");
    // A wait for each of them would be half an hour.
    let words = output.stderr.split("took ").nth(1).unwrap();
    let took: f64 = words.split(' ').next().unwrap().parse().unwrap();
    assert!(took < 60.0, "{took} s");
}

#[test]
fn a_stage_line_has_no_answer_and_one_that_is_wrong_is_told_in_the_status() {
    let sandbox = sandbox();
    let task =
        "echo $TASKSCOPE_SOCKET > told; mv told socket; while [ ! -e stop ]; do sleep 0.05; done";
    let running = sandbox.spawn(["run", "--interval", "1h", "--", "sh", "-c", task]);
    wait_until(DEADLINE, || sandbox.path("socket").exists());
    let socket = std::fs::read_to_string(sandbox.path("socket")).unwrap();
    let mut stream = UnixStream::connect(socket.trim_end()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let us = std::process::id();
    let lines = format!(
        "stage begin name=from outside\nstage begin id=1 idd=2 name=x\nstage end id=9\nstage\n\
         stage begin pid={} id=1 name=of the task\nstage begin id=2 parent={}:1 name=within\nping\n",
        running.pid(),
        running.pid()
    );
    stream.write_all(lines.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "{\"ok\":true}\n");
    let output = sandbox.run(["ctl", "status", "--json"]).success();
    let status: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(status["control"]["refused_lines"], 2);
    let refusal = status["control"]["last_refusal"].as_str().unwrap();
    assert!(refusal.starts_with("a stage line is `begin "), "{refusal}");
    assert_eq!(status["stages"]["trouble"]["unmatched_ends"], 1);
    assert_eq!(
        paths(&status["stages"]),
        named(&[
            ("from outside", None),
            ("of the task", None),
            ("of the task > within", None)
        ])
    );
    let pids: Vec<Option<u64>> = status["stages"]["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["pid"].as_u64())
        .collect();
    let theirs = u64::try_from(running.pid()).unwrap();
    assert_eq!(pids, [Some(us.into()), Some(theirs), Some(us.into())]);
    let page = sandbox.run(["ctl", "status"]).success().stdout;
    let line = "\nstages     3 open: of the task/within, from outside; 0 ended; 1 ends without a beginning\n";
    assert!(page.contains(line), "{page}");
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
}

#[test]
fn the_end_of_a_stage_of_a_second_is_a_live_line() {
    let sandbox = sandbox();
    let wait = "import time\nwith stage('short'): pass\nwith stage('a/slow one'): time.sleep(1.1)\n\
                while not os.path.exists('stop'): time.sleep(0.05)\n";
    sandbox.write("train.py", &script(wait));
    let python = newest_python().path.to_str().unwrap();
    let running = sandbox.spawn(["run", "--interval", "1h", "--", python, "train.py"]);
    running.wait_for_stderr("[taskscope] completed a\\/slow one (");
    sandbox.write("stop", "");
    let output = running.wait(DEADLINE).success();
    assert!(!output.stderr.contains("completed short"), "{output}");
}

#[test]
fn the_example_of_stages_runs_with_and_without_a_collector() {
    let script = examples().join("train.py");
    let python = newest_python().path.to_str().unwrap();
    let sandbox = sandbox().environment("PYTHONDONTWRITEBYTECODE", "1");
    let script = script.to_str().unwrap();
    let output = sandbox.run(["run", "--", python, script]).success();
    assert_eq!(output.stdout, "");
    let report = sandbox.run(["report", "--json"]).success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let stages = report["stages"].as_array().unwrap();
    let count = |path: Value| stages.iter().filter(|stage| stage["path"] == path).count();
    assert_eq!(
        count(serde_json::json!(["prepare", "download 2"])),
        1,
        "{report}"
    );
    assert_eq!(count(serde_json::json!(["fit", "epoch"])), 3, "{report}");
    let fit = stages.iter().find(|stage| stage["name"] == "fit").unwrap();
    assert!(fit["samples"].as_u64().unwrap() > 0, "{fit}");
    assert!(
        fit["peak_tree_rss_bytes"].as_u64().unwrap() > 64 << 20,
        "{fit}"
    );
    let totals = report["stage_totals"].as_array().unwrap();
    let path = serde_json::json!(["fit", "evaluate"]);
    let failed = totals.iter().find(|total| total["path"] == path).unwrap();
    assert_eq!(
        (&failed["count"], &failed["errors"]),
        (&3.into(), &3.into())
    );
    Sandbox::new(Path::new(python))
        .environment("PYTHONDONTWRITEBYTECODE", "1")
        .run([script])
        .success();
}

/// The C code of docs/control.md as a program: its functions, and what it says of one stage.
fn program_in_c() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/control.md");
    let page = std::fs::read_to_string(page).unwrap();
    let code = &page[page.find("    static int control").unwrap()..];
    let code = code
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("    "));
    let code = code.collect::<Vec<_>>().join("\n");
    let (functions, statements) = code.split_once("    int is_told").unwrap();
    let headers = ["errno", "poll", "stdlib", "string", "sys/socket", "sys/un"];
    let headers: String = headers.map(|it| format!("#include <{it}.h>\n")).concat();
    format!(
        "{headers}{functions}int main(void) {{ stages_open(); int is_told{statements} return !is_told; }}\n"
    )
}

#[test]
fn the_c_code_of_the_documentation_marks_a_stage() {
    let sandbox = sandbox();
    let source = sandbox.write("stages.c", &program_in_c());
    let program = sandbox.path("stages");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(source);
    let Ok(compiled) = compiler.output() else {
        return eprintln!("SKIPPED: there is no C compiler here");
    };
    assert!(compiled.status.success(), "{compiled:?}");
    let program = program.to_str().unwrap();
    sandbox.run(["run", "--", program]).success();
    let report = sandbox.run(["report", "--json"]).success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let stages = report["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 1, "{report:#}");
    assert_eq!(stages[0]["name"], "fit");
    // Its end was told, and not found out.
    assert_eq!(stages[0]["ended_by"], "owner");
    assert_eq!(stages[0]["error"], Value::Null);
    // Without a collector the task goes on, and knows that nobody hears.
    Sandbox::new(Path::new(program)).run([""; 0]).exited(1);
}
