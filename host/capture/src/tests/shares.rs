//! Shares of memory of processes that share it, beside what their cgroup counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use model::{Sample, Timestamp};
use testkit::{DEADLINE, newest_python, wait_until};

use super::live::Started;
use super::{local, skipped};
use crate::{SampleMoment, Sampler, Scope, sample};

/// Where memory is counted on this machine.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];

/// 300 MiB that seven processes share, and 40 MiB in each child that only it has.
const FORKS: &str = "import os, sys
open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))
block = bytearray(b'x' * (300 << 20))
for child in range(6):
    if os.fork() == 0:
        block[:40 << 20] = b'y' * (40 << 20)
        open(sys.argv[2] + '/ready-' + str(child), 'w').close()
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
for _ in range(6): os.wait()";

/// A cgroup of our own, which is removed when it is empty.
struct OwnCgroup(PathBuf);

impl OwnCgroup {
    fn new() -> Option<Self> {
        let name = format!("taskscope-test-shares-{}", std::process::id());
        let made = HIERARCHIES.iter().find_map(|root| {
            let path = Path::new(root).join(&name);
            fs::create_dir(&path).ok()?;
            let cgroup = Self(path);
            let counts = ["memory.usage_in_bytes", "memory.current"];
            let has = counts.iter().any(|file| cgroup.0.join(file).exists());
            has.then_some(cgroup)
        });
        if made.is_none() {
            skipped("no cgroup that counts memory can be made here");
        }
        made
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // Processes that were killed leave it a moment later.
        for _ in 0..1000 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(16) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

fn sum(sample: &Sample, of: fn(&model::ProcessSample) -> Option<u64>) -> u64 {
    sample.sum(of).1.unwrap_or(0)
}

#[test]
fn shares_of_processes_that_share_come_to_what_their_cgroup_counts() {
    let Some(cgroup) = OwnCgroup::new() else {
        return;
    };
    let ready = tempfile::tempdir().unwrap();
    let mut command = Command::new(&newest_python().path);
    command.args(["-c", FORKS, cgroup.path()]).arg(ready.path());
    let child = Started::new(&mut command);
    // Until then memory comes and goes.
    wait_until(DEADLINE, || {
        fs::read_dir(ready.path()).unwrap().count() == 6
    });
    let machine = local();
    let scope = Scope::tree(machine.identify(child.pid()).unwrap(), None);
    let mut sampler = Sampler::new(Arc::new(machine), scope, true);
    let moment = SampleMoment {
        now: Timestamp::from_microseconds(0).unwrap(),
        elapsed: Duration::ZERO,
    };
    let sample = sample(&mut sampler, moment).unwrap();
    sampler.close();
    assert_eq!(sample.sum(|it| it.pss_bytes).0, 7, "{:?}", sample.gaps);
    let counted = sample.cgroup.as_ref().unwrap();
    assert_eq!(counted.path.as_deref(), Some(cgroup.path()));
    let counted = counted.anon_bytes.unwrap() + counted.shmem_bytes.unwrap();
    let pss = sum(&sample, |it| it.pss_bytes);
    let apart = pss.abs_diff(counted);
    assert!(apart * 20 <= counted, "PSS {pss}, cgroup {counted}");
    let rss = sum(&sample, |it| it.rss_bytes);
    assert!(
        rss > 3 * counted,
        "RSS is an overcount: {rss}, cgroup {counted}"
    );
    drop(child);
}
