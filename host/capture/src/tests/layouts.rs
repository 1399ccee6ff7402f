//! The cgroups of recorded and hand-made machines (`tests/fixtures/machines`): one layout a test.

use model::{Cgroup, CgroupLevel, CgroupLimits, GapCode, Limit, Snapshot};

use super::look;
use super::recorded::{fixture, recorded};

const GIB: u64 = 1 << 30;

fn snapshot(name: &str) -> Snapshot {
    look(&recorded(&fixture(name)), 4242)
}

fn limits(cgroup: &Cgroup) -> &CgroupLimits {
    cgroup.limits.as_ref().unwrap()
}

/// The part of a path below `cgroup/`.
fn below(path: &str) -> &str {
    path.rsplit_once("/cgroup/").map_or("", |(_, below)| below)
}

fn level<'a>(cgroup: &'a Cgroup, hierarchy: &str, name: &str) -> &'a CgroupLevel {
    let mut levels = cgroup.chain.iter();
    let found = levels.find(|level| level.hierarchy == hierarchy && level.path.ends_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", cgroup.chain))
}

/// Tests of what `limits` say: a limit, the usage of the cgroup that sets it, and where that is.
fn memory(cgroup: &Cgroup) -> (Limit, Option<u64>, Option<&str>, bool) {
    let memory = limits(cgroup).memory.as_ref().unwrap();
    let path = memory.path.as_deref().map(below);
    (
        memory.limit_bytes,
        memory.usage_bytes,
        path,
        memory.is_whole,
    )
}

fn cpu(cgroup: &Cgroup) -> (Limit, Option<u64>, &str, bool) {
    let cpu = limits(cgroup).cpu.as_ref().unwrap();
    let throttled = cpu.throttled_periods;
    (cpu.quota_usec, throttled, below(&cpu.path), cpu.is_whole)
}

fn pids(cgroup: &Cgroup) -> (Limit, Option<u64>, &str, bool) {
    let pids = limits(cgroup).pids.as_ref().unwrap();
    (pids.limit, pids.usage, below(&pids.path), pids.is_whole)
}

#[test]
fn version_1_alone_has_a_chain_for_each_controller() {
    const JOB: &str = "slurm/uid_1000/job_77";
    let snapshot = snapshot("v1");
    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 1);
    let job = format!("memory/{JOB}");
    // The job's, and not that of the user above or the "none" of the step below.
    let expected = (
        Limit::At(4 * GIB),
        Some(4_294_950_912),
        Some(job.as_str()),
        true,
    );
    assert_eq!(memory(cgroup), expected);
    let job = format!("cpu,cpuacct/{JOB}");
    let expected = (Limit::At(200_000), Some(1200), job.as_str(), true);
    assert_eq!(cpu(cgroup), expected);
    let throttled = limits(cgroup).cpu.as_ref().unwrap().throttled_usec;
    assert_eq!(throttled, Some(60_000_000), "from nanoseconds");
    // What is left in the user's cgroup counts all of the user's jobs.
    let expected = (Limit::At(1000), Some(890), "pids/slurm/uid_1000", true);
    assert_eq!(pids(cgroup), expected);

    let step = level(cgroup, "memory", "step_0").memory.as_ref().unwrap();
    assert_eq!(step.limit_bytes, Limit::Unlimited, "2^63 less a page");
    assert_eq!(step.memory_and_swap_limit_bytes, Some(Limit::Unlimited));
    assert_eq!(
        (step.high_bytes, step.swap_limit_bytes),
        (Limit::Unknown, Limit::Unknown)
    );
    assert_eq!(
        step.under_oom,
        Some(true),
        "its killer is off, and it waits"
    );
    assert_eq!(step.anon_bytes, Some(4_253_024_256));
    let job = level(cgroup, "memory", "job_77").memory.as_ref().unwrap();
    assert_eq!((job.oom_kills, job.limit_hits), (Some(2), Some(312)));
    let used = level(cgroup, "cpu,cpuacct", "job_77");
    let used = used.cpu.as_ref().unwrap().usage_usec;
    assert_eq!(used, Some(500_000_000));
    let io = level(cgroup, "blkio", "job_77").io.as_ref().unwrap();
    assert_eq!((io.read_bytes, io.written_bytes), (1_052_672, 2_097_152));
    assert_eq!(io.reads, None);

    // This kernel measures no pressure, which is not a pressure of none.
    assert!(cgroup.host_pressure.is_empty());
    let gap = snapshot.gaps.iter().find(|gap| gap.what == "pressure/*");
    assert_eq!(gap.map(|gap| gap.code), Some(GapCode::Unsupported));
}

#[test]
fn version_2_alone_has_one_chain_with_everything() {
    let snapshot = snapshot("v2");
    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 2);
    let scope = "system.slice/job-77.scope";
    let expected = (Limit::At(GIB), Some(805_298_176), Some(scope), true);
    assert_eq!(memory(cgroup), expected);
    let high = limits(cgroup).memory.as_ref().unwrap().high_bytes;
    assert_eq!(high, Limit::At(805_306_368));
    assert_eq!(cpu(cgroup), (Limit::At(150_000), Some(1200), scope, true));
    assert_eq!(pids(cgroup), (Limit::At(512), Some(37), scope, true));

    let own = level(cgroup, "unified", "worker");
    let memory = own.memory.as_ref().unwrap();
    assert_eq!(memory.limit_bytes, Limit::Unlimited, "max");
    let parts = (memory.anon_bytes, memory.shmem_bytes, memory.kernel_bytes);
    assert_eq!(
        parts,
        (Some(734_003_200), Some(16_777_216), Some(9_437_184))
    );
    assert_eq!((memory.oom_events, memory.oom_kills), (Some(3), Some(2)));
    let cpu = own.cpu.as_ref().unwrap();
    assert_eq!(cpu.quota_usec, Limit::Unlimited);
    assert_eq!(
        (cpu.usage_usec, cpu.user_usec),
        (Some(480_000_000), Some(390_000_000))
    );
    let io = own.io.as_ref().unwrap();
    assert_eq!((io.read_bytes, io.written_bytes), (1_052_672, 2_097_152));
    assert_eq!((io.reads, io.writes), (Some(17), Some(32)));
    let scope = level(cgroup, "unified", "job-77.scope");
    let memory = scope.memory.as_ref().unwrap();
    assert_eq!(memory.swap_limit_bytes, Limit::At(0), "no swap is a number");
    assert_eq!(
        (memory.high_hits, memory.limit_hits),
        (Some(5120), Some(17))
    );
    let stall = scope.pressure["memory"].full.unwrap();
    assert_eq!(stall.avg10_percent.to_string(), "9.75");
    assert_eq!(stall.total_usec, 3_100_000);
    assert_eq!(scope.pids.as_ref().unwrap().limit_hits, Some(4));
    assert_eq!(cgroup.files["memory.max"], "max");
    assert_eq!(
        snapshot.machine.pressure["io"].full.unwrap().total_usec,
        812_345
    );
}

#[test]
fn a_container_below_a_pod_is_bound_by_either() {
    let snapshot = snapshot("nested");
    let cgroup = &snapshot.cgroup;
    let pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a1b2c3d_0e4f_4a5b_8c9d_1234567890ab.slice";
    let container = format!("{pod}/cri-containerd-9f8e7d6c5b4a.scope");
    let expected = (Limit::At(3 * GIB), Some(2_952_790_016), Some(pod), true);
    assert_eq!(memory(cgroup), expected);
    assert_eq!(
        cpu(cgroup),
        (Limit::At(200_000), Some(6400), container.as_str(), true)
    );
    assert_eq!(pids(cgroup), (Limit::At(1024), Some(1001), pod, true));
    let names: Vec<&str> = cgroup
        .chain
        .iter()
        .map(|level| below(&level.path))
        .collect();
    let (slice, burstable) = ("kubepods.slice", "kubepods.slice/kubepods-burstable.slice");
    assert_eq!(names[..4], [container.as_str(), pod, burstable, slice]);
    // Killed in the pod, though nothing was in the container itself.
    let kills = |name| {
        level(cgroup, "unified", name)
            .memory
            .as_ref()
            .unwrap()
            .oom_kills
    };
    assert_eq!((kills(&container), kills(pod)), (Some(0), Some(1)));
}

#[test]
fn what_is_above_a_private_namespace_is_unknown_and_what_is_in_it_a_number() {
    let snapshot = snapshot("container");
    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 2);
    let (limit, usage, _, is_whole) = memory(cgroup);
    assert_eq!(
        (limit, usage, is_whole),
        (Limit::Unknown, Some(268_435_456), false)
    );
    let own = cgroup.chain[0].memory.as_ref().unwrap();
    assert_eq!(own.limit_bytes, Limit::Unlimited, "here it is none");
    let (quota, throttled, _, is_whole) = cpu(cgroup);
    assert_eq!(
        (quota, throttled, is_whole),
        (Limit::At(50_000), Some(900), false)
    );
    let (limit, usage, _, is_whole) = pids(cgroup);
    assert_eq!((limit, usage, is_whole), (Limit::At(100), Some(12), false));
    assert_eq!(cgroup.chain.len(), 1);
}

#[test]
fn a_container_on_version_1_knows_of_memory_alone_what_is_above() {
    let snapshot = snapshot("container-v1");
    let cgroup = &snapshot.cgroup;
    assert_eq!(cgroup.version, 1);
    // The kernel tells the limit (hierarchical_memory_limit), but not whose it is and how much of it is used.
    assert_eq!(memory(cgroup), (Limit::At(GIB / 2), None, None, true));
    let (quota, throttled, _, is_whole) = cpu(cgroup);
    assert_eq!((quota, throttled, is_whole), (Limit::Unknown, None, false));
    let (limit, usage, _, is_whole) = pids(cgroup);
    assert_eq!((limit, usage, is_whole), (Limit::Unknown, Some(12), false));
}
