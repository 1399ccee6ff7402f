//! What a snapshot of a fake machine holds.

use std::fs;
use std::os::fd::AsFd;

use model::GapCode;
use testkit::{DEADLINE, FakeMachine, wait_until};

use super::{gaps_of, look, look_at, machine, memory_helper, pids, process};
use crate::{Scope, discover};

fn trainer() -> FakeMachine {
    FakeMachine::new()
        .process(100, |p| {
            p.cmdline(["/usr/bin/python3", "train.py", "--api-key=xyzzy"])
                .exe("/usr/bin/python3.11")
                .environment([("RANK", "3"), ("HOME", "/"), ("NCCL_TOKEN", "plugh")])
                .cpu_ticks(50, 7)
                .child_cpu_ticks(3, 2)
                .rss_kib(2048)
                .fd(0, "/dev/null")
                .fd(10, "pipe:[5]")
                .fd_with_info(9, "anon_inode:[eventpoll]", "pos:\t0\ntfd: 5 a\ntfd: 7 b\n")
                .wchan("futex_do_wait")
                .syscall("202 0x1 0x2")
                .kernel_stack(["futex_do_wait", "do_syscall_64"])
                .thread(101, |t| {
                    t.comm("loader")
                        .state('D')
                        .wchan("folio_wait_bit")
                        .cpu_ticks(4, 1)
                })
        })
        .process(102, |p| {
            p.ppid(100)
                .cmdline(["tee", "log"])
                .exe("/usr/bin/tee")
                .fd(0, "pipe:[5]")
        })
}

#[test]
fn every_field_of_schema_1_0_is_filled() {
    let fake = trainer();
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(gaps_of(&snapshot, 100), []);
    let python = process(&snapshot, 100);
    assert_eq!(
        python.cmdline,
        ["/usr/bin/python3", "train.py", "--api-key=[redacted]"]
    );
    assert_eq!(
        python.command,
        "/usr/bin/python3 train.py --api-key=[redacted]"
    );
    assert_eq!(python.exe.as_deref(), Some("/usr/bin/python3.11"));
    assert_eq!((python.pid, python.ppid, python.state), (100, 1, 'S'));
    assert_eq!(python.identity.to_string(), "100:1000");
    assert_eq!(python.cgroup, ["0::/"]);
    assert!(python.python_candidate && python.matches_pattern);
    assert_eq!(python.distributed_environment["RANK"], "3");
    assert_eq!(python.distributed_environment["NCCL_TOKEN"], "[redacted]");
    assert_eq!(python.distributed_environment.len(), 2);
    assert_eq!(python.redactions.len(), 2);
    assert_eq!(python.memory.as_ref().unwrap().rss_bytes, 2048 * 1024);

    let facts = &python.proc;
    assert_eq!(facts.status["State"], "S (sleeping)");
    assert_eq!(facts.io["read_bytes"], "4096");
    assert!(facts.limits[0].starts_with("Limit "));
    assert_eq!(facts.schedstat.as_deref(), Some("570000000 0 1"));
    assert_eq!((facts.utime_ticks, facts.stime_ticks), (Some(50), Some(7)));
    assert_eq!((facts.cutime_ticks, facts.cstime_ticks), (Some(3), Some(2)));
    assert_eq!(facts.wchan.as_deref(), Some("futex_do_wait"));
    assert_eq!(facts.syscall.as_deref(), Some("202 0x1 0x2"));
    assert_eq!(facts.kernel_stack[0], "[<0>] futex_do_wait+0x10/0x20");
}

#[test]
fn the_main_thread_comes_first_although_numbers_of_threads_began_anew() {
    let fake = FakeMachine::new().process(100, |p| p.thread(8, |t| t).thread(7, |t| t));
    let snapshot = look(&machine(&fake), 100);
    let threads = process(&snapshot, 100).proc.threads.iter();
    let tids: Vec<i32> = threads.map(|thread| thread.tid).collect();
    assert_eq!(tids, [100, 7, 8]);
}

#[test]
fn threads_and_descriptors_are_in_numeric_order_with_all_they_say() {
    let fake = trainer();
    let snapshot = look(&machine(&fake), 100);
    let facts = &process(&snapshot, 100).proc;
    let loader = &facts.threads[1];
    assert_eq!((facts.threads[0].tid, loader.tid), (100, 101));
    assert_eq!(
        (loader.comm.as_deref(), loader.state),
        (Some("loader"), Some('D'))
    );
    assert_eq!(loader.wchan.as_deref(), Some("folio_wait_bit"));
    assert_eq!((loader.utime_ticks, loader.stime_ticks), (Some(4), Some(1)));
    let descriptors: Vec<_> = facts
        .file_descriptors
        .iter()
        .map(|descriptor| (descriptor.fd.as_str(), descriptor.target.as_str()))
        .collect();
    let expected = [
        ("0", "/dev/null"),
        ("9", "anon_inode:[eventpoll]"),
        ("10", "pipe:[5]"),
    ];
    assert_eq!(descriptors, expected);
    let epoll = facts.file_descriptors[1].info.as_ref().unwrap();
    assert_eq!(
        (epoll["tfd"].as_str(), epoll["tfd#2"].as_str()),
        ("5 a", "7 b")
    );
}

#[test]
fn who_shares_a_pipe_is_said() {
    let fake = trainer();
    let snapshot = look(&machine(&fake), 100);
    let endpoint = &snapshot.ipc.endpoints[0];
    assert_eq!(endpoint.target, "pipe:[5]");
    let owners: Vec<_> = endpoint
        .owners
        .iter()
        .map(|owner| (owner.pid, owner.fd.as_str()))
        .collect();
    assert_eq!(owners, [(100, "10"), (102, "0")]);
    assert!(!process(&snapshot, 102).python_candidate);
}

#[test]
fn the_capture_and_the_machine_are_described() {
    let fake = trainer()
        .cgroup_file("memory.current", "4096\n")
        .cgroup_file("memory.max", "");
    let snapshot = look(&machine(&fake), 100);
    let capture = &snapshot.capture;
    assert_eq!(capture.id.to_string(), "20261130T005320.000000Z-000007");
    assert_eq!(capture.interval_s, Some(120.0));
    assert!(capture.duration_ms > 0.0 && capture.completed_at > capture.started_at);
    assert_eq!(snapshot.schema_version, "1.1");
    assert_eq!(snapshot.machine.cpu_count, Some(2));
    assert_eq!(snapshot.machine.memory_available_bytes, Some(8 << 30));
    assert_eq!(snapshot.machine.load_average.as_ref().unwrap()[0], "0.50");
    assert_eq!(
        snapshot.machine.kernel_release.as_deref(),
        Some("6.1.0-fake")
    );
    assert_eq!(snapshot.cgroup.version, 2);
    assert_eq!(snapshot.cgroup.files["memory.current"], "4096");
    assert!(!snapshot.cgroup.files.contains_key("memory.max"));
    assert!(snapshot.cgroup.host_pressure["io"].starts_with("some avg10"));
    assert!(snapshot.filesystem.shared_memory.available);
    assert!(
        snapshot.gaps.iter().all(|gap| gap.process.is_some()),
        "{:?}",
        snapshot.gaps
    );
}

#[test]
fn a_version_1_memory_controller_decides_even_beside_a_unified_hierarchy() {
    let mountinfo = "\
1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
2 0 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
3 0 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    let fake = FakeMachine::new()
        .file("self/mountinfo", mountinfo)
        .cgroup_file("memory/job/memory.limit_in_bytes", "9223372036854771712\n")
        .cgroup_file("cpu/job/cpu.cfs_quota_us", "-1\n")
        .cgroup_file("unified/cgroup.procs", "")
        .process(100, |p| p.cgroup("4:memory:/job\n1:cpu:/job\n0::/\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    assert_eq!(cgroup.version, 1);
    assert_eq!(cgroup.files["memory.limit_in_bytes"], "9223372036854771712");
    assert_eq!(cgroup.files["cpu.cfs_quota_us"], "-1");
    let path = fake.cgroup_root().join("memory/job");
    assert_eq!(cgroup.path, Some(path.display().to_string()));
}

#[test]
fn what_the_machine_does_not_tell_is_a_gap() {
    let fake = trainer().without("loadavg").without("pressure/io");
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(snapshot.machine.load_average, None);
    let seen: Vec<_> = snapshot
        .gaps
        .iter()
        .filter(|gap| gap.process.is_none())
        .map(|gap| (gap.what.as_str(), gap.code))
        .collect();
    assert_eq!(
        seen,
        [
            ("pressure/*", GapCode::Unsupported),
            ("loadavg", GapCode::Vanished)
        ]
    );
}

#[test]
fn a_process_that_ends_before_it_is_read_is_kept_with_what_was_known() {
    let mut fake = trainer();
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(100).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    fake.end(102, 1);
    let snapshot = look_at(&machine, &targets);
    let gone = process(&snapshot, 102);
    assert_eq!((gone.ppid, gone.state), (100, 'S'));
    assert_eq!(gaps_of(&snapshot, 102), [("process", GapCode::Vanished, 1)]);
    assert_eq!(gaps_of(&snapshot, 100), []);
}

#[test]
fn a_stranger_with_the_pid_of_a_target_is_thrown_away() {
    let mut fake = trainer();
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(100).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    fake.start(102, |p| {
        p.cmdline(["secret-stranger"]).start_time_ticks(149_068)
    });
    let snapshot = look_at(&machine, &targets);
    assert_eq!(pids(&targets), [100, 102]);
    assert_eq!(snapshot.processes.len(), 1);
    assert_eq!(gaps_of(&snapshot, 102), [("process", GapCode::Reused, 1)]);
    assert!(
        !serde_json::to_string(&snapshot)
            .unwrap()
            .contains("stranger")
    );
}

#[test]
fn a_zombie_and_a_kernel_thread_have_one_gap_each() {
    let fake = trainer()
        .process(103, |p| p.ppid(100).cmdline(["sleep"]).zombie())
        .process(104, |p| p.ppid(100).kernel_thread("kworker/0:1"));
    let snapshot = look(&machine(&fake), 100);
    let absent = "cmdline,environ,exe,fd";
    assert_eq!(gaps_of(&snapshot, 103), [(absent, GapCode::Vanished, 1)]);
    assert_eq!(gaps_of(&snapshot, 104), [(absent, GapCode::Unsupported, 1)]);
    assert_eq!(process(&snapshot, 103).memory, None);
    assert_eq!(process(&snapshot, 103).state, 'Z');
    assert_eq!(
        process(&snapshot, 103).proc.threads[0].comm.as_deref(),
        Some("sleep")
    );
}

#[test]
fn files_that_this_kernel_does_not_have_are_unsupported() {
    let fake = trainer().process(105, |p| {
        p.ppid(100)
            .without("io")
            .thread(105, |t| t.without("schedstat").without("syscall"))
    });
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(
        gaps_of(&snapshot, 105),
        [
            ("io", GapCode::Unsupported, 1),
            ("task/*/syscall", GapCode::Unsupported, 1),
            ("task/*/schedstat", GapCode::Unsupported, 1)
        ]
    );
}

#[test]
fn descriptors_beyond_the_limit_are_counted_exactly() {
    let fake = FakeMachine::new().process(100, |p| {
        (0..4099).fold(p, |p, number| p.fd(number, "socket:[1]"))
    });
    let snapshot = look(&machine(&fake), 100);
    let descriptors = &process(&snapshot, 100).proc.file_descriptors;
    assert_eq!(descriptors.len(), 4096);
    assert_eq!(descriptors[4095].fd, "4095");
    assert_eq!(gaps_of(&snapshot, 100), [("fd", GapCode::Truncated, 3)]);
    let detail = snapshot.gaps[0].detail.as_deref();
    assert_eq!(detail, Some("4099 are open; the first 4096 were read"));
}

#[test]
fn a_library_makes_an_embedded_interpreter_a_candidate_until_the_program_changes() {
    let maps = "7f00-7f01 r-xp 0 08:01 7 /usr/lib/libpython3.11.so.1.0\n";
    let mut fake = FakeMachine::new().process(100, |p| p.file("maps", maps));
    let machine = machine(&fake);
    assert!(process(&look(&machine, 100), 100).python_candidate);
    fake.change(100, |p| p.file("maps", "").exe("/usr/bin/other"));
    assert!(!process(&look(&machine, 100), 100).python_candidate);
}

#[test]
fn a_title_written_over_the_environment_is_not_an_empty_environment() {
    let fake = FakeMachine::new().process(100, |p| {
        p.cmdline_bytes(b"ray::IDLE\0\0\0\0")
            .file("environ", "\0\0\0\0\0")
    });
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(process(&snapshot, 100).cmdline, ["ray::IDLE"]);
    assert_eq!(
        gaps_of(&snapshot, 100),
        [("environ", GapCode::Malformed, 1)]
    );
}

#[test]
fn a_read_that_does_not_return_costs_one_gap_and_not_the_capture() {
    let fake = trainer();
    let fifo = fake.proc_root().join("100/cmdline");
    fs::remove_file(&fifo).unwrap();
    let directory = fs::File::open(fake.proc_root()).unwrap();
    rustix::fs::mkfifoat(directory.as_fd(), "100/cmdline", 0o600.into()).unwrap();
    let machine = machine(&fake).with_memory_helper(memory_helper());

    let snapshot = look(&machine, 100);
    let blocked = [
        ("cmdline", GapCode::BlockedRead, 1),
        ("environ", GapCode::BlockedRead, 1),
    ];
    assert_eq!(gaps_of(&snapshot, 100), blocked);
    let python = process(&snapshot, 100);
    assert_eq!(python.exe.as_deref(), Some("/usr/bin/python3.11"));
    assert_eq!(python.proc.wchan.as_deref(), Some("futex_do_wait"));
    assert_eq!(process(&snapshot, 102).cmdline, ["tee", "log"]);
    let stack = snapshot
        .gaps
        .iter()
        .find(|gap| gap.what == "python_stack")
        .unwrap();
    assert_eq!(stack.code, GapCode::BlockedRead);

    // It is left alone for some captures …
    let again = look(&machine, 100);
    assert_eq!(gaps_of(&again, 100), blocked);
    let of_arguments = again.gaps.iter().find(|gap| gap.what == "cmdline");
    let detail = of_arguments.unwrap().detail.as_deref().unwrap();
    assert!(
        detail.starts_with("an earlier read did not return"),
        "{detail}"
    );

    // … and then read again.
    fs::remove_file(&fifo).unwrap();
    fs::write(&fifo, "python3\0train.py\0").unwrap();
    wait_until(DEADLINE, || {
        process(&look(&machine, 100), 100).cmdline == ["python3", "train.py"]
    });
}

#[test]
fn a_wait_channel_of_zero_stays_where_nothing_was_refused() {
    let fake = FakeMachine::new().process(100, |p| p.wchan("0").syscall("running"));
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(process(&snapshot, 100).proc.wchan.as_deref(), Some("0"));
}
