//! What the task, its attempt and its node are called: from options, settings and schedulers, in a fixed order.

use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use anyhow::Context;
use model::{TaskPath, Timestamp};

use crate::environment;
use crate::outcome::Refusal;

/// The names of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The task's path.
    pub(crate) path: TaskPath,
    /// The attempt, where a scheduler says which; otherwise the next free one is taken.
    pub(crate) attempt: Option<u32>,
    /// The node identity.
    pub(crate) node: String,
    /// The host name.
    pub(crate) host: String,
}

impl Names {
    /// Returns the names for `program`: `--name`, `[task] name`, `TASKSCOPE_NAME`, Metaflow, Slurm, torchelastic,
    /// Kubernetes or Batch, in this order; else `<program>/<UTC stamp>-<4 random characters>`.
    pub(crate) fn of(
        option: Option<&str>,
        setting: Option<&str>,
        program: &OsStr,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let variable = |name: &str| environment::text(name);
        let given = [
            ("--name", option.map(str::to_owned)),
            ("[task] name", setting.map(str::to_owned)),
            ("TASKSCOPE_NAME", variable("TASKSCOPE_NAME")),
        ];
        let named = given
            .into_iter()
            .find_map(|(source, name)| name.map(|name| (source, name)));
        let scheduled = scheduled(&variable);
        let attempt = scheduled.as_ref().and_then(|scheduled| scheduled.attempt);
        let path = match (named, scheduled) {
            (Some((source, name)), _) => name
                .parse()
                .with_context(|| format!("{source} cannot be used"))
                .context(Refusal::Settings)?,
            (None, Some(scheduled)) => scheduled.path,
            (None, None) => unnamed(program, now),
        };
        let node = node(&variable).unwrap_or_else(|| host.clone());
        Ok(Self {
            path,
            attempt,
            node,
            host,
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Scheduled {
    path: TaskPath,
    attempt: Option<u32>,
}

fn scheduled(variable: &dyn Fn(&str) -> Option<String>) -> Option<Scheduled> {
    let number = |name: &str| variable(name).and_then(|value| value.parse::<u32>().ok());
    let path = |parts: &[String]| {
        let clean: Vec<String> = parts
            .iter()
            .map(|part| TaskPath::clean_segment(part))
            .collect();
        clean.join("/").parse::<TaskPath>().ok()
    };
    let metaflow: Option<Vec<String>> = [
        "METAFLOW_FLOW_NAME",
        "METAFLOW_RUN_ID",
        "METAFLOW_STEP_NAME",
        "METAFLOW_TASK_ID",
    ]
    .iter()
    .map(|name| variable(name))
    .collect();
    if let Some(path) = metaflow.and_then(|parts| path(&parts)) {
        return Some(Scheduled {
            path,
            attempt: number("METAFLOW_RETRY_COUNT"),
        });
    }
    if let Some(path) = variable("SLURM_JOB_ID").and_then(|job| path(&["slurm".to_owned(), job])) {
        return Some(Scheduled {
            path,
            attempt: number("SLURM_RESTART_COUNT").or(Some(0)),
        });
    }
    // torchrun calls a run "none" when nobody named it: that would mix all of them.
    let elastic = variable("TORCHELASTIC_RUN_ID").filter(|id| id != "none");
    if let Some(path) = elastic.and_then(|id| path(&["torchelastic".to_owned(), id])) {
        return Some(Scheduled {
            path,
            attempt: number("TORCHELASTIC_RESTART_COUNT"),
        });
    }
    if variable("KUBERNETES_SERVICE_HOST").is_some() {
        let job = variable("JOB_NAME").or_else(|| variable("HOSTNAME").map(|pod| job_of_pod(&pod)));
        if let Some(path) = job.and_then(|job| path(&["kubernetes".to_owned(), job])) {
            return Some(Scheduled {
                path,
                attempt: None,
            });
        }
    }
    let batch = variable("AWS_BATCH_JOB_ID")?;
    let attempt = number("AWS_BATCH_JOB_ATTEMPT").map(|attempt| attempt.saturating_sub(1)); // counts from 1
    Some(Scheduled {
        path: path(&["batch".to_owned(), batch])?,
        attempt,
    })
}

/// A Job's pods are called `<job>-<five random characters>`, an indexed Job's `<job>-<index>-<five>`.
fn job_of_pod(pod: &str) -> String {
    match pod.rsplit_once('-') {
        Some((job, suffix)) if suffix.len() == 5 && !job.is_empty() => job.to_owned(),
        _ => pod.to_owned(),
    }
}

fn unnamed(program: &OsStr, now: Timestamp) -> TaskPath {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = std::hash::RandomState::new().build_hasher().finish();
    let mut suffix = String::new();
    for _ in 0..4 {
        let index = usize::try_from(random % LETTERS.len() as u64).expect("below 32");
        suffix.push(char::from(LETTERS[index]));
        random /= LETTERS.len() as u64;
    }
    let name = Path::new(program)
        .file_name()
        .unwrap_or(program)
        .to_string_lossy();
    let path = format!(
        "{}/{}-{suffix}",
        TaskPath::clean_segment(&name),
        now.compact_seconds()
    );
    // A program called `diagnostics` or `attempt-1` collides with the store's folders.
    path.parse().unwrap_or_else(|_| {
        format!("task/{}-{suffix}", now.compact_seconds())
            .parse()
            .expect("only letters, digits and -")
    })
}

fn node(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    [
        "METAFLOW_KUBERNETES_POD_NAME",
        "HOSTNAME",
        "AWS_BATCH_JOB_ID",
    ]
    .iter()
    .find_map(|name| variable(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Option<(String, Option<u32>)> {
        let owned: Vec<(String, String)> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let variable = move |name: &str| {
            owned
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
        };
        scheduled(&variable).map(|found| (found.path.to_string(), found.attempt))
    }

    #[test]
    fn metaflow_comes_before_slurm() {
        let pairs = [
            ("METAFLOW_FLOW_NAME", "Train"),
            ("METAFLOW_RUN_ID", "12"),
            ("METAFLOW_STEP_NAME", "fit"),
            ("METAFLOW_TASK_ID", "3"),
            ("METAFLOW_RETRY_COUNT", "2"),
            ("SLURM_JOB_ID", "77"),
        ];
        assert_eq!(from(&pairs), Some(("Train/12/fit/3".to_owned(), Some(2))));
        assert_eq!(from(&pairs[5..]), Some(("slurm/77".to_owned(), Some(0))));
    }

    #[test]
    fn torchruns_default_id_names_nothing() {
        assert_eq!(from(&[("TORCHELASTIC_RUN_ID", "none")]), None);
        assert_eq!(
            from(&[("TORCHELASTIC_RUN_ID", "a b")]),
            Some(("torchelastic/a-b".to_owned(), None))
        );
    }

    #[test]
    fn batch_attempts_count_from_zero_here() {
        let pairs = [("AWS_BATCH_JOB_ID", "j:1"), ("AWS_BATCH_JOB_ATTEMPT", "1")];
        assert_eq!(from(&pairs), Some(("batch/j:1".to_owned(), Some(0))));
    }

    #[test]
    fn a_pod_gives_the_name_of_its_job() {
        assert_eq!(job_of_pod("train-x7k2p"), "train");
        assert_eq!(job_of_pod("standalone"), "standalone");
    }

    #[test]
    fn two_plain_runs_of_one_program_never_share_a_path() {
        let now = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
        let paths: std::collections::BTreeSet<String> = (0..50)
            .map(|_| unnamed(OsStr::new("/usr/bin/python3"), now).to_string())
            .collect();
        assert!(paths.len() > 45, "{paths:?}");
        assert!(
            paths
                .iter()
                .all(|path| path.starts_with("python3/20261130T005320Z-"))
        );
        assert!(
            unnamed(OsStr::new("attempt-1"), now)
                .as_str()
                .starts_with("task/")
        );
    }
}
