//! What the kernel tells of births and ends, on this machine.
#![expect(clippy::print_stderr, reason = "a test says what it skips")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use model::Ending;
use taskscope_supervise::{Births, BirthsError, Connector};
use testkit::{DEADLINE, wait_until};

/// Follows what descends from this process; nothing where the kernel does not tell.
fn follow() -> Option<Births> {
    match Connector::open() {
        Ok(connector) => Some(connector.follow(own_pid())),
        Err(BirthsError::NoAnswer | BirthsError::Refused(_)) => {
            eprintln!("SKIPPED: the kernel does not tell of births here");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).expect("a PID fits")
}

/// Waits until it was told how each of `pids` ended.
fn told(births: &Births, pids: &[i32]) -> Vec<Ending> {
    let mut endings = BTreeMap::new();
    wait_until(DEADLINE, || {
        births.settle(Duration::ZERO, |born| {
            endings.insert(born.pid, born.ending);
            true
        });
        pids.iter().all(|pid| endings.contains_key(pid))
    });
    pids.iter().map(|pid| endings[pid]).collect()
}

#[test]
fn a_grandchild_that_nobody_could_look_at_is_told_with_its_end() {
    let Some(births) = follow() else { return };
    births.start().expect("a thread");
    let output = Command::new("sh")
        .args([
            "-c",
            "sh -c 'echo $$; exit 7'; sh -c 'echo $$; kill -9 $$'; echo $$",
        ])
        .output()
        .expect("a shell is everywhere");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let pids: Vec<i32> = text.lines().map(|it| it.parse().expect("a PID")).collect();
    let endings = told(&births, &pids);
    let killed = Ending::Killed {
        core_dumped: false,
        signal: 9,
    };
    assert_eq!(endings, [Ending::Exited(7), killed, Ending::Exited(0)]);
    assert!(births.trouble().is_none());
}

#[test]
fn a_birth_is_told_with_the_time_at_which_the_process_began() {
    let Some(births) = follow() else { return };
    births.start().expect("a thread");
    let mut child = Command::new("sleep").arg("1000").spawn().expect("a sleep");
    let pid = i32::try_from(child.id()).expect("a PID fits");
    let mut born = None;
    wait_until(DEADLINE, || {
        born = births.unended().into_iter().find(|born| born.pid == pid);
        born.is_some()
    });
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let ticks: u64 = rest
        .split_whitespace()
        .nth(19)
        .expect("a start")
        .parse()
        .expect("a number");
    let per_second = rustix::param::clock_ticks_per_second();
    let began = Duration::from_millis(ticks * 1000 / per_second);
    let forked = born
        .and_then(|born| born.since_boot())
        .expect("it was born");
    // The kernel gave it its time before it told of it, rounded to a tick.
    assert!(
        began <= forked + Duration::from_millis(20),
        "{began:?} {forked:?}"
    );
    assert!(
        forked < began + Duration::from_secs(30),
        "{began:?} {forked:?}"
    );
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert_eq!(told(&births, &[pid])[0].signal(), Some(9));
}
