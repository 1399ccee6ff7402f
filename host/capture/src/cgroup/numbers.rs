//! The files of one cgroup, as text by name, to numbers. Version 1 and 2 have different names, so both are looked up.

use std::collections::{BTreeMap, BTreeSet};

use model::{CgroupCpu, CgroupIo, CgroupMemory, CgroupPids, Limit, Pressure};

use crate::proc::pressure;

/// On version 1 "no limit" is the largest number of bytes that is a whole number of pages, whatever the page size is.
const UNLIMITED_FROM: u64 = i64::MAX as u64 - (1 << 20);

/// The files of one cgroup that could be read.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// File name to text without the last newline.
    pub(super) texts: BTreeMap<String, String>,
    /// Files that are there and could not be read, or are empty.
    pub(super) unread: BTreeSet<String>,
    /// 1 or 2.
    pub(super) version: u32,
}

impl Files {
    fn text(&self, names: [&str; 2]) -> Option<&str> {
        let mut names = names.iter().filter_map(|&name| self.texts.get(name));
        names.next().map(|text| text.trim())
    }

    fn number(&self, names: [&str; 2]) -> Option<u64> {
        self.text(names)?.parse().ok()
    }

    /// Returns a limit. Version 2 has no file of a limit where its controller is not in force, as in the root cgroup.
    fn limit(&self, names: [&str; 2]) -> Limit {
        match self.text(names) {
            Some(text) => limit(text),
            None if self.version == 2 && !self.unread.contains(names[0]) => Limit::Unlimited,
            None => Limit::Unknown,
        }
    }

    /// Returns the number of the line `KEY NUMBER` of a file.
    fn line(&self, file: &str, key: &str) -> Option<u64> {
        let mut lines = self.texts.get(file)?.lines();
        lines.find_map(|line| {
            let (name, number) = line.split_once(' ')?;
            (name == key).then(|| number.trim().parse().ok())?
        })
    }

    fn has_any(&self, names: &[&str]) -> bool {
        let is_there = |name: &&str| self.texts.contains_key(*name) || self.unread.contains(*name);
        names.iter().any(is_there)
    }
}

/// Returns the limit that `text` says.
pub(super) fn limit(text: &str) -> Limit {
    match text {
        "max" | "-1" => Limit::Unlimited,
        number => match number.parse() {
            Ok(number) if number >= UNLIMITED_FROM => Limit::Unlimited,
            Ok(number) => Limit::At(number),
            Err(_) => Limit::Unknown,
        },
    }
}

/// Returns the memory of a cgroup; nothing where it has no file of the controller.
pub(super) fn memory(files: &Files) -> Option<CgroupMemory> {
    let current = ["memory.current", "memory.usage_in_bytes"];
    let max = ["memory.max", "memory.limit_in_bytes"];
    if !files.has_any(&[current, max].concat()) {
        return None;
    }
    let stat = |new: &str, old: &str| {
        let value = files.line("memory.stat", new);
        value.or_else(|| files.line("memory.stat", old))
    };
    let event = |key: &str| files.line("memory.events", key);
    let control = |key: &str| files.line("memory.oom_control", key);
    let both = "memory.memsw.limit_in_bytes";
    Some(CgroupMemory {
        anon_bytes: stat("anon", "total_rss"),
        dirty_bytes: stat("file_dirty", "total_dirty"),
        file_bytes: stat("file", "total_cache"),
        high_bytes: files.limit(["memory.high", ""]),
        high_hits: event("high"),
        // Version 1 has `inactive_file` as well, of this cgroup without those below it.
        inactive_file_bytes: stat("total_inactive_file", "inactive_file"),
        kernel_bytes: files
            .line("memory.stat", "kernel")
            .or_else(|| files.number(["memory.kmem.usage_in_bytes", ""])),
        limit_bytes: files.limit(max),
        limit_hits: event("max").or_else(|| files.number(["memory.failcnt", ""])),
        memory_and_swap_limit_bytes: files.text([both, ""]).map(limit),
        oom_events: event("oom"),
        oom_kills: event("oom_kill").or_else(|| control("oom_kill")),
        peak_bytes: files.number(["memory.peak", "memory.max_usage_in_bytes"]),
        shmem_bytes: stat("total_shmem", "shmem"),
        swap_bytes: files
            .number(["memory.swap.current", ""])
            .or_else(|| files.line("memory.stat", "total_swap")),
        // Absent where the kernel does not count swap.
        swap_limit_bytes: files
            .text(["memory.swap.max", ""])
            .map_or(Limit::Unknown, limit),
        under_oom: control("under_oom").map(|value| value != 0),
        usage_bytes: files.number(current),
        writeback_bytes: stat("file_writeback", "total_writeback"),
    })
}

/// Returns the limit of version 1 that `memory.stat` says is in force, whichever cgroup above sets it.
pub(super) fn hierarchical_limit(files: &Files) -> Option<Limit> {
    let number = files.line("memory.stat", "hierarchical_memory_limit")?;
    Some(limit(&number.to_string()))
}

/// Returns the processor time of a cgroup; nothing where it has no file of the controller.
pub(super) fn cpu(files: &Files) -> Option<CgroupCpu> {
    if !files.has_any(&["cpu.max", "cpu.cfs_quota_us", "cpu.stat"]) {
        return None;
    }
    let stat = |key: &str| files.line("cpu.stat", key);
    let (quota, period) = match files.text(["cpu.max", ""]) {
        Some(text) => {
            let (quota, period) = text.split_once(' ').unwrap_or((text, ""));
            (limit(quota), period.trim().parse().ok())
        }
        None => (
            files.limit(["cpu.cfs_quota_us", ""]),
            files.number(["cpu.cfs_period_us", ""]),
        ),
    };
    let microseconds = |nanoseconds: u64| nanoseconds / 1000;
    Some(CgroupCpu {
        period_usec: period,
        periods: stat("nr_periods"),
        quota_usec: quota,
        system_usec: stat("system_usec"),
        throttled_periods: stat("nr_throttled"),
        throttled_usec: stat("throttled_usec").or_else(|| stat("throttled_time").map(microseconds)),
        usage_usec: stat("usage_usec")
            .or_else(|| files.number(["cpuacct.usage", ""]).map(microseconds)),
        user_usec: stat("user_usec"),
    })
}

/// Returns the threads of a cgroup; nothing where it has no file of the controller.
pub(super) fn pids(files: &Files) -> Option<CgroupPids> {
    files
        .has_any(&["pids.max", "pids.current"])
        .then(|| CgroupPids {
            limit: files.limit(["pids.max", ""]),
            limit_hits: files.line("pids.events", "max"),
            usage: files.number(["pids.current", ""]),
        })
}

/// Returns the reads and writes of a cgroup; nothing where it has no file of the controller.
pub(super) fn io(files: &Files) -> Option<CgroupIo> {
    if let Some(text) = files.texts.get("blkio.throttle.io_service_bytes_recursive") {
        // `8:0 Read 4096`, and a total without a device.
        let mut io = CgroupIo::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().skip(1);
            let bytes =
                |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            match words.next() {
                Some("Read") => io.read_bytes = io.read_bytes.saturating_add(bytes(words.next())),
                Some("Write") => {
                    io.written_bytes = io.written_bytes.saturating_add(bytes(words.next()));
                }
                _ => {}
            }
        }
        return Some(io);
    }
    // `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`. A cgroup that did none has an empty file.
    let text = files.texts.get("io.stat")?;
    let sum = |key: &str| {
        let pairs = text
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='));
        let values = pairs.filter(|(name, _)| *name == key);
        values
            .filter_map(|(_, value)| value.parse::<u64>().ok())
            .fold(0, u64::saturating_add)
    };
    Some(CgroupIo {
        read_bytes: sum("rbytes"),
        reads: Some(sum("rios")),
        writes: Some(sum("wios")),
        written_bytes: sum("wbytes"),
    })
}

/// Returns the pressure files of a cgroup.
pub(super) fn pressures(files: &Files) -> BTreeMap<String, Pressure> {
    let read = |name: &str| pressure::parse(files.texts.get(&format!("{name}.pressure"))?);
    super::PRESSURE
        .iter()
        .filter_map(|&name| Some((name.to_owned(), read(name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(texts: &[(&str, &str)]) -> Files {
        let version = if texts
            .iter()
            .any(|(name, _)| name.contains("_in_bytes") || name.contains("cfs"))
        {
            1
        } else {
            2
        };
        let texts = texts
            .iter()
            .map(|&(name, text)| (name.to_owned(), text.to_owned()))
            .collect();
        Files {
            texts,
            unread: BTreeSet::new(),
            version,
        }
    }

    #[test]
    fn unlimited_unknown_and_a_number_are_three_different_things() {
        for sentinel in [
            "max",
            "-1",
            "9223372036854771712",  // pages of 4 KiB
            "9223372036854710272",  // pages of 64 KiB
            "9223372036854775807",  // before Linux 3.19
            "18446744073709551615", // seen in the wild
        ] {
            assert_eq!(limit(sentinel), Limit::Unlimited, "{sentinel}");
        }
        assert_eq!(limit("0"), Limit::At(0));
        // More than any machine has, and a number all the same.
        assert_eq!(limit("1152921504606846976"), Limit::At(1 << 60));
        assert_eq!(limit(""), Limit::Unknown);
        assert_eq!(limit("12 kB"), Limit::Unknown);
        assert_eq!(limit("99999999999999999999999"), Limit::Unknown);
    }

    #[test]
    fn version_2_memory_is_read() {
        let memory = memory(&files(&[
            ("memory.current", "4096"),
            ("memory.max", "1073741824"),
            ("memory.high", "max"),
            ("memory.peak", "8192"),
            (
                "memory.events",
                "low 0\nhigh 3\nmax 9\noom 2\noom_kill 1\noom_group_kill 0",
            ),
            (
                "memory.stat",
                "anon 10\nfile 20\nkernel 5\nshmem 7\nfile_dirty 1\nfile_writeback 2\ninactive_file 3",
            ),
            ("memory.swap.max", "0"),
        ]));
        let memory = memory.unwrap();
        assert_eq!(memory.limit_bytes, Limit::At(1 << 30));
        assert_eq!(memory.high_bytes, Limit::Unlimited);
        assert_eq!(memory.swap_limit_bytes, Limit::At(0));
        assert_eq!(
            (memory.usage_bytes, memory.peak_bytes),
            (Some(4096), Some(8192))
        );
        assert_eq!((memory.oom_events, memory.oom_kills), (Some(2), Some(1)));
        assert_eq!((memory.limit_hits, memory.high_hits), (Some(9), Some(3)));
        assert_eq!((memory.anon_bytes, memory.file_bytes), (Some(10), Some(20)));
        assert_eq!(
            (memory.dirty_bytes, memory.writeback_bytes),
            (Some(1), Some(2))
        );
        assert_eq!(
            (memory.shmem_bytes, memory.inactive_file_bytes),
            (Some(7), Some(3))
        );
        assert_eq!((memory.swap_bytes, memory.under_oom), (None, None));
    }

    #[test]
    fn version_1_counts_what_is_below_a_cgroup_as_well() {
        let memory = memory(&files(&[
            ("memory.usage_in_bytes", "4096"),
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.failcnt", "4"),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 1\noom_kill 2",
            ),
            (
                "memory.stat",
                "cache 1\nrss 0\nshmem 0\ninactive_file 0\ntotal_cache 30\ntotal_rss 40\ntotal_shmem 5\ntotal_inactive_file 6",
            ),
        ]));
        let memory = memory.unwrap();
        assert_eq!(memory.limit_bytes, Limit::Unlimited);
        assert_eq!(memory.high_bytes, Limit::Unknown);
        assert_eq!((memory.anon_bytes, memory.file_bytes), (Some(40), Some(30)));
        assert_eq!(
            (memory.shmem_bytes, memory.inactive_file_bytes),
            (Some(5), Some(6))
        );
        assert_eq!((memory.limit_hits, memory.oom_kills), (Some(4), Some(2)));
        assert_eq!(memory.under_oom, Some(true));
    }

    #[test]
    fn both_versions_of_a_quota_and_its_throttling_are_read() {
        let new = cpu(&files(&[
            ("cpu.max", "150000 100000"),
            ("cpu.stat", "usage_usec 9\nuser_usec 6\nsystem_usec 3\nnr_periods 5\nnr_throttled 2\nthrottled_usec 70"),
        ]))
        .unwrap();
        let old = cpu(&files(&[
            ("cpu.cfs_quota_us", "150000"),
            ("cpu.cfs_period_us", "100000"),
            (
                "cpu.stat",
                "nr_periods 5\nnr_throttled 2\nthrottled_time 70000",
            ),
            ("cpuacct.usage", "9000"),
        ]))
        .unwrap();
        assert_eq!(
            (new.quota_usec, new.period_usec),
            (Limit::At(150_000), Some(100_000))
        );
        assert_eq!((new.user_usec, new.system_usec), (Some(6), Some(3)));
        let without_split = CgroupCpu {
            user_usec: None,
            system_usec: None,
            ..new
        };
        assert_eq!(old, without_split);
        let free = cpu(&files(&[("cpu.max", "max 100000")])).unwrap();
        assert_eq!(free.quota_usec, Limit::Unlimited);
    }

    #[test]
    fn devices_are_summed() {
        let new = files(&[(
            "io.stat",
            "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0",
        )]);
        let new = io(&new).unwrap();
        assert_eq!((new.read_bytes, new.written_bytes), (11, 22));
        assert_eq!((new.reads, new.writes), (Some(4), Some(6)));
        let old = files(&[(
            "blkio.throttle.io_service_bytes_recursive",
            "8:0 Read 10\n8:0 Write 20\n8:0 Sync 30\n8:0 Total 30\n8:16 Read 1\nTotal 31",
        )]);
        let old = io(&old).unwrap();
        assert_eq!(
            (old.read_bytes, old.written_bytes, old.reads),
            (11, 20, None)
        );
        assert_eq!(io(&files(&[])), None);
    }

    #[test]
    fn a_controller_without_files_is_absent_and_one_that_is_refused_is_unknown() {
        assert_eq!(memory(&files(&[("cpu.stat", "usage_usec 1")])), None);
        let refused = Files {
            unread: ["memory.max", "pids.max"].map(str::to_owned).into(),
            version: 2,
            ..Files::default()
        };
        assert_eq!(cpu(&refused), None);
        assert_eq!(memory(&refused).unwrap().limit_bytes, Limit::Unknown);
        assert_eq!(pids(&refused).unwrap().limit, Limit::Unknown);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(anon|max|Read|[0-9]|=|:| |\n|.)*") {
            let names = ["memory.max", "memory.stat", "cpu.max", "cpu.stat", "io.stat", "pids.max",
                "blkio.throttle.io_service_bytes_recursive", "memory.pressure"];
            let files = files(&names.map(|name| (name, text.as_str())));
            memory(&files);
            cpu(&files);
            pids(&files);
            io(&files);
            pressures(&files);
        }
    }
}
