//! What tests ask of real processes: whether one is there, who belongs to it, and signals by PID.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

/// Whether a process with this PID exists; a zombie does.
pub fn process_exists(pid: i32) -> bool {
    process_state(pid).is_some()
}

/// The state letter of `/proc/PID/stat`, or nothing when there is no such process.
pub fn process_state(pid: i32) -> Option<char> {
    stat_field(pid, 0)?.chars().next()
}

/// Waits until the main thread of a process sleeps: a job says "ready" before it comes to where it waits.
#[track_caller]
pub fn wait_until_asleep(pid: i32) {
    crate::wait_until(crate::DEADLINE, || process_state(pid) == Some('S'));
}

/// Sends a signal by number, also those that have no name. Panics when it cannot be sent.
#[track_caller]
pub fn send_signal(pid: i32, signal: i32) {
    let status = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg(pid.to_string())
        .status();
    assert!(
        status.expect("kill is in PATH").success(),
        "signal {signal} could not be sent to {pid}"
    );
}

/// Kills every process whose session is `session` until none is left but zombies.
/// The session's number stays taken as long as its leader is not waited for, so call this before that.
pub(crate) fn kill_session(session: i32) {
    let alive = || {
        let all = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let members = pids.filter(|pid| stat_field(*pid, 3) == Some(session.to_string()));
        members
            .filter(|pid| process_state(*pid) != Some('Z'))
            .collect::<Vec<i32>>()
    };
    crate::waiting::holds_within(crate::DEADLINE, || {
        let members = alive();
        for pid in &members {
            kill(*pid);
        }
        members.is_empty()
    });
}

/// Kills one process; one that is gone already is no error.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The only other answer is that it has ended, which is what we want.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A field of `/proc/PID/stat`, counted from the state; the name before it may hold anything.
fn stat_field(pid: i32, index: usize) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(index).map(str::to_owned)
}
