//! Looks at living processes of this machine.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use model::{GapCode, ProcessId, Snapshot};
use rustix::process::{Gid, Pid, Uid, getpid, set_child_subreaper};
use testkit::{DEADLINE, newest_python, process_state, wait_until};

use super::explained::{look_until, waits_in};
use super::{gaps_of, local, local_in_place, look, look_at, pids, process};
use crate::{Scope, discover};

/// A child that is killed and waited for with the value.
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn new(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn sleep() -> Self {
        Self::new(Command::new("sleep").arg("600"))
    }

    /// Runs `code`, after which the interpreter waits.
    pub(crate) fn python(code: &str) -> Self {
        let code = format!("import sys, threading, ctypes\n{code}\nsys.stdin.read()");
        Self::new(Command::new(&newest_python().path).args(["-c", &code]))
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// Writes to its standard input.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Kills it without waiting for it.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
    }
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_process_that_began_since_the_last_look_is_found_by_its_number() {
    let mut shell = Started::new(
        Command::new("sh").args(["-c", "read line; sleep 600 & read line; kill $!; read line"]),
    );
    let machine = local();
    let mut scope = Scope::tree(machine.identify(shell.pid()).unwrap(), None);
    let mut living = || {
        let targets = discover(&machine, &mut scope).unwrap();
        let knows_numbers = scope.numbers().given(Some(1), Instant::now()).is_some();
        (targets.living(), knows_numbers)
    };
    wait_until(DEADLINE, || living() == (1, true));
    shell.write(b"go\n");
    wait_until(DEADLINE, || living().0 == 2);
    shell.write(b"go\n");
    wait_until(DEADLINE, || living().0 == 1);
}

#[test]
fn a_living_child_is_read_without_any_gap() {
    let child = Started::sleep();
    wait_until(DEADLINE, || process_state(child.pid()) == Some('S'));
    let machine = local();
    // Exec may still be under way when the state is asked for.
    let ready = || process(&look(&machine, child.pid()), child.pid()).cmdline == ["sleep", "600"];
    wait_until(DEADLINE, ready);
    let snapshot = look(&machine, child.pid());
    let sleep = process(&snapshot, child.pid());
    assert_eq!(sleep.ppid, own_pid());
    assert!(sleep.exe.as_deref().unwrap().starts_with('/'));
    assert!(sleep.memory.as_ref().unwrap().rss_bytes > 0);
    assert!(sleep.proc.file_descriptors[0].target.starts_with("pipe:["));
    assert!(
        sleep.proc.file_descriptors[0]
            .info
            .as_ref()
            .unwrap()
            .contains_key("flags")
    );
    assert_eq!(sleep.proc.threads.len(), 1);
    assert!(sleep.proc.status.contains_key("SigCgt"));
    assert!(sleep.proc.limits.len() > 10);
    assert!(!sleep.cgroup.is_empty());
    let unexpected = gaps_of(&snapshot, child.pid());
    // Without CAP_SYS_ADMIN the kernel stack is refused, and nothing else.
    let refused = [("task/*/stack", GapCode::Denied, 1)];
    assert!(
        unexpected.is_empty() || (!is_root() && unexpected == refused),
        "{unexpected:?}"
    );
    assert!(snapshot.machine.boot_id.is_some());
    assert!(snapshot.cgroup.path.is_some(), "{:?}", snapshot.gaps);
}

#[test]
fn every_thread_of_a_python_is_listed_with_its_name() {
    let name = r"open('/proc/self/comm', 'wb').write(b'a) R 1\n\xff(x')";
    let code = format!(
        "{name}\nfor _ in range(3): threading.Thread(target=threading.Event().wait, daemon=True).start()"
    );
    let child = Started::python(&code);
    // It reads when all of them are there.
    let snapshot = look_until(&local(), child.pid(), waits_in("read"));
    let main = &process(&snapshot, child.pid()).proc.threads[0];
    assert_eq!(main.comm.as_deref(), Some("a) R 1\n\u{fffd}(x"));
    let python = process(&snapshot, child.pid());
    assert!(python.python_candidate);
    assert_eq!(python.proc.threads.len(), 4);
    assert_eq!((python.state, python.ppid), ('S', own_pid()));
    assert!(
        python
            .proc
            .threads
            .iter()
            .all(|thread| thread.syscall.is_some())
    );
    assert_eq!(python.proc.wchan, python.proc.threads[0].wchan);
}

#[test]
fn a_daemon_that_was_never_seen_is_found_through_its_adopter() {
    set_child_subreaper(Some(Pid::INIT)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!(
        "(setsid sleep 600 & echo $! > {0}.new; mv {0}.new {0}) & exec sleep 600",
        file.display()
    );
    let shell = Started::new(Command::new("sh").args(["-c", &script]));
    wait_until(DEADLINE, || file.exists());
    let daemon: i32 = std::fs::read_to_string(&file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let machine = local();
    let id = machine.identify(shell.pid()).unwrap();
    let found = |adopter| {
        let targets = discover(&machine, &mut Scope::tree(id, adopter)).unwrap();
        pids(&targets).contains(&daemon)
    };
    // The subshell ends, and its child becomes ours.
    wait_until(DEADLINE, || found(Some(own_pid())));
    wait_until(DEADLINE, || !found(None));
    let targets = discover(&machine, &mut Scope::tree(id, Some(own_pid()))).unwrap();
    assert!(!pids(&targets).contains(&own_pid()));

    testkit::send_signal(daemon, 9);
    let _ = rustix::process::waitpid(Pid::from_raw(daemon), rustix::process::WaitOptions::empty());
}

#[test]
fn a_child_that_ends_between_discovery_and_capture_is_kept() {
    let mut child = Started::sleep();
    let machine = local();
    let id = machine.identify(child.pid()).unwrap();
    let targets = discover(&machine, &mut Scope::tree(id, None)).unwrap();
    child.end();
    let snapshot = look_at(&machine, &targets);
    assert_eq!(process(&snapshot, id.pid).ppid, own_pid());
    assert_eq!(
        gaps_of(&snapshot, id.pid),
        [("process", GapCode::Vanished, 1)]
    );
}

#[test]
fn a_zombie_leaves_one_gap() {
    let mut child = Started::sleep();
    child.0.kill().unwrap();
    wait_until(DEADLINE, || process_state(child.pid()) == Some('Z'));
    let snapshot = look(&local(), child.pid());
    let zombie = process(&snapshot, child.pid());
    assert_eq!((zombie.state, &zombie.memory), ('Z', &None));
    assert_eq!(
        gaps_of(&snapshot, child.pid()),
        [("cmdline,environ,exe,fd", GapCode::Vanished, 1)]
    );
}

#[test]
fn a_zombie_tells_how_it_ended() {
    for (deed, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 3", Some(3), None),
        ("kill -9 $$", None, Some(9)),
    ] {
        let child = Started::new(Command::new("sh").args(["-c", deed]));
        wait_until(DEADLINE, || process_state(child.pid()) == Some('Z'));
        let snapshot = look(&local(), child.pid());
        let facts = &process(&snapshot, child.pid()).proc;
        assert_eq!(
            (facts.exit_code, facts.exit_signal),
            (code, signal),
            "{deed}"
        );
    }
    let living = Started::sleep();
    let snapshot = look(&local(), living.pid());
    let facts = &process(&snapshot, living.pid()).proc;
    assert_eq!((facts.exit_code, facts.exit_signal), (None, None));
}

#[test]
fn a_process_whose_main_thread_ended_is_read_through_another() {
    let code =
        "threading.Thread(target=sys.stdin.read).start()\nctypes.CDLL(None).pthread_exit(None)";
    let child = Started::python(code);
    wait_until(DEADLINE, || process_state(child.pid()) == Some('Z'));
    let snapshot = look(&local(), child.pid());
    let python = process(&snapshot, child.pid());
    assert!(python.python_candidate);
    assert!(python.memory.as_ref().unwrap().rss_bytes > 0);
    assert!(python.proc.file_descriptors.len() >= 3);
    let gaps = gaps_of(&snapshot, child.pid());
    let refused = gaps
        .iter()
        .all(|(what, code, _)| *what == "task/*/stack" && *code == GapCode::Denied);
    assert!(gaps.is_empty() || (!is_root() && refused), "{gaps:?}");
}

/// Takes a snapshot on a thread without any rights. The kernel asks the thread, not the process.
fn look_as_nobody(id: ProcessId) -> Snapshot {
    let look = move || {
        rustix::thread::set_thread_groups(&[]).unwrap();
        let (gid, uid) = (Gid::from_raw(65_534), Uid::from_raw(65_534));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let machine = local_in_place();
        let targets = discover(&machine, &mut Scope::tree(id, None)).unwrap();
        look_at(&machine, &targets)
    };
    thread::spawn(look).join().unwrap()
}

#[test]
fn what_another_user_may_not_read_is_denied_and_never_empty() {
    if !is_root() {
        let mut stderr = std::io::stderr();
        writeln!(
            stderr,
            "skipped: only root can look with the rights of another user"
        )
        .unwrap();
        return;
    }
    let child = Started::python("");
    let machine = local();
    let id = machine.identify(child.pid()).unwrap();
    // While it runs there is no wait channel to be masked.
    look_until(&machine, id.pid, waits_in("read"));
    let snapshot = look_as_nobody(id);
    let python = process(&snapshot, id.pid);
    assert!(python.python_candidate, "the arguments are for all to read");
    assert!(python.memory.is_some() && !python.proc.limits.is_empty());
    assert_eq!(python.proc.wchan, None, "a masked wait channel is unknown");
    let gaps = gaps_of(&snapshot, id.pid);
    for what in [
        "cwd",
        "environ",
        "exe",
        "fd",
        "io",
        "ns",
        "task/*/stack",
        "task/*/syscall",
        "task/*/wchan",
    ] {
        assert!(
            gaps.contains(&(what, GapCode::Denied, 1)),
            "{what} is not in {gaps:?}"
        );
    }
    assert_eq!(gaps.len(), 9, "{gaps:?}");
    let remedies = snapshot.gaps.iter().filter_map(|gap| gap.remedy.as_deref());
    assert_eq!(
        remedies
            .filter(|remedy| remedy.contains("CAP_SYS_PTRACE"))
            .count(),
        1
    );
}

#[test]
fn reading_does_not_stop_at_processes_that_come_and_go() {
    let child = Started::new(Command::new("sh").args(["-c", "while :; do /bin/true & wait; done"]));
    let machine = local();
    let id = machine.identify(child.pid()).unwrap();
    let mut scope = Scope::tree(id, None);
    for _ in 0..20 {
        let snapshot = look_at(&machine, &discover(&machine, &mut scope).unwrap());
        assert_eq!(process(&snapshot, id.pid).identity, id);
        for gap in &snapshot.gaps {
            let is_expected = gap.code == GapCode::Vanished
                || gap.what == "task/*/stack"
                || gap.what == "python_stack";
            assert!(is_expected, "{gap:?}");
        }
    }
}

#[test]
fn a_process_of_ours_that_begins_or_ends_while_we_look_is_never_the_tasks() {
    let task = Started::sleep();
    let machine = local();
    let helpers = machine.helpers();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let (ours, found) = thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut ours = Vec::new();
            while !is_over.load(relaxed) {
                let mut command = Command::new("true");
                let (process, child) = helper::OwnProcess::start(&mut command, &helpers).unwrap();
                ours.push(i32::try_from(child.id()).unwrap());
                process.state(DEADLINE);
            }
            ours
        });
        let mut scope = Scope::tree(machine.identify(task.pid()).unwrap(), Some(own_pid()));
        let looks = (0..50).flat_map(|_| pids(&discover(&machine, &mut scope).unwrap()));
        let found: std::collections::BTreeSet<i32> = looks.collect();
        is_over.store(true, relaxed);
        (busy.join().unwrap(), found)
    });
    assert!(found.contains(&task.pid()) && !ours.is_empty());
    let mistaken: Vec<&i32> = ours.iter().filter(|pid| found.contains(pid)).collect();
    assert!(mistaken.is_empty(), "{mistaken:?} of {}", ours.len());
}
