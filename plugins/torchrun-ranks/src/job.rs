//! What the environment of one process says about its place in a distributed job. Pure.

use std::collections::BTreeMap;

use crate::ranges;

/// The variables that the rule reads.
pub(crate) const VARIABLES: &[&str] = &[
    "CROSS_RANK",
    "CROSS_SIZE",
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
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "RANK",
    "SLURM_JOB_ID",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_STEPID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "WORLD_SIZE",
];

/// What it cannot work without: the numbers of one [`Source`], whichever.
pub(crate) const REQUIRED: &str = "environment = [\"RANK\", \"WORLD_SIZE\"] or environment = [\"OMPI_COMM_WORLD_*\"] or \
     environment = [\"PMI_*\"] or environment = [\"SLURM_*\"] or environment = [\"PMIX_*\"]";

/// Who numbered the ranks. The first that numbers any process of the snapshot is believed: under `srun torchrun`
/// every process has a `SLURM_PROCID`, which then numbers launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// torchrun and whoever speaks its language: accelerate, deepspeed, Ray Train.
    Torch,
    /// Open MPI.
    OpenMpi,
    /// MPICH, Intel MPI and others that start ranks with Hydra.
    Pmi,
    /// Slurm.
    Slurm,
    /// Whoever speaks `PMIx` and nothing else, which tells the rank alone.
    Pmix,
}

/// The variables that tell one thing, the most telling first.
type Names = &'static [&'static str];

impl Source {
    /// All sources, the most trusted first.
    pub(crate) const ALL: [Self; 5] = [
        Self::Torch,
        Self::OpenMpi,
        Self::Pmi,
        Self::Slurm,
        Self::Pmix,
    ];

    /// The variable that holds the rank.
    pub(crate) fn rank(self) -> &'static str {
        match self {
            Self::Torch => "RANK",
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Pmi => "PMI_RANK",
            Self::Slurm => "SLURM_PROCID",
            Self::Pmix => "PMIX_RANK",
        }
    }

    /// The variables that hold the number of ranks.
    pub(crate) fn world_size(self) -> Names {
        match self {
            Self::Torch => &["WORLD_SIZE"],
            Self::OpenMpi => &["OMPI_COMM_WORLD_SIZE"],
            Self::Pmi => &["PMI_SIZE"],
            Self::Slurm => &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
            Self::Pmix => &[],
        }
    }

    /// The variables that hold the number of ranks on this node. Slurm has a list over all nodes instead.
    pub(crate) fn local_world_size(self) -> Names {
        match self {
            Self::Torch => &["LOCAL_WORLD_SIZE", "LOCAL_SIZE"],
            Self::OpenMpi => &["OMPI_COMM_WORLD_LOCAL_SIZE"],
            Self::Pmi => &["MPI_LOCALNRANKS"],
            Self::Slurm => &["LOCAL_WORLD_SIZE"],
            Self::Pmix => &[],
        }
    }

    fn local_rank(self) -> Names {
        match self {
            Self::Torch => &["LOCAL_RANK"],
            Self::OpenMpi => &["OMPI_COMM_WORLD_LOCAL_RANK"],
            Self::Pmi => &["MPI_LOCALRANKID"],
            Self::Slurm => &["SLURM_LOCALID"],
            Self::Pmix => &[],
        }
    }

    fn node_count(self) -> Names {
        match self {
            Self::Torch => &["GROUP_WORLD_SIZE", "CROSS_SIZE"],
            Self::OpenMpi | Self::Pmi | Self::Pmix => &["GROUP_WORLD_SIZE"],
            Self::Slurm => &["SLURM_STEP_NUM_NODES", "SLURM_NNODES"],
        }
    }

    fn node(self) -> Names {
        match self {
            Self::Torch => &["GROUP_RANK", "NODE_RANK", "CROSS_RANK"],
            // OMPI_COMM_WORLD_NODE_RANK counts the processes of a node.
            Self::OpenMpi | Self::Pmi | Self::Pmix => &["GROUP_RANK", "NODE_RANK"],
            Self::Slurm => &["SLURM_NODEID", "NODE_RANK"],
        }
    }
}

/// The place of one process in a job.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Which job.
    pub(crate) job: Job,
    /// Whether whoever numbers the ranks can tell of several nodes only in a number that is missing here.
    counts_nodes: bool,
    /// Its rank on its node.
    pub(crate) local_rank: Option<u32>,
    /// How many ranks its node has.
    pub(crate) local_world_size: Option<u32>,
    /// The number of its node, where the job counts nodes.
    pub(crate) node: Option<u32>,
    /// Its rank.
    pub(crate) rank: u32,
    /// How many nodes the job has.
    pub(crate) node_count: Option<u32>,
    /// How many ranks the job has.
    pub(crate) world_size: Option<u32>,
}

/// What tells one job from another, and a restarted one from the one before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    /// `TORCHELASTIC_RUN_ID`, else the step of the Slurm job such as `77.0`, else the namespace of `PMIx`.
    pub(crate) run: Option<String>,
    /// Where rank 0 listens: `address:port`.
    pub(crate) master: Option<String>,
    /// `TORCHELASTIC_RESTART_COUNT`.
    pub(crate) restart: Option<u32>,
}

impl Place {
    /// Returns the place that `environment` gives, or `None` for a process that has no rank.
    pub(crate) fn of(environment: &BTreeMap<String, String>, source: Source) -> Option<Self> {
        let parsed = |name: &str| environment.get(name)?.trim().parse::<u32>().ok();
        let number = |names: Names| names.iter().find_map(|name| parsed(name));
        let size = |names: Names| number(names).filter(|&size| size > 0);
        let text = |name: &str| environment.get(name).filter(|text| !text.is_empty());
        let rank = parsed(source.rank())?;
        let own = match source {
            // A batch script has a SLURM_PROCID as well, 0 always, and is no rank: it is in no step.
            Source::Slurm => {
                let step = text("SLURM_STEP_ID").or_else(|| text("SLURM_STEPID"))?;
                text("SLURM_JOB_ID").map(|job| format!("{job}.{step}"))
            }
            Source::Pmix => text("PMIX_NAMESPACE").cloned(),
            Source::Torch | Source::OpenMpi | Source::Pmi => None,
        };
        let run = text("TORCHELASTIC_RUN_ID").filter(|run| *run != "none");
        let port = text("MASTER_PORT").map_or("", String::as_str);
        let node = number(source.node());
        let listed = || match source {
            Source::Slurm => ranges::listed(text("SLURM_STEP_TASKS_PER_NODE")?, node?),
            _ => None,
        };
        Some(Self {
            job: Job {
                run: run.cloned().or(own),
                master: text("MASTER_ADDR").map(|address| format!("{address}:{port}")),
                restart: parsed("TORCHELASTIC_RESTART_COUNT"),
            },
            counts_nodes: source != Source::Torch,
            local_rank: number(source.local_rank()),
            local_world_size: size(source.local_world_size()).or_else(listed),
            node,
            rank,
            node_count: number(source.node_count()),
            world_size: size(source.world_size()),
        })
    }

    /// Whether the whole job runs on one node, as far as the environment tells.
    pub(crate) fn is_on_one_node(&self) -> bool {
        if self.node_count.is_some_and(|count| count > 1) {
            return false;
        }
        match self.local_world_size {
            Some(local) => Some(local) == self.world_size,
            None => self.node_count == Some(1) || (!self.counts_nodes && self.job.is_local()),
        }
    }
}

impl Job {
    /// Whether rank 0 listens where only this node can reach it, or nowhere that we know of.
    fn is_local(&self) -> bool {
        let Some(master) = &self.master else {
            return true;
        };
        let address = master
            .rsplit_once(':')
            .map_or(master.as_str(), |(address, _)| address);
        address == "localhost" || address.starts_with("127.") || address == "::1"
    }

    /// A name for people: the run, else where rank 0 listens.
    pub(crate) fn name(&self) -> String {
        let name = self.run.as_ref().or(self.master.as_ref());
        name.map_or("job", |name| name.trim_end_matches(':'))
            .to_owned()
    }

    /// The name with all that tells two jobs of the same name apart.
    pub(crate) fn full_name(&self) -> String {
        let master = self.master.as_deref().unwrap_or("?");
        let restart = self.restart.unwrap_or(0);
        format!("{} ({master}, restart {restart})", self.name())
    }
}
