//! System V objects: `/proc/sysvipc/shm`, `sem` and `msg`, and who of the task uses them.

use std::collections::{BTreeMap, BTreeSet};

use model::{GapCode, Process, ProcessId, SysvKind, SysvObject};

use super::{namespace, system_calls};
use crate::error::gap_code;
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::Reader;

/// Who uses an object, as far as is known from the processes.
pub(super) type Users = BTreeMap<(SysvKind, i64), BTreeSet<ProcessId>>;

const FILES: [(&str, SysvKind); 3] = [
    ("msg", SysvKind::Messages),
    ("sem", SysvKind::Semaphores),
    ("shm", SysvKind::SharedMemory),
];

/// One line, as far as it is kept.
struct Line {
    object: SysvObject,
    pids: [Option<i32>; 2],
}

/// Returns the objects that processes of the task use. `users` has those who map a segment.
pub(super) fn read(
    machine: &Machine,
    processes: &[Process],
    mut users: Users,
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Vec<SysvObject> {
    for process in processes {
        for thread in &process.proc.threads {
            if let Some(object) = system_calls::sysv_object(thread) {
                users.entry(object).or_default().insert(process.identity);
            }
        }
    }
    // The ids are of our own IPC namespace; another has other objects with the same ids.
    for processes in users.values_mut() {
        processes.retain(|process| namespace::is_ours(machine, process.pid, "ipc"));
    }
    let ids: BTreeMap<i32, ProcessId> = processes
        .iter()
        .map(|process| (process.pid, process.identity))
        .collect();
    let mut objects = Vec::new();
    for (name, kind) in FILES {
        match reader.read_path(&machine.proc.join("sysvipc").join(name)) {
            Ok(content) => objects.extend(of_task(content, kind, &users, &ids)),
            // A kernel without System V objects has none to show.
            Err(error) if gap_code(&error) == GapCode::Vanished => {}
            Err(error) => gaps.note(&format!("ipc/sysvipc/{name}"), &error),
        }
    }
    objects
}

fn of_task(
    content: &[u8],
    kind: SysvKind,
    users: &Users,
    ids: &BTreeMap<i32, ProcessId>,
) -> Vec<SysvObject> {
    let text = String::from_utf8_lossy(content);
    let lines = text.lines().skip(1).filter_map(|line| line_of(line, kind));
    let used = lines.filter_map(|line| {
        let mut all = users
            .get(&(kind, line.object.id))
            .cloned()
            .unwrap_or_default();
        let pids = line.pids.iter().flatten();
        all.extend(pids.filter_map(|pid| ids.get(pid)));
        let users: Vec<ProcessId> = all.into_iter().collect();
        (!users.is_empty()).then_some(SysvObject {
            users,
            ..line.object
        })
    });
    used.collect()
}

/// `key shmid perms size cpid lpid nattch …`, `key semid perms nsems …`, `key msqid perms cbytes qnum lspid lrpid …`.
fn line_of(line: &str, kind: SysvKind) -> Option<Line> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
    let pid = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
    let object = SysvObject {
        attached: None,
        bytes: None,
        id: fields.get(1)?.parse().ok()?,
        key: fields.first()?.parse().ok()?,
        kind,
        members: None,
        users: Vec::new(),
    };
    Some(match kind {
        SysvKind::Messages => Line {
            object: SysvObject {
                bytes: number(3),
                members: number(4),
                ..object
            },
            pids: [pid(5), pid(6)],
        },
        SysvKind::Semaphores => Line {
            object: SysvObject {
                members: number(3),
                ..object
            },
            pids: [None, None],
        },
        SysvKind::SharedMemory => Line {
            object: SysvObject {
                attached: number(6),
                bytes: number(3),
                ..object
            },
            pids: [pid(4), pid(5)],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHM: &[u8] = b"       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n         0      32769  1600                  4096   100   101      2     0     0     0     0 1796000000          0 1796000000                  4096                     0\n1627651588          3   666                    16   900   901      1     0     0     0     0          0          0          0                     0                     0\nodd\n";
    const SEM: &[u8] = b"       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n -12345678          8   600          2     0     0     0     0          0 1796000000\n";

    fn id(pid: i32) -> ProcessId {
        ProcessId {
            pid,
            start_time_ticks: 1,
        }
    }

    #[test]
    fn a_segment_is_of_who_made_it_and_of_who_maps_it() {
        let ids = BTreeMap::from([(100, id(100)), (102, id(102))]);
        let users = Users::from([((SysvKind::SharedMemory, 32769), BTreeSet::from([id(102)]))]);
        let objects = of_task(SHM, SysvKind::SharedMemory, &users, &ids);
        assert_eq!(objects.len(), 1, "the other is of strangers");
        assert_eq!(
            (objects[0].bytes, objects[0].attached),
            (Some(4096), Some(2))
        );
        assert_eq!(objects[0].users, [id(100), id(102)]);
    }

    #[test]
    fn a_set_of_semaphores_is_of_who_waits_for_it() {
        let users = Users::from([((SysvKind::Semaphores, 8), BTreeSet::from([id(7)]))]);
        let objects = of_task(SEM, SysvKind::Semaphores, &users, &BTreeMap::new());
        assert_eq!((objects[0].key, objects[0].members), (-12_345_678, Some(2)));
        assert_eq!(objects[0].users, [id(7)]);
        assert!(of_task(SEM, SysvKind::Semaphores, &Users::new(), &BTreeMap::new()).is_empty());
    }
}
