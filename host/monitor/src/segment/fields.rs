//! The numbers of samples and processes that a segment has columns of.

use model::{CgroupSample, ProcessSample, Sample};

use super::integer;

/// A number: its name in a segment, and how it is read and put.
pub(super) struct Field<T> {
    pub(super) name: &'static str,
    pub(super) get: fn(&T) -> Option<i64>,
    pub(super) set: fn(&mut T, i64),
}

/// A whole number that is always known.
macro_rules! always {
    ($field:ident) => {
        Field {
            name: stringify!($field),
            get: |it| i64::try_from(it.$field).ok(),
            set: |it, value| it.$field = u64::try_from(value).unwrap_or_default(),
        }
    };
}

/// A whole number that may not be known.
macro_rules! maybe {
    ($field:ident) => {
        Field {
            name: stringify!($field),
            get: |it| it.$field.and_then(|value| i64::try_from(value).ok()),
            set: |it, value| it.$field = u64::try_from(value).ok(),
        }
    };
}

/// A whole number of the cgroups.
macro_rules! cgroup {
    ($name:literal, $field:ident) => {
        Field {
            name: $name,
            get: |it| i64::try_from(it.cgroup.as_ref()?.$field?).ok(),
            set: |it, value| {
                it.cgroup.get_or_insert_with(CgroupSample::default).$field =
                    u64::try_from(value).ok();
            },
        }
    };
}

/// In every row of a process.
pub(super) const DENSE: [Field<ProcessSample>; 4] = [
    Field {
        name: "cpu_ticks",
        get: |it| i64::try_from(it.utime_ticks.saturating_add(it.stime_ticks)).ok(),
        set: |it, value| it.utime_ticks = u64::try_from(value).unwrap_or_default(),
    },
    maybe!(pss_bytes),
    Field {
        name: "rss_4kib",
        get: |it| i64::try_from(it.rss_bytes? >> 12).ok(),
        set: |it, value| it.rss_bytes = u64::try_from(value).ok().map(|count| count << 12),
    },
    maybe!(uss_bytes),
];

/// In rows of every thirtieth sample. Of `stime_ticks` it is told how much of `cpu_ticks` they are, which only readers of the document see.
pub(super) const SPARSE: [Field<ProcessSample>; 10] = [
    maybe!(involuntary_switches),
    maybe!(major_faults),
    maybe!(minor_faults),
    maybe!(peak_rss_bytes),
    maybe!(read_bytes),
    Field {
        name: "stime_ticks",
        get: |it| i64::try_from(it.stime_ticks).ok(),
        set: |_, _| {},
    },
    maybe!(swap_bytes),
    always!(threads),
    maybe!(voluntary_switches),
    maybe!(written_bytes),
];

/// Of each sample. Numbers of pressure are counters; `get` is all there is of them, because their averages are not kept.
pub(super) const OF_SAMPLE: [Field<Sample>; 19] = [
    cgroup!("cgroup_anon_bytes", anon_bytes),
    cgroup!("cgroup_cpu_usec", cpu_usec),
    cgroup!("cgroup_file_bytes", file_bytes),
    cgroup!("cgroup_limit_hits", limit_hits),
    cgroup!("cgroup_limit_usage_bytes", limit_usage_bytes),
    cgroup!("cgroup_oom_kills", oom_kills),
    Field {
        name: "cgroup_memory_pressure_usec",
        get: |it| stalled(it.cgroup.as_ref()?.pressure.get("memory")?),
        set: |_, _| {},
    },
    cgroup!("cgroup_shmem_bytes", shmem_bytes),
    cgroup!("cgroup_throttled_usec", throttled_usec),
    cgroup!("cgroup_usage_bytes", usage_bytes),
    Field {
        name: "gpu_memory_used_bytes",
        get: |it| {
            let used = it.gpus.iter().filter_map(|gpu| gpu.memory_used_bytes);
            i64::try_from(used.reduce(u64::saturating_add)?).ok()
        },
        set: |_, _| {},
    },
    Field {
        name: "gpu_utilization_percent",
        get: |it| {
            let busy = it.gpus.iter().filter_map(|gpu| gpu.utilization_percent);
            busy.reduce(u32::saturating_add).map(i64::from)
        },
        set: |_, _| {},
    },
    Field {
        name: "machine_cpu_pressure_usec",
        get: |it| stalled(it.machine.pressure.get("cpu")?),
        set: |_, _| {},
    },
    Field {
        name: "machine_idle_msec",
        get: |it| integer(it.machine.idle_seconds? * 1e3),
        set: |it, value| it.machine.idle_seconds = Some(float(value) / 1e3),
    },
    Field {
        name: "machine_io_pressure_usec",
        get: |it| stalled(it.machine.pressure.get("io")?),
        set: |_, _| {},
    },
    Field {
        name: "machine_load_hundredths",
        get: |it| integer(it.machine.load_average?[0] * 1e2),
        set: |_, _| {},
    },
    Field {
        name: "machine_memory_available_bytes",
        get: |it| i64::try_from(it.machine.memory_available_bytes?).ok(),
        set: |it, value| it.machine.memory_available_bytes = u64::try_from(value).ok(),
    },
    Field {
        name: "machine_memory_pressure_usec",
        get: |it| stalled(it.machine.pressure.get("memory")?),
        set: |_, _| {},
    },
    Field {
        name: "machine_uptime_msec",
        get: |it| integer(it.machine.uptime_seconds? * 1e3),
        set: |it, value| it.machine.uptime_seconds = Some(float(value) / 1e3),
    },
];

/// Returns the time that at least one waited, microseconds.
fn stalled(pressure: &model::Pressure) -> Option<i64> {
    i64::try_from(pressure.some?.total_usec).ok()
}

#[expect(clippy::cast_precision_loss, reason = "no time reaches 2^53 units")]
pub(super) fn float(value: i64) -> f64 {
    value as f64
}
