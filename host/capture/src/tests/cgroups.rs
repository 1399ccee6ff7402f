//! Which limit binds a task, on every layout of cgroups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use model::{Cgroup, GapCode, Limit, MemoryLimit};
use testkit::{DEADLINE, FakeMachine, wait_until};

use super::{local, look, machine};

const MIB: u64 = 1 << 20;

/// The three hierarchies of version 1, each mounted whole.
const VERSION_1: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";

fn memory(cgroup: &Cgroup) -> &MemoryLimit {
    cgroup.limits.as_ref().unwrap().memory.as_ref().unwrap()
}

/// The last component of a path in the snapshot.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// Version 2 as a node of Kubernetes with the whole hierarchy in view: the pod is tighter than its container.
fn node() -> FakeMachine {
    FakeMachine::new()
        .cgroup_file("kubepods/cgroup.type", "domain\n")
        .cgroup_file("kubepods/memory.max", "8589934592\n")
        .cgroup_file("kubepods/memory.current", "7516192768\n")
        .cgroup_file("kubepods/pod7/cgroup.type", "domain\n")
        .cgroup_file("kubepods/pod7/memory.max", "1073741824\n")
        .cgroup_file("kubepods/pod7/memory.high", "max\n")
        .cgroup_file("kubepods/pod7/memory.current", "1048576000\n")
        .cgroup_file("kubepods/pod7/memory.events", "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\n")
        .cgroup_file("kubepods/pod7/cpu.max", "150000 100000\n")
        .cgroup_file("kubepods/pod7/cpu.stat", "usage_usec 9\nnr_periods 100\nnr_throttled 40\nthrottled_usec 7000\n")
        .cgroup_file("kubepods/pod7/memory.pressure", "some avg10=2.50 avg60=1.00 avg300=0.50 total=99\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n")
        .cgroup_file("kubepods/pod7/main/cgroup.type", "domain\n")
        .cgroup_file("kubepods/pod7/main/memory.max", "max\n")
        .cgroup_file("kubepods/pod7/main/memory.high", "536870912\n")
        .cgroup_file("kubepods/pod7/main/memory.current", "524288000\n")
        .cgroup_file("kubepods/pod7/main/memory.stat", "anon 300\nfile 200\nshmem 64\n")
        .cgroup_file("kubepods/pod7/main/cpu.max", "max 100000\n")
        .cgroup_file("kubepods/pod7/main/cpu.stat", "usage_usec 9\nuser_usec 6\nsystem_usec 3\n")
        .cgroup_file("kubepods/pod7/main/pids.max", "512\n")
        .cgroup_file("kubepods/pod7/main/pids.current", "500\n")
        .process(100, |p| {
            p.cgroup("0::/kubepods/pod7/main\n")
                .status_line("Cpus_allowed_list", "0-7")
        })
}

#[test]
fn the_tightest_limit_of_a_chain_is_told_with_its_own_usage() {
    let snapshot = look(&machine(&node()), 100);
    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 2);
    let memory = memory(cgroup);
    assert_eq!(memory.limit_bytes, Limit::At(1024 * MIB));
    assert_eq!(memory.usage_bytes, Some(1_048_576_000));
    assert_eq!(memory.high_bytes, Limit::At(512 * MIB));
    assert_eq!(name(memory.path.as_ref().unwrap()), "pod7");
    assert!(memory.is_whole);
    let limits = cgroup.limits.as_ref().unwrap();
    let cpu = limits.cpu.as_ref().unwrap();
    assert_eq!(
        (cpu.quota_usec, cpu.period_usec),
        (Limit::At(150_000), Some(100_000))
    );
    assert_eq!(
        (cpu.throttled_periods, cpu.throttled_usec),
        (Some(40), Some(7000))
    );
    assert_eq!(name(&cpu.path), "pod7");
    let pids = limits.pids.as_ref().unwrap();
    assert_eq!((pids.limit, pids.usage), (Limit::At(512), Some(500)));
    assert_eq!(name(&pids.path), "main");
}

#[test]
fn a_chain_has_every_visible_cgroup_from_the_inside_out() {
    let snapshot = look(&machine(&node()), 100);
    let chain = &snapshot.cgroup.chain;
    let names: Vec<_> = chain.iter().map(|level| name(&level.path)).collect();
    // The root cgroup has neither limits nor numbers.
    assert_eq!(names, ["main", "pod7", "kubepods"]);
    let own = chain[0].memory.as_ref().unwrap();
    assert_eq!(own.limit_bytes, Limit::Unlimited);
    assert_eq!((own.anon_bytes, own.shmem_bytes), (Some(300), Some(64)));
    let pod = chain[1].memory.as_ref().unwrap();
    assert_eq!((pod.oom_kills, pod.limit_hits), (Some(2), Some(12)));
    let stall = chain[1].pressure["memory"].some.unwrap();
    assert_eq!(
        (stall.avg10_percent.to_string(), stall.total_usec),
        ("2.5".to_owned(), 99)
    );
    assert_eq!(snapshot.cgroup.files["memory.max"], "max");
    assert!(
        snapshot
            .cgroup
            .path
            .as_ref()
            .unwrap()
            .ends_with("kubepods/pod7/main")
    );
}

#[test]
fn the_task_may_use_no_more_processors_than_its_quota_is_worth() {
    let snapshot = look(&machine(&node()), 100);
    assert_eq!(snapshot.machine.cpus_allowed, Some(8));
    assert_eq!(
        snapshot
            .machine
            .cpus_usable
            .map(|cpus| cpus.to_string())
            .as_deref(),
        Some("1.5")
    );
    assert_eq!(snapshot.machine.pressure["io"].some.unwrap().total_usec, 2);
    assert_eq!(snapshot.machine.swap_total_bytes, Some(0));
    assert_eq!(snapshot.machine.memory_free_bytes, Some(4 << 30));
    assert_eq!(snapshot.machine.memory_dirty_bytes, None);
    assert!(snapshot.machine.architecture.is_some());
}

#[test]
fn without_any_limit_up_to_the_root_it_is_unlimited() {
    let fake = FakeMachine::new()
        .cgroup_file("job/cgroup.type", "domain\n")
        .cgroup_file("job/memory.max", "max\n")
        .cgroup_file("job/memory.current", "4096\n")
        .process(100, |p| p.cgroup("0::/job\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    let memory = memory(&cgroup);
    assert_eq!(
        (memory.limit_bytes, memory.usage_bytes),
        (Limit::Unlimited, Some(4096))
    );
    assert_eq!(
        cgroup.limits.as_ref().unwrap().pids.as_ref().unwrap().limit,
        Limit::Unlimited
    );
}

#[test]
fn in_a_private_namespace_what_is_above_is_unknown_and_not_unlimited() {
    // The root that a container sees is its own cgroup, and has what a root of the machine has not.
    let fake = FakeMachine::new()
        .cgroup_file("cgroup.type", "domain\n")
        .cgroup_file("memory.max", "max\n")
        .cgroup_file("memory.current", "4096\n")
        .process(100, |p| p.cgroup("0::/\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    let unlimited_here = memory(&cgroup);
    assert_eq!(unlimited_here.limit_bytes, Limit::Unknown);
    assert!(!unlimited_here.is_whole);
    assert_eq!(
        cgroup.chain[0].memory.as_ref().unwrap().limit_bytes,
        Limit::Unlimited
    );
}

#[test]
fn a_limit_above_the_memory_of_the_machine_is_a_number() {
    let fake = FakeMachine::new()
        .cgroup_file("job/memory.max", "1125899906842624\n")
        .process(100, |p| p.cgroup("0::/job\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    assert_eq!(memory(&cgroup).limit_bytes, Limit::At(1 << 50));
}

#[test]
fn a_limit_that_cannot_be_understood_is_unknown() {
    let fake = FakeMachine::new()
        .cgroup_file("job/memory.max", "many\n")
        .process(100, |p| p.cgroup("0::/job\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    assert_eq!(memory(&cgroup).limit_bytes, Limit::Unknown);
}

#[test]
fn on_version_1_each_controller_has_a_chain_of_its_own() {
    let fake = FakeMachine::new()
        .file("self/mountinfo", VERSION_1)
        .cgroup_file("memory/release_agent", "")
        .cgroup_file("memory/memory.limit_in_bytes", "9223372036854771712\n")
        .cgroup_file("memory/slurm/memory.limit_in_bytes", "4294967296\n")
        .cgroup_file("memory/slurm/memory.usage_in_bytes", "4000000000\n")
        .cgroup_file(
            "memory/slurm/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        )
        .cgroup_file(
            "memory/slurm/job/memory.limit_in_bytes",
            "9223372036854710272\n",
        )
        .cgroup_file("memory/slurm/job/memory.usage_in_bytes", "1000\n")
        .cgroup_file(
            "memory/slurm/job/memory.stat",
            "rss 0\ntotal_rss 900\nhierarchical_memory_limit 4294967296\n",
        )
        .cgroup_file("cpu,cpuacct/release_agent", "")
        .cgroup_file("cpu,cpuacct/elsewhere/cpu.cfs_quota_us", "-1\n")
        .cgroup_file("cpu,cpuacct/elsewhere/cpu.cfs_period_us", "100000\n")
        .cgroup_file("pids/release_agent", "")
        .cgroup_file("pids/cgroup.procs", "")
        .process(100, |p| {
            p.cgroup("4:memory:/slurm/job\n3:cpu,cpuacct:/elsewhere\n2:pids:/\n")
        });
    let cgroup = look(&machine(&fake), 100).cgroup;
    assert_eq!(cgroup.version, 1);
    let memory = memory(&cgroup);
    assert_eq!(memory.limit_bytes, Limit::At(4096 * MIB));
    assert_eq!(memory.usage_bytes, Some(4_000_000_000));
    assert_eq!(name(memory.path.as_ref().unwrap()), "slurm");
    let limits = cgroup.limits.as_ref().unwrap();
    let cpu = limits.cpu.as_ref().unwrap();
    // The root cgroup of the controller has no quota of its own to read.
    assert_eq!(
        (cpu.quota_usec, name(&cpu.path)),
        (Limit::Unlimited, "elsewhere")
    );
    let seen: Vec<_> = cgroup
        .chain
        .iter()
        .map(|level| (level.hierarchy.as_str(), name(&level.path)))
        .collect();
    assert_eq!(
        seen,
        [
            ("memory", "job"),
            ("memory", "slurm"),
            ("memory", "memory"),
            ("cpu,cpuacct", "elsewhere")
        ]
    );
    assert_eq!(
        cgroup.chain[0].memory.as_ref().unwrap().anon_bytes,
        Some(900)
    );
    assert_eq!(cgroup.chain[1].memory.as_ref().unwrap().oom_kills, Some(3));
}

#[test]
fn version_1_in_a_container_tells_a_limit_that_is_set_where_we_cannot_look() {
    let fake = FakeMachine::new()
        .file(
            "self/mountinfo",
            "35 31 0:32 /docker/7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        )
        .cgroup_file("memory/memory.limit_in_bytes", "9223372036854771712\n")
        .cgroup_file("memory/memory.usage_in_bytes", "1000\n")
        .cgroup_file(
            "memory/memory.stat",
            "hierarchical_memory_limit 2147483648\n",
        )
        .process(100, |p| p.cgroup("4:memory:/docker/7\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    let memory = memory(&cgroup);
    assert_eq!(memory.limit_bytes, Limit::At(2048 * MIB));
    assert_eq!((&memory.path, memory.usage_bytes), (&None, None));
}

#[test]
fn on_a_hybrid_machine_pressure_comes_from_version_2_and_limits_from_version_1() {
    let mountinfo =
        format!("{VERSION_1}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let fake = FakeMachine::new()
        .file("self/mountinfo", &mountinfo)
        .cgroup_file("memory/job/memory.limit_in_bytes", "1073741824\n")
        .cgroup_file("unified/job/cgroup.type", "domain\n")
        .cgroup_file(
            "unified/job/cpu.pressure",
            "some avg10=9.00 avg60=0.00 avg300=0.00 total=1\n",
        )
        .process(100, |p| p.cgroup("4:memory:/job\n0::/job\n"));
    let cgroup = look(&machine(&fake), 100).cgroup;
    assert_eq!(cgroup.version, 1);
    assert_eq!(memory(&cgroup).limit_bytes, Limit::At(1024 * MIB));
    let unified = cgroup
        .chain
        .iter()
        .find(|level| level.hierarchy == "unified")
        .unwrap();
    assert!(unified.pressure.contains_key("cpu"));
    assert!(!cgroup.files.contains_key("cpu.pressure"));
}

#[test]
fn a_process_outside_our_namespace_has_a_gap_and_no_limits() {
    let fake = FakeMachine::new().process(100, |p| p.cgroup("0::/../other\n"));
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(snapshot.cgroup.limits, None);
    let gap = snapshot
        .gaps
        .iter()
        .find(|gap| gap.what == "cgroup")
        .unwrap();
    assert_eq!(
        (gap.code, gap.right.as_deref()),
        (GapCode::Unsupported, Some("cgroup_files"))
    );
}

/// A cgroup of version 1 for one test, below our own, removed with its processes.
struct Below {
    child: Child,
    outer: PathBuf,
    inner: PathBuf,
}

impl Below {
    fn start() -> Result<Self, String> {
        let root = Path::new("/sys/fs/cgroup/memory");
        let outer = root.join(format!("taskscope-test-{}", std::process::id()));
        let inner = outer.join("task");
        fs::create_dir(&outer).map_err(|error| format!("{}: {error}", outer.display()))?;
        let made = fs::create_dir(&inner)
            .and_then(|()| fs::write(outer.join("memory.limit_in_bytes"), "268435456"));
        let child = made.and_then(|()| Command::new("sleep").arg("1000").spawn());
        match child {
            Ok(child) => {
                let below = Self {
                    child,
                    outer,
                    inner,
                };
                let procs = below.inner.join("cgroup.procs");
                fs::write(procs, below.child.id().to_string())
                    .map_err(|error| error.to_string())?;
                Ok(below)
            }
            Err(error) => {
                _ = fs::remove_dir(&inner);
                _ = fs::remove_dir(&outer);
                Err(error.to_string())
            }
        }
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        wait_until(DEADLINE, || fs::remove_dir(&self.inner).is_ok());
        _ = fs::remove_dir(&self.outer);
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that could not run says so")]
fn a_living_process_is_bound_by_the_limit_of_the_cgroup_above_its_own() {
    let below = match Below::start() {
        Ok(below) => below,
        Err(reason) => {
            return eprintln!("SKIPPED: no cgroup of version 1 can be made here: {reason}");
        }
    };
    let snapshot = look(&local(), i32::try_from(below.child.id()).unwrap());
    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 1);
    let memory = memory(cgroup);
    assert_eq!(memory.limit_bytes, Limit::At(256 * MIB));
    assert_eq!(memory.path.as_deref(), below.outer.to_str());
    assert!(memory.usage_bytes.is_some_and(|usage| usage <= 256 * MIB));
    assert!(memory.is_whole);
    let levels: Vec<_> = cgroup
        .chain
        .iter()
        .filter(|level| level.memory.is_some())
        .collect();
    assert_eq!(levels[0].path, below.inner.to_str().unwrap());
    let own = levels[0].memory.as_ref().unwrap();
    assert_eq!(own.limit_bytes, Limit::Unlimited);
    assert_eq!((own.oom_kills, own.under_oom), (Some(0), Some(false)));
    assert_eq!(
        levels[1].memory.as_ref().unwrap().limit_bytes,
        Limit::At(256 * MIB)
    );
    // The root of the machine, where the limit is the sentinel.
    assert_eq!(
        levels.last().unwrap().memory.as_ref().unwrap().limit_bytes,
        Limit::Unlimited
    );
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(snapshot.machine.cpus_allowed, u32::try_from(cpus).ok());
}

/// The main process is in the cgroup of the service, its worker in one below.
fn launcher() -> FakeMachine {
    FakeMachine::new()
        .cgroup_file("service/cgroup.type", "domain\n")
        .cgroup_file("service/memory.max", "max\n")
        .cgroup_file("service/memory.current", "9000\n")
        .cgroup_file("service/cpu.max", "max 100000\n")
        .cgroup_file("service/worker/cgroup.type", "domain\n")
        .cgroup_file("service/worker/memory.max", "4096\n")
        .cgroup_file("service/worker/memory.current", "4096\n")
        .cgroup_file("service/worker/memory.events", "oom 1\noom_kill 1\n")
        .cgroup_file("service/worker/cpu.max", "4000 100000\n")
        .cgroup_file(
            "service/worker/cpu.stat",
            "nr_periods 9\nnr_throttled 8\nthrottled_usec 7\n",
        )
        .process(100, |p| p.cgroup("0::/service\n"))
        .process(101, |p| p.ppid(100).cgroup("0::/service/worker\n"))
        .process(102, |p| p.ppid(101).cgroup("0::/service/worker\n"))
        .process(103, |p| p.ppid(100).cgroup("0::/service\n"))
}

#[test]
fn a_worker_in_a_cgroup_of_its_own_has_its_own_limits() {
    let snapshot = look(&machine(&launcher()), 100);
    let own = snapshot.cgroup.limits.as_ref().unwrap();
    assert_eq!(
        own.memory.as_ref().unwrap().limit_bytes,
        Limit::Unlimited,
        "the main process has none"
    );
    let [worker] = &snapshot.cgroup.others[..] else {
        panic!("{:?}", snapshot.cgroup.others);
    };
    let pids: Vec<_> = worker.processes.iter().map(|id| id.pid).collect();
    assert_eq!(pids, [101, 102]);
    let names: Vec<_> = worker.chain.iter().map(|one| name(&one.path)).collect();
    // Those above are in the chain of the main process.
    assert_eq!(names, ["worker"]);
    let limits = worker.limits.as_ref().unwrap();
    let memory = limits.memory.as_ref().unwrap();
    assert_eq!(
        (memory.limit_bytes, memory.usage_bytes),
        (Limit::At(4096), Some(4096))
    );
    let cpu = limits.cpu.as_ref().unwrap();
    assert_eq!(
        (cpu.quota_usec, cpu.throttled_periods),
        (Limit::At(4000), Some(8))
    );
    let kills = worker.chain[0].memory.as_ref().unwrap().oom_kills;
    assert_eq!(kills, Some(1));
}

#[test]
fn where_all_are_in_one_cgroup_there_are_no_others() {
    let fake = launcher()
        .process(101, |p| p.ppid(100).cgroup("0::/service\n"))
        .process(102, |p| p.ppid(100).state('Z').cgroup("0::/\n"));
    assert_eq!(look(&machine(&fake), 100).cgroup.others, []);
}

#[test]
fn of_very_many_cgroups_the_first_are_read_and_a_gap_says_so() {
    let mut fake = FakeMachine::new().process(100, |p| p.cgroup("0::/\n"));
    for number in 1..=33 {
        let path = format!("0::/worker-{number}\n");
        let file = format!("worker-{number}/memory.max");
        fake = fake
            .cgroup_file(&file, "max\n")
            .process(100 + number, |p| p.ppid(100).cgroup(&path));
    }
    let snapshot = look(&machine(&fake), 100);
    assert_eq!(snapshot.cgroup.others.len(), 32);
    let cut = |gap: &&model::Gap| gap.what == "cgroup/others";
    let gap = snapshot.gaps.iter().find(cut).unwrap();
    assert_eq!(gap.code, GapCode::Truncated);
}
