//! Which variables of a process's environment are kept: nothing else is ever read out.

use std::collections::BTreeMap;

use crate::proc::environ;

const NAMES: [&str; 18] = [
    "CROSS_RANK",
    "CROSS_SIZE",
    "CUDA_VISIBLE_DEVICES",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "NODE_RANK",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "RANK",
    "TMPDIR",
    "WORLD_SIZE",
];

const PREFIXES: [&str; 9] = [
    "ACCELERATE_",
    "GLOO_",
    "NCCL_",
    "OMPI_COMM_WORLD_",
    "OMP_",
    "PMI_",
    "ROLE_",
    "TORCHELASTIC_",
    "TORCH_",
];

/// Of what Slurm and Ray set: ids, ranks and sizes.
const SCHEDULER_NAMES: [&str; 36] = [
    "RAY_ACTOR_ID",
    "RAY_JOB_ID",
    "RAY_LOCAL_RANK",
    "RAY_LOCAL_WORLD_SIZE",
    "RAY_NODE_ID",
    "RAY_NODE_RANK",
    "RAY_RANK",
    "RAY_TASK_ID",
    "RAY_WORKER_ID",
    "RAY_WORLD_RANK",
    "RAY_WORLD_SIZE",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_JOBID",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEPID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASK_PID",
];

/// Returns the allow-listed variables of `bytes`, the content of `environ`, by name. `added` holds further names;
/// one that ends in `*` is a prefix. Of a name that comes twice the first counts, as for getenv(3).
pub(crate) fn allowed(bytes: &[u8], added: &[String]) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in environ::entries(bytes) {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        if is_allowed(name, added) && !kept.contains_key(name) {
            let value = String::from_utf8_lossy(value).into_owned();
            kept.insert(name.to_owned(), value);
        }
    }
    kept
}

/// Whether `variables` number a rank of a distributed job, as `torch.distributed` does: what a program may set itself, long
/// after its start.
pub(crate) fn has_rank(variables: &BTreeMap<String, String>) -> bool {
    variables.contains_key("RANK")
}

fn is_allowed(name: &str, added: &[String]) -> bool {
    NAMES.contains(&name)
        || SCHEDULER_NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || added.iter().any(|entry| match entry.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == entry,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVIRON: &[u8] = b"HOME=/root\0RANK=3\0RANK=4\0NCCL_DEBUG=INFO\0SLURM_JOB_ID=7\0SLURM_JWT=eyJ\0SLURM_JOB_NODELIST=n[1-9]\0RAY_JOB_ID=01\0RAY_ADDRESS=ray://x\0AWS_SECRET_ACCESS_KEY=x\0MINE=1\0MY_A=2\0";

    #[test]
    fn only_listed_names_are_read_out() {
        let kept = allowed(ENVIRON, &[]);
        let names: Vec<_> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["NCCL_DEBUG", "RANK", "RAY_JOB_ID", "SLURM_JOB_ID"]);
        assert_eq!(kept["RANK"], "3");
    }

    #[test]
    fn settings_add_names_and_prefixes() {
        let kept = allowed(ENVIRON, &["MINE".to_owned(), "MY_*".to_owned()]);
        assert_eq!((kept["MINE"].as_str(), kept["MY_A"].as_str()), ("1", "2"));
        assert!(!kept.contains_key("HOME"));
    }
}
