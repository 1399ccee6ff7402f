//! Which limit on the chain of cgroups binds the task.

use std::cmp::Reverse;

use model::{CgroupLimits, CgroupMemory, CpuLimit, Limit, MemoryLimit, PidsLimit};

use super::chain::{Chain, Level};
use super::numbers;

/// Returns the tightest limit of each controller.
pub(super) fn tightest(chains: &[Chain<'_>]) -> CgroupLimits {
    CgroupLimits {
        cpu: of(chains, "cpu").map(cpu),
        memory: of(chains, "memory").map(memory),
        pids: of(chains, "pids").map(pids),
    }
}

/// Returns the chain in the hierarchy of `controller`: version 1 where it is mounted there.
fn of<'a>(chains: &'a [Chain<'a>], controller: &str) -> Option<&'a Chain<'a>> {
    let mut chains = chains.iter().filter(|chain| !chain.levels.is_empty());
    chains.find(|chain| chain.has(controller))
}

/// Returns what holds where no level has a number.
fn without_number(is_whole: bool) -> Limit {
    if is_whole {
        Limit::Unlimited
    } else {
        Limit::Unknown
    }
}

fn own_path(chain: &Chain<'_>) -> String {
    chain.levels[0].facts.path.clone()
}

fn memory(chain: &Chain<'_>) -> MemoryLimit {
    let with_memory = || {
        let levels = chain.levels.iter();
        levels.filter_map(|level| Some((&level.facts.path, level.facts.memory.as_ref()?)))
    };
    let is_known = |limit: fn(&CgroupMemory) -> Limit| {
        chain.is_whole && with_memory().all(|(_, memory)| limit(memory) != Limit::Unknown)
    };
    let tightest = with_memory()
        .filter_map(|(path, memory)| Some((memory.limit_bytes.number()?, path, memory)))
        .min_by_key(|&(limit, _, memory)| (limit, Reverse(memory.usage_bytes)));
    let high = with_memory()
        .filter_map(|(_, memory)| memory.high_bytes.number())
        .min();
    // Version 1 says what is in force even where the cgroup that sets it is not visible.
    let told = numbers::hierarchical_limit(&chain.levels[0].files);
    let is_whole = is_known(|memory| memory.limit_bytes) || told.is_some();
    let high_bytes = match high {
        Some(high) => Limit::At(high),
        None if chain.hierarchy.version == 1 => Limit::Unknown,
        None => without_number(is_known(|memory| memory.high_bytes)),
    };
    let own = chain.levels[0].facts.memory.as_ref();
    let limit = match (tightest, told) {
        (tightest, Some(Limit::At(told))) if tightest.is_none_or(|(number, ..)| told < number) => {
            return MemoryLimit {
                high_bytes,
                is_whole,
                limit_bytes: Limit::At(told),
                path: None,
                usage_bytes: None,
            };
        }
        (Some((number, path, memory)), _) => (Limit::At(number), path.clone(), memory.usage_bytes),
        (None, _) => (
            without_number(is_whole),
            own_path(chain),
            own.and_then(|memory| memory.usage_bytes),
        ),
    };
    MemoryLimit {
        high_bytes,
        is_whole,
        limit_bytes: limit.0,
        path: Some(limit.1),
        usage_bytes: limit.2,
    }
}

fn cpu(chain: &Chain<'_>) -> CpuLimit {
    let levels = chain.levels.iter();
    let with_cpu: Vec<_> = levels
        .filter_map(|level| Some((level, level.facts.cpu.as_ref()?)))
        .collect();
    let all_known = with_cpu
        .iter()
        .all(|(_, cpu)| cpu.quota_usec != Limit::Unknown);
    let is_whole = chain.is_whole && all_known;
    let share = |level: &Level| {
        let cpu = level.facts.cpu.as_ref()?;
        let period = cpu.period_usec.filter(|&period| period > 0)?;
        // Millionths of a processor.
        Some(u128::from(cpu.quota_usec.number()?) * 1_000_000 / u128::from(period))
    };
    let tightest = with_cpu
        .iter()
        .filter_map(|&(level, cpu)| Some((share(level)?, level, cpu)))
        .min_by_key(|&(share, ..)| share);
    let own = chain.levels[0].facts.cpu.as_ref();
    let (path, cpu) = match tightest {
        Some((_, level, cpu)) => (level.facts.path.clone(), Some(cpu)),
        None => (own_path(chain), own),
    };
    CpuLimit {
        is_whole,
        path,
        period_usec: cpu.and_then(|cpu| cpu.period_usec),
        quota_usec: match tightest {
            Some((_, _, cpu)) => cpu.quota_usec,
            None => without_number(is_whole),
        },
        throttled_periods: cpu.and_then(|cpu| cpu.throttled_periods),
        throttled_usec: cpu.and_then(|cpu| cpu.throttled_usec),
    }
}

fn pids(chain: &Chain<'_>) -> PidsLimit {
    let levels = chain.levels.iter();
    let with_pids: Vec<_> = levels
        .filter_map(|level| Some((&level.facts.path, level.facts.pids.as_ref()?)))
        .collect();
    let all_known = with_pids
        .iter()
        .all(|(_, pids)| pids.limit != Limit::Unknown);
    let is_whole = chain.is_whole && all_known;
    let tightest = with_pids
        .iter()
        .filter_map(|&(path, pids)| {
            let limit = pids.limit.number()?;
            Some((limit.saturating_sub(pids.usage.unwrap_or(0)), path, pids))
        })
        .min_by_key(|&(room, ..)| room);
    let own = chain.levels[0].facts.pids.as_ref();
    let (path, pids) = match tightest {
        Some((_, path, pids)) => (path.clone(), Some(pids)),
        None => (own_path(chain), own),
    };
    PidsLimit {
        is_whole,
        limit: match tightest {
            Some((_, _, pids)) => pids.limit,
            None => without_number(is_whole),
        },
        path,
        usage: pids.and_then(|pids| pids.usage),
    }
}
