//! What the task is short of: memory, processors, threads, space. Nothing is said of what it has enough of.

use std::fmt::Write as _;

use model::{CgroupLevel, CgroupLimits, Limit, Mount, OtherCgroup, Snapshot};

use super::table;
use super::text::safe;

/// From this share of a limit on it is told, percent.
const TIGHT: u64 = 80;
/// From this share of a file system on it is told, percent.
const FULL: u64 = 90;
/// From this share of the last ten seconds on waiting for memory or disks is told, percent.
const LONG: f64 = 10.0;

/// Returns a line for each shortage.
pub(super) fn lines(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let cgroup = &snapshot.cgroup;
    let usable = snapshot.machine.cpus_usable;
    if let Some(limits) = &cgroup.limits {
        bounds(&mut text, "", limits, &cgroup.chain, usable);
    }
    for other in &cgroup.others {
        if let Some(limits) = &other.limits {
            bounds(&mut text, &whose(other), limits, &other.chain, None);
        }
    }
    pressure(&mut text, snapshot);
    for mount in &snapshot.filesystem.mounts {
        space(&mut text, mount);
    }
    text
}

fn percent(used: u64, limit: u64) -> u64 {
    u64::try_from(u128::from(used) * 100 / u128::from(limit.max(1))).unwrap_or(u64::MAX)
}

/// Says of whom a line is that is not of the main process.
fn whose(other: &OtherCgroup) -> String {
    match other.processes.as_slice() {
        [one] => format!(" of process {}", one.pid),
        [first, ..] => format!(
            " of {} processes such as {}",
            other.processes.len(),
            first.pid
        ),
        [] => String::new(),
    }
}

fn bounds(
    text: &mut String,
    whose: &str,
    limits: &CgroupLimits,
    chain: &[CgroupLevel],
    usable: Option<f64>,
) {
    memory(text, whose, limits, chain);
    processors(text, whose, limits, usable);
    threads(text, whose, limits);
}

fn memory(text: &mut String, whose: &str, limits: &CgroupLimits, chain: &[CgroupLevel]) {
    let Some(memory) = &limits.memory else {
        return;
    };
    let levels = chain.iter();
    let kills = levels.filter_map(|level| level.memory.as_ref()?.oom_kills);
    let kills = kills.max().unwrap_or(0);
    let mut words = String::new();
    if let (Limit::At(limit), Some(usage)) = (memory.limit_bytes, memory.usage_bytes)
        && percent(usage, limit) >= TIGHT
    {
        let (share, usage, limit) = (
            percent(usage, limit),
            table::bytes(usage),
            table::bytes(limit),
        );
        _ = write!(words, "{usage} of {limit} used ({share} %)");
        if let Some(path) = &memory.path {
            _ = write!(words, " in cgroup {}", safe(path));
        }
    }
    if kills > 0 {
        let join = if words.is_empty() { "" } else { "; " };
        _ = write!(words, "{join}{kills} killed for lack of memory so far");
    }
    if !words.is_empty() {
        _ = writeln!(text, "memory{whose}: {words}");
    }
}

fn processors(text: &mut String, whose: &str, limits: &CgroupLimits, usable: Option<f64>) {
    let Some(cpu) = &limits.cpu else {
        return;
    };
    let (Limit::At(quota), Some(throttled @ 1..)) = (cpu.quota_usec, cpu.throttled_periods) else {
        return;
    };
    #[expect(clippy::cast_precision_loss, reason = "one digit of it is shown")]
    let worth = || Some(quota as f64 / cpu.period_usec? as f64);
    let usable = usable.or_else(worth);
    let usable = usable.map_or_else(|| "?".to_owned(), |cpus| format!("{cpus:.1}"));
    _ = writeln!(
        text,
        "processors{whose}: {usable} allowed, held back in {throttled} periods so far by cgroup {}",
        safe(&cpu.path)
    );
}

fn threads(text: &mut String, whose: &str, limits: &CgroupLimits) {
    let Some(pids) = &limits.pids else {
        return;
    };
    if let (Limit::At(limit), Some(usage)) = (pids.limit, pids.usage)
        && percent(usage, limit) >= TIGHT
    {
        let path = safe(&pids.path);
        _ = writeln!(text, "threads{whose}: {usage} of {limit} in cgroup {path}");
    }
}

fn pressure(text: &mut String, snapshot: &Snapshot) {
    for (name, what) in [("memory", "memory"), ("io", "disks")] {
        let pressure = snapshot.machine.pressure.get(name);
        let stall = pressure.and_then(|pressure| pressure.full);
        if let Some(stall) = stall.filter(|stall| stall.avg10_percent >= LONG) {
            let share = stall.avg10_percent;
            _ = writeln!(
                text,
                "pressure: all of the machine waited for {what} {share:.0} % of the last 10 s"
            );
        }
    }
}

fn space(text: &mut String, mount: &Mount) {
    let path = safe(&mount.path);
    if let (Some(total @ 1..), Some(free), Some(available)) =
        (mount.bytes_total, mount.bytes_free, mount.bytes_available)
    {
        // As df does: what is reserved for root is neither used nor available.
        let used = total.saturating_sub(free);
        let share = percent(used, used.saturating_add(available));
        if share >= FULL {
            let (left, total) = (table::bytes(available), table::bytes(total));
            _ = writeln!(text, "space: {path} {share} % full, {left} of {total} left");
        }
    }
    if let (Some(total @ 1..), Some(free)) = (mount.inodes_total, mount.inodes_free) {
        let share = percent(total.saturating_sub(free), total);
        if share >= FULL {
            _ = writeln!(text, "space: {path} {free} of {total} inodes left");
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{
        Cgroup, CgroupLevel, CgroupLimits, CgroupMemory, CpuLimit, Filesystem, MemoryLimit,
        MountPurpose,
    };

    use super::*;

    fn full_disk() -> Mount {
        Mount {
            bytes_available: Some(1 << 20),
            bytes_free: Some(1 << 20),
            bytes_total: Some(64 << 20),
            inodes_free: Some(900),
            inodes_total: Some(1000),
            is_read_only: Some(false),
            mount_point: None,
            path: "/dev/shm".to_owned(),
            purpose: MountPurpose::SharedMemory,
            source: None,
            kind: None,
        }
    }

    #[test]
    fn only_what_is_short_is_told() {
        let mut snapshot = super::super::tests::snapshot();
        assert_eq!(lines(&snapshot), "");
        snapshot.cgroup = Cgroup {
            chain: vec![CgroupLevel {
                memory: Some(CgroupMemory {
                    oom_kills: Some(2),
                    ..CgroupMemory::default()
                }),
                ..CgroupLevel::default()
            }],
            limits: Some(CgroupLimits {
                cpu: Some(CpuLimit {
                    path: "/c/pod".to_owned(),
                    quota_usec: Limit::At(150_000),
                    throttled_periods: Some(40),
                    ..CpuLimit::default()
                }),
                memory: Some(MemoryLimit {
                    limit_bytes: Limit::At(1 << 30),
                    path: Some("/c/pod".to_owned()),
                    usage_bytes: Some(1000 << 20),
                    ..MemoryLimit::default()
                }),
                pids: None,
            }),
            ..Cgroup::default()
        };
        snapshot.machine.cpus_usable = Some(1.5);
        snapshot.filesystem = Filesystem {
            mounts: vec![full_disk()],
            ..Filesystem::default()
        };
        let expected = "\
memory: 0.98 GiB of 1.00 GiB used (97 %) in cgroup /c/pod; 2 killed for lack of memory so far
processors: 1.5 allowed, held back in 40 periods so far by cgroup /c/pod
space: /dev/shm 98 % full, 1.00 MiB of 64.0 MiB left
";
        assert_eq!(lines(&snapshot), expected);
    }
}
