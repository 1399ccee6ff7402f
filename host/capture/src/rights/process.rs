//! What of a process decides whether we may look into it.

use std::os::fd::AsFd;

use model::ProcessId;
use serde::Serialize;

use super::ours::{OwnRights, mask, seccomp_words};
use crate::machine::Machine;
use crate::proc::reader::open_process;
use crate::proc::{Reader, key_value, stat, text};
use crate::process_facts;

/// No chain of parents is as long.
const MOST_ANCESTORS: usize = 4096;

/// The process that rights were tried on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessRights {
    /// Its name, `/proc/PID/comm`.
    pub command: Option<String>,
    /// Whether it lets others of its user look into it, prctl(2) `PR_GET_DUMPABLE`, as the owner of its files
    /// shows it; absent for processes of root, where both look the same.
    pub dumpable: Option<bool>,
    /// Which process it is.
    pub identity: ProcessId,
    /// Whether taskscope is its parent or an earlier ancestor.
    pub is_descendant: bool,
    /// Whether it is in our user namespace, where both can be read.
    pub is_in_our_user_namespace: Option<bool>,
    /// `off`, `strict` or `filter`; `Seccomp` of its `status`.
    pub seccomp: Option<&'static str>,
    /// Its real user; `Uid` of its `status`.
    pub uid: Option<u32>,
    #[serde(skip)]
    pub(super) has_our_ids: bool,
    #[serde(skip)]
    pub(super) permitted: u64,
}

impl ProcessRights {
    pub(super) fn read(machine: &Machine, id: ProcessId, reader: &mut Reader) -> Self {
        let directory = machine.proc.join(id.pid.to_string());
        let status = reader
            .read_path(&directory.join("status"))
            .map(key_value::parse)
            .unwrap_or_default();
        let ids = |key: &str| {
            let words = status.get(key).map(String::as_str).unwrap_or_default();
            let ids = words.split_ascii_whitespace();
            ids.filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()
        };
        let (users, groups) = (ids("Uid"), ids("Gid"));
        // Real, effective and saved ones; the fourth, of file systems, does not count.
        let all = |ids: &[u32], ours: u32| ids.len() >= 3 && ids[..3].iter().all(|&id| id == ours);
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let namespace = |of: &str| std::fs::read_link(machine.proc.join(of).join("ns/user")).ok();
        let comm = reader.read_path(&directory.join("comm")).map(text::line);
        Self {
            command: comm.ok(),
            dumpable: open_process(&machine.proc, id.pid)
                .ok()
                .zip(users.get(1))
                .and_then(|(opened, &user)| process_facts::dumpable(opened.as_fd(), user)),
            has_our_ids: all(&users, user) && all(&groups, group),
            identity: id,
            is_descendant: descends(machine, id.pid, reader),
            is_in_our_user_namespace: namespace("self")
                .zip(namespace(&id.pid.to_string()))
                .map(|(ours, its)| ours == its),
            permitted: status
                .get("CapPrm")
                .and_then(|bits| mask(bits))
                .unwrap_or_default(),
            seccomp: status.get("Seccomp").and_then(|mode| seccomp_words(mode)),
            uid: users.first().copied(),
        }
    }

    /// Returns the capabilities that the process may have and we do not.
    pub(super) fn beyond(&self, ours: &OwnRights) -> u64 {
        self.permitted & !ours.capability_bits
    }
}

/// Whether a chain of parents leads from `pid` to us.
fn descends(machine: &Machine, pid: i32, reader: &mut Reader) -> bool {
    let Some(own) = machine.own_pid() else {
        return false;
    };
    let mut current = pid;
    for _ in 0..MOST_ANCESTORS {
        if current == own {
            return true;
        }
        let path = machine.proc.join(current.to_string()).join("stat");
        let parent = reader.read_path(&path).ok().and_then(stat::parse);
        match parent {
            Some(stat) if stat.ppid > 0 => current = stat.ppid,
            _ => return false,
        }
    }
    false
}
