//! Samples of fake machines and of living processes.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use model::{GapCode, Limit, ProcessSample, Sample, Timestamp};
use testkit::FakeMachine;

use super::{SampleMoment, Sampler, sample};
use crate::tests::live::Started;
use crate::tests::{local, machine};
use crate::{CaptureError, Machine, Scope};

fn sampler(machine: Machine, root: i32) -> Sampler {
    let scope = Scope::tree(machine.identify(root).unwrap(), None);
    Sampler::new(Arc::new(machine), scope, true)
}

fn take(sampler: &mut Sampler) -> Sample {
    sample(sampler, moment()).unwrap()
}

fn moment() -> SampleMoment {
    SampleMoment {
        now: Timestamp::from_microseconds(1_796_000_000_000_000).unwrap(),
        elapsed: Duration::from_secs(3),
    }
}

fn of(sample: &Sample, pid: i32) -> &ProcessSample {
    let mut processes = sample.processes.iter();
    processes.find(|it| it.identity.pid == pid).unwrap()
}

fn pids(sample: &Sample) -> Vec<i32> {
    sample.processes.iter().map(|it| it.identity.pid).collect()
}

#[test]
fn each_process_is_read_with_its_numbers() {
    let fake = FakeMachine::new()
        .process(10, |p| {
            p.rss_kib(400)
                .cpu_ticks(7, 3)
                .status_line("VmHWM", "4096 kB")
                .file("io", "rchar: 1\nread_bytes: 8192\nwrite_bytes: 4096\n")
        })
        .process(11, |p| p.ppid(10).state('D'))
        .process(12, |p| p.ppid(10).zombie());
    let mut sampler = sampler(machine(&fake), 10);
    let sample = take(&mut sampler);
    assert_eq!(pids(&sample), [10, 11, 12]);
    let main = of(&sample, 10);
    assert_eq!(main.rss_bytes, Some(400 << 10));
    assert_eq!(main.utime_ticks, 7);
    assert_eq!(main.peak_rss_bytes, Some(4 << 20));
    assert_eq!(
        (main.read_bytes, main.written_bytes),
        (Some(8192), Some(4096))
    );
    assert_eq!(of(&sample, 11).state, 'D');
    assert_eq!(of(&sample, 12).rss_bytes, None, "a zombie has no memory");
    assert!(sample.machine.memory_total_bytes.is_some());
    assert_eq!(sample.elapsed_seconds.to_bits(), 3.0_f64.to_bits());
}

#[test]
fn processes_that_begin_and_end_between_two_samples_are_noticed() {
    let mut fake = FakeMachine::new()
        .process(10, |p| p)
        .process(11, |p| p.ppid(10));
    let mut sampler = sampler(machine(&fake), 10);
    assert_eq!(pids(&take(&mut sampler)), [10, 11]);
    fake.end(11, 1);
    fake.start(12, |p| p.ppid(10));
    assert_eq!(pids(&take(&mut sampler)), [10, 12]);
    fake.end(10, 1);
    assert_eq!(pids(&take(&mut sampler)), [12], "it was one of the task's");
    fake.end(12, 1);
    let error = sample(&mut sampler, moment()).unwrap_err();
    assert!(matches!(error, CaptureError::NothingLeft { .. }), "{error}");
}

#[test]
fn a_pid_that_was_used_again_is_another_process() {
    let mut fake = FakeMachine::new()
        .process(10, |p| p)
        .process(11, |p| p.ppid(10).start_time_ticks(50));
    let mut sampler = sampler(machine(&fake), 10);
    take(&mut sampler);
    fake.end(11, 1);
    fake.start(11, |p| p.ppid(10).start_time_ticks(90));
    let sample = take(&mut sampler);
    assert_eq!(of(&sample, 11).identity.start_time_ticks, 90);
}

#[test]
fn a_file_that_a_process_lacks_is_a_gap_and_not_zero() {
    let fake = FakeMachine::new().process(10, |p| p.file("io", "read_bytes: many\n"));
    let sample = take(&mut sampler(machine(&fake), 10));
    assert_eq!(of(&sample, 10).read_bytes, None);
    let gap = &sample.gaps[0];
    assert_eq!((gap.what.as_str(), gap.code), ("io", GapCode::Malformed));
}

#[test]
fn a_file_that_a_kernel_lacks_is_a_gap_and_one_that_a_dying_process_lacks_is_none() {
    let fake = FakeMachine::new()
        .process(10, |p| p.without("io"))
        .process(11, |p| p.ppid(10).zombie().without("status"));
    let sample = take(&mut sampler(machine(&fake), 10));
    let codes: Vec<_> = sample
        .gaps
        .iter()
        .filter(|gap| gap.what == "io" || gap.what == "status")
        .map(|gap| (gap.process.unwrap().pid, gap.what.as_str(), gap.code))
        .collect();
    assert_eq!(codes, [(10, "io", GapCode::Unsupported)]);
    assert_eq!(pids(&sample), [10, 11]);
}

#[test]
fn a_process_that_ended_since_the_sample_before_is_no_part_of_the_next() {
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let own = std::process::id().cast_signed();
    let machine = local();
    let id = machine.identify(child.id().cast_signed()).unwrap();
    let scope = Scope::tree(id, Some(own));
    let mut sampler = Sampler::new(Arc::new(machine), scope, false);
    assert!(
        take(&mut sampler)
            .processes
            .iter()
            .any(|it| it.identity == id)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    testkit::wait_until(testkit::DEADLINE, || match sample(&mut sampler, moment()) {
        Ok(sample) => sample.processes.iter().all(|it| it.identity != id),
        Err(error) => matches!(error, CaptureError::NothingLeft { .. }),
    });
}

#[test]
fn the_cgroup_and_the_limit_above_it_are_read() {
    let fake = FakeMachine::new()
        .process(10, |p| p.file("cgroup", "0::/pod/task\n"))
        .cgroup_file("pod/memory.max", "1000000\n")
        .cgroup_file("pod/memory.current", "900000\n")
        .cgroup_file(
            "pod/memory.events",
            "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n",
        )
        .cgroup_file("pod/task/memory.max", "max\n")
        .cgroup_file("pod/task/memory.current", "800000\n")
        .cgroup_file(
            "pod/task/memory.events",
            "low 0\nhigh 0\nmax 0\noom 1\noom_kill 1\n",
        )
        .cgroup_file(
            "pod/task/memory.stat",
            "anon 500000\nfile 200000\nshmem 100000\n",
        )
        .cgroup_file(
            "pod/task/cpu.stat",
            "usage_usec 77\nnr_throttled 0\nthrottled_usec 5\n",
        );
    let mut sampler = sampler(machine(&fake), 10);
    for _ in 0..2 {
        let sample = take(&mut sampler);
        let cgroup = sample.cgroup.as_ref().unwrap();
        assert_eq!(cgroup.usage_bytes, Some(800_000));
        assert_eq!(
            (cgroup.anon_bytes, cgroup.shmem_bytes),
            (Some(500_000), Some(100_000))
        );
        assert_eq!(cgroup.limit_bytes, Limit::At(1_000_000));
        assert_eq!(
            (cgroup.limit_usage_bytes, cgroup.limit_hits),
            (Some(900_000), Some(5))
        );
        assert!(cgroup.limit_path.as_ref().unwrap().ends_with("/pod"));
        assert_eq!((cgroup.cpu_usec, cgroup.oom_kills), (Some(77), Some(1)));
    }
}

#[test]
fn figures_of_the_root_cgroup_are_not_the_tasks() {
    let fake = FakeMachine::new().process(10, |p| p.file("cgroup", "0::/\n"));
    assert_eq!(take(&mut sampler(machine(&fake), 10)).cgroup, None);
}

#[test]
fn a_large_process_is_not_walked_and_a_gap_says_so() {
    let rollup = "Pss: 30 kB\nPrivate_Clean: 4 kB\nPrivate_Dirty: 8 kB\n";
    let fake = FakeMachine::new()
        .process(10, |p| p.rss_kib(4 << 20).file("smaps_rollup", rollup))
        .process(11, |p| p.ppid(10).rss_kib(80).file("smaps_rollup", rollup));
    let mut sampler = sampler(machine(&fake), 10);
    let first = take(&mut sampler);
    assert_eq!(of(&first, 10).pss_bytes, None);
    let small = of(&first, 11);
    assert_eq!(
        (small.pss_bytes, small.uss_bytes),
        (Some(30 << 10), Some(12 << 10))
    );
    let gap = &first.gaps[0];
    assert_eq!(
        (gap.what.as_str(), gap.code),
        ("smaps_rollup", GapCode::Skipped)
    );
    assert!(
        gap.detail.as_deref().unwrap().contains("4096 MiB"),
        "{gap:?}"
    );
}

#[test]
fn a_process_is_read_again_and_again_with_files_that_stay_open() {
    let code =
        "import sys\nsys.stdin.readline()\nblock = bytearray(b'x' * (64 << 20))\nsys.stdin.read()";
    let mut command = Command::new(&testkit::newest_python().path);
    let mut child = Started::new(command.args(["-c", code]));
    testkit::wait_until_asleep(child.pid());
    let mut sampler = sampler(local(), child.pid());
    let first = take(&mut sampler);
    let before = of(&first, child.pid());
    assert!(before.voluntary_switches.is_some(), "{before:?}");
    assert!(before.pss_bytes.unwrap() > 0, "{before:?}");
    child.write(b"\n");
    testkit::wait_until(testkit::DEADLINE, || {
        let later = take(&mut sampler);
        let process = of(&later, child.pid());
        process.rss_bytes.unwrap() >= 64 << 20 && process.peak_rss_bytes >= process.rss_bytes
    });
    sampler.close();
}
