//! Recordings: what they keep, what they leave out, and that they can be looked at like a machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::{Cgroup, CgroupLevel, CgroupLimits, Limit, Snapshot};

use super::connections::Job;
use super::explained::{look_until, waits_in};
use super::live::Started;
use super::{gaps_of, local, look, process, stacks};
use crate::{Machine, Scope, StackSource, discover, record};

pub(super) fn recorded(directory: &Path) -> Machine {
    let off = stacks(StackSource::Off);
    let roots = (directory.join("proc"), directory.join("cgroup"));
    Machine::at(roots.0, roots.1, off).with_shared_memory("/tmp".into())
}

pub(super) fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("tests/fixtures/machines").join(name)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&path)),
            kind if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}

#[test]
fn a_hybrid_machine_with_its_limits_on_version_1_is_read_right() {
    let machine = recorded(&fixture("hybrid-v1"));
    let snapshot = look(&machine, 4242);
    let sleep = process(&snapshot, 4242);
    assert_eq!(sleep.cmdline, ["sleep", "600"]);
    assert_eq!(sleep.exe.as_deref(), Some("/usr/bin/sleep"));
    assert_eq!(sleep.proc.wchan.as_deref(), Some("hrtimer_nanosleep"));
    assert_eq!(sleep.proc.file_descriptors.len(), 3);
    assert!(!sleep.python_candidate);
    assert_eq!(gaps_of(&snapshot, 4242), []);

    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 1);
    let path = cgroup.path.as_deref().unwrap();
    assert!(path.ends_with("cgroup/memory/job/worker-1"), "{path}");
    let limits = cgroup.limits.as_ref().unwrap();
    let memory = limits.memory.as_ref().unwrap();
    assert_eq!(
        memory.limit_bytes,
        Limit::Unlimited,
        "2^63 less a page is none"
    );
    assert!(memory.usage_bytes.unwrap() > 0);
    assert_eq!(limits.cpu.as_ref().unwrap().quota_usec, Limit::Unlimited);
}

#[test]
fn a_recording_of_a_living_process_has_its_facts_and_none_of_its_secrets() {
    const SECRET: &str = "s3cr3tPassw0rd";
    let mut command = Command::new("sh");
    let token = format!("--token={SECRET}");
    command
        .args(["-c", "read line", "sh", &token])
        .env("RANK", SECRET)
        // The test's own one moves on while others write to it.
        .stderr(Stdio::null());
    let child = Started::new(&mut command);
    let machine = local();
    let live = look_until(&machine, child.pid(), waits_in("read"));

    let directory = tempfile::tempdir().unwrap();
    let mut scope = Scope::tree(machine.identify(child.pid()).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    record(&machine, &targets, &[], directory.path()).unwrap();
    for file in files(directory.path()) {
        let content = std::fs::read(&file).unwrap();
        let is_there = String::from_utf8_lossy(&content).contains(SECRET);
        assert!(!is_there, "{} has the secret", file.display());
    }
    let snapshot = look(&recorded(directory.path()), child.pid());
    let (live, again) = (process(&live, child.pid()), process(&snapshot, child.pid()));
    assert_eq!(again.identity, live.identity);
    assert_eq!(again.exe, live.exe);
    assert_eq!(again.cmdline, live.cmdline);
    assert_eq!(again.proc.file_descriptors, live.proc.file_descriptors);
    assert_eq!(again.proc.threads[0].wchan, live.proc.threads[0].wchan);
    assert_eq!(again.distributed_environment["RANK"], "");
}

/// One of each thing that connects processes and that files tell of.
const CONNECTED: &str = "
r, w = os.pipe()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted = server.accept()[0]
accepted.send(b'1234567')
six = socket.create_server(('::1', 0), family=socket.AF_INET6)
named = socket.socket(socket.AF_UNIX)
named.bind('\\0taskscope-recorded-%d' % os.getpid())
named.listen()
datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagram.bind(('127.0.0.1', 0))
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
route.bind((0, 0))
lib.eventfd(3, 0)
held = os.memfd_create('held')
again = '/proc/self/fd/%d' % held
fcntl.flock(held, fcntl.LOCK_EX)
lib.shmat.restype = ctypes.c_void_p
segment = lib.shmget(0, ctypes.c_size_t(12288), 0o600)
lib.shmat(segment, None, 0)
lib.shmctl(segment, 0, None)
lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
threading.Thread(target=lambda: fcntl.flock(os.open(again, os.O_RDWR), fcntl.LOCK_EX), daemon=True).start()
";

/// Without what only the kernel can be asked for, and what changes by itself.
fn as_files_tell(snapshot: &Snapshot) -> model::Ipc {
    let mut ipc = snapshot.ipc.clone();
    for endpoint in &mut ipc.endpoints {
        endpoint.pipe = None;
        if let Some(tcp) = &mut endpoint.tcp {
            (tcp.last_received_ms, tcp.last_sent_ms) = (None, None);
            (tcp.bytes_acknowledged, tcp.bytes_received) = (None, None);
            tcp.total_retransmits = None;
            if tcp.state == "listen" {
                // The file has 0 where the kernel has the length of the queue.
                tcp.send_queue = 0;
            }
        }
        if let Some(unix) = &mut endpoint.unix {
            (unix.receive_queue, unix.send_queue) = (None, None);
        }
    }
    for futex in &mut ipc.futexes {
        futex.value = None;
    }
    // Who maps what is searched on the living machine only.
    for file in &mut ipc.shared_memory {
        file.size_bytes = None;
        file.mapped.clear();
    }
    ipc
}

/// What does not change by itself, with paths below the cgroup root.
fn bounds(cgroup: &Cgroup, root: &Path) -> (u32, String, CgroupLimits, Vec<CgroupLevel>) {
    let below = |path: &str| {
        let below = Path::new(path).strip_prefix(root).unwrap();
        below.display().to_string()
    };
    let mut limits = cgroup.limits.clone().unwrap();
    if let Some(memory) = &mut limits.memory {
        memory.usage_bytes = None;
        memory.path = memory.path.as_deref().map(below);
    }
    if let Some(cpu) = &mut limits.cpu {
        cpu.path = below(&cpu.path);
        (cpu.throttled_periods, cpu.throttled_usec) = (None, None);
    }
    if let Some(pids) = &mut limits.pids {
        pids.path = below(&pids.path);
        pids.usage = None;
    }
    let chain = cgroup.chain.iter().map(|level| {
        let memory = level.memory.as_ref().map(|memory| model::CgroupMemory {
            limit_bytes: memory.limit_bytes,
            memory_and_swap_limit_bytes: memory.memory_and_swap_limit_bytes,
            ..model::CgroupMemory::default()
        });
        let cpu = level.cpu.as_ref().map(|cpu| model::CgroupCpu {
            period_usec: cpu.period_usec,
            quota_usec: cpu.quota_usec,
            ..model::CgroupCpu::default()
        });
        let pids = level.pids.as_ref().map(|pids| model::CgroupPids {
            limit: pids.limit,
            ..model::CgroupPids::default()
        });
        CgroupLevel {
            cpu,
            hierarchy: level.hierarchy.clone(),
            io: level.io.as_ref().map(|_| model::CgroupIo::default()),
            memory,
            path: below(&level.path),
            pids,
            pressure: std::collections::BTreeMap::default(),
        }
    });
    let path = below(cgroup.path.as_deref().unwrap());
    (cgroup.version, path, limits, chain.collect())
}

#[test]
fn a_recording_has_the_connections_the_cgroups_and_the_mounts_of_the_task() {
    let job = Job::start(CONNECTED);
    let (live, _) = job.until(|snapshot| {
        let waits = |lock: &model::FileLock| !lock.waiters.is_empty();
        let is_ready = snapshot.ipc.locks.iter().any(waits)
            && !snapshot.ipc.futexes.is_empty()
            && !snapshot.ipc.sysv.is_empty()
            && snapshot.ipc.endpoints.iter().any(|one| one.unix.is_some());
        is_ready.then(|| snapshot.clone())
    });
    let directory = tempfile::tempdir().unwrap();
    let machine = local();
    let mut scope = Scope::tree(machine.identify(job.pid()).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    record(&machine, &targets, &[], directory.path()).unwrap();
    let again = look(&recorded(directory.path()), job.pid());

    assert_eq!(as_files_tell(&again), as_files_tell(&live));
    let root = directory.path().join("cgroup");
    let live_root = Path::new("/sys/fs/cgroup");
    assert_eq!(
        bounds(&again.cgroup, &root),
        bounds(&live.cgroup, live_root)
    );
    let mounted = |snapshot: &Snapshot| {
        let mounts = snapshot.filesystem.mounts.iter();
        let working = mounts
            .clone()
            .find(|mount| mount.purpose == model::MountPurpose::WorkingDirectory);
        let working = working.unwrap().clone();
        (
            working.path,
            working.mount_point,
            working.kind,
            working.source,
        )
    };
    assert_eq!(mounted(&again), mounted(&live));
}
