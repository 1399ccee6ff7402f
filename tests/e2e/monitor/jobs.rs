//! Jobs that are hard to measure: memory that many processes share, processes that come and go all the time, a clock that is set,
//! a disk that is full.

use std::process::Command;
use std::time::Instant;

use super::*;
use crate::our_failures::among_mounts;
use crate::out_of_memory::MemoryGroup;

/// 5 GiB resident, for the price of 64 MiB: one file of memory, mapped 80 times.
const LARGE: &str = r#"
import mmap, os, tempfile, time
PART, POPULATE = 64 << 20, 0x8000
with tempfile.TemporaryFile(dir="/dev/shm") as file:
    os.posix_fallocate(file.fileno(), 0, PART)
    maps = [mmap.mmap(file.fileno(), PART, flags=mmap.MAP_SHARED | POPULATE) for _ in range(80)]
    while not os.path.exists("go"):
        time.sleep(0.01)
"#;

#[test]
fn a_process_of_more_than_4_gib_is_measured_and_not_walked_which_the_report_says() {
    if rustix::fs::statvfs("/dev/shm").is_ok_and(|it| it.f_bavail * it.f_frsize < 65 << 20) {
        return eprintln!("SKIPPED: /dev/shm has no room for 64 MiB");
    }
    let sandbox = quick("log-interval = \"100ms\"\ndetailed-memory = true\n");
    sandbox.write("large.py", LARGE);
    let running = sandbox.spawn(["run", "--interval", "1h", "--", &python(), "large.py"]);
    let rss = |report: &Value| report["latest_sample"]["tree_rss_bytes"].as_u64();
    let is_large = |report: &Value| {
        let gaps = report["gaps"].as_array().unwrap().iter();
        let is_told = gaps.clone().any(|gap| gap["what"] == "smaps_rollup");
        rss(report) > Some(5 << 30) && is_told
    };
    let report = wait_for_report(&sandbox, is_large);
    sandbox.write("go", "");
    running.wait(DEADLINE).success();
    assert!(
        report["latest_sample"]["tree_pss_bytes"].is_null(),
        "{report:#}"
    );
    let gaps = report["gaps"].as_array().unwrap();
    let gap = gaps
        .iter()
        .find(|gap| gap["what"] == "smaps_rollup")
        .unwrap();
    assert_eq!(gap["code"], "skipped");
    let words = gap["detail"].as_str().unwrap();
    assert!(words.contains("over the 1024 MiB"), "{words}");
    let peak = &report["peaks"]["tree_rss_bytes"]["value"];
    assert!(
        peak.as_f64() > Some(5.0 * 1024.0 * 1024.0 * 1024.0),
        "{peak}"
    );
    let page = sandbox.run(["report"]).success().stdout;
    assert!(page.contains("5.") && page.contains("GiB"), "{page}");
}

/// Eight children share what their parent has, and each changes and adds some; another part is shared by name.
const FORKS: &str = "
import mmap, os, time
MIB = 1 << 20
block = bytearray(os.urandom(4096)) * (200 * MIB // 4096)
shared = mmap.mmap(-1, 64 * MIB)
for at in range(0, len(shared), 4096): shared[at] = 1
for child in range(8):
    if os.fork() == 0:
        own = bytearray(b'x') * (16 * MIB)
        for at in range(0, 16 * MIB, 4096): block[at] = child
        sum(shared[::4096])
        open('ready-%d' % child, 'w').close()
        time.sleep(1000)
time.sleep(1000)
";

#[test]
fn the_shares_of_a_job_that_forks_add_up_to_what_its_cgroup_has() {
    let Some(group) = MemoryGroup::new(4 << 30) else {
        eprintln!("SKIPPED: no memory cgroup of version 1 can be made here.");
        return;
    };
    let watching = quick("log-interval = \"100ms\"\ndetailed-memory = true\nmax-samples = 1000\n");
    watching.write("forks.py", FORKS);
    let shell = Sandbox::new(Path::new("sh"));
    let script = format!(
        "cd {}; echo $$ > {}/cgroup.procs; exec {} forks.py",
        watching.directory().display(),
        group.0.display(),
        python()
    );
    let job = shell.spawn(["-c", &script]);
    wait_until(DEADLINE * 2, || {
        (0..8).all(|child| watching.path(&format!("ready-{child}")).exists())
    });
    let pid = job.pid().to_string();
    let running = watching.spawn(["attach", "--pid", &pid, "--interval", "1h"]);
    let has_shares = |it: &&Value| it["tree_pss_bytes"].is_number();
    let of = |report: &Value| {
        let recent = report["recent_samples"].as_array().unwrap();
        recent.iter().find(has_shares).cloned()
    };
    let report = wait_for_report(&watching, |it| of(it).is_some());
    let sample = of(&report).unwrap();
    job.signal(KILL);
    drop(job); // and its children
    running.wait(DEADLINE).success();

    assert_eq!(
        (&sample["pss_processes"], &sample["pss_complete"]),
        (&9.into(), &true.into())
    );
    let cgroup = &sample["cgroup"];
    let charged = number(&cgroup["anon_bytes"]) + number(&cgroup["shmem_bytes"]);
    let pss = number(&sample["tree_pss_bytes"]);
    assert!(
        (pss / charged - 1.0).abs() < 0.05,
        "{pss} and {charged}: {sample}"
    );
    let rss = number(&sample["tree_rss_bytes"]);
    assert!(
        rss > 2.0 * charged,
        "what is shared counts in each: {sample}"
    );
    assert!(number(&sample["tree_uss_bytes"]) < charged, "{sample}");
    let page = watching.run(["report"]).success().stdout;
    assert!(
        page.contains("the sum of RSS is an overcount") && page.contains("PSS"),
        "{page}"
    );
}

#[test]
fn processes_that_vanish_while_they_are_read_are_no_error() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        "[monitor]\ninterval = \"1ms\"\nlog-interval = \"100ms\"\n",
    );
    // Those that live on are in every sample, whatever happens beside them.
    let task = "
import os, time
steady = [os.fork() or time.sleep(1000) for _ in range(3)]
begun = time.monotonic()
count = 0
while count < 500 or (not os.path.exists('stop') and time.monotonic() - begun < 60):
    children = [os.fork() or os._exit(0) for _ in range(8)]
    for child in children: os.waitpid(child, 0)
    count += 8
for child in steady: os.kill(child, 9)
print(count)
";
    sandbox.write("storm.py", task);
    let running = sandbox.spawn(["run", "--interval", "1h", "--", &python(), "storm.py"]);
    wait_for_report(&sandbox, |it| {
        let samples = it["samples"].as_u64() > Some(200);
        samples && it["peak_process_count"].as_u64() > Some(4)
    });
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
    let report = report(&sandbox);
    assert_eq!(report["sampling_errors"]["count"], 0, "{report}");
    assert_eq!(report["sampling_attempts"], report["samples"], "{report}");
    assert_eq!(report["partial_rss_samples"], 0, "{report}");
    assert!(number(&report["peak_process_count"]) >= 5.0, "{report}");
}

/// A clock that is as many seconds ahead as a file says.
const STEPPED_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    const char *path = getenv("CLOCK_STEP");
    int status = syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && clock == CLOCK_REALTIME && path) {
        char text[32] = {0};
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0 && read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
        if (file >= 0) close(file);
    }
    return status;
}
"#;

/// Builds the clock, which what is started with it asks; the reason where that cannot be.
pub(crate) fn stepped_clock(sandbox: &Sandbox) -> Option<PathBuf> {
    let source = sandbox.write("clock.c", STEPPED_CLOCK);
    let library = sandbox.path("clock.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no C compiler here.");
        return None;
    }
    Some(library)
}

#[test]
fn a_clock_that_is_set_back_and_forth_changes_no_duration_and_no_order() {
    let sandbox = sandbox();
    sandbox.write(
        "collector.toml",
        "[monitor]\ninterval = \"2ms\"\nlog-interval = \"500ms\"\n",
    );
    let Some(library) = stepped_clock(&sandbox) else {
        return;
    };
    let (step_file, new) = (sandbox.path("step"), sandbox.path("step.new"));
    let step = |seconds: &str| {
        fs::write(&new, seconds).unwrap();
        fs::rename(&new, &step_file).unwrap();
    };
    step("0");
    let sandbox = sandbox
        .environment("LD_PRELOAD", library.to_str().unwrap())
        .environment("CLOCK_STEP", step_file.to_str().unwrap());
    let program = binary();
    let task = "until [ -e stop ]; do sleep 0.05; done";
    let program = program.to_str().unwrap();
    let stage = [program, "stage", "all", "--", "sh", "-c", task];
    let begun = Instant::now();
    let running = sandbox.spawn(["run", "--interval", "1h", "--"].iter().chain(&stage));
    let mut samples = 0;
    for seconds in ["0", "-7200", "86400", "-7200"] {
        step(seconds);
        // Some of each time, in a segment of its own.
        let before = samples;
        wait_until(4 * DEADLINE, || {
            let report = stored_report(&sandbox);
            samples = report
                .and_then(|it| it["samples"].as_u64())
                .unwrap_or(before);
            samples > before + 310
        });
    }
    sandbox.write("stop", "");
    running.wait(DEADLINE).success();
    knows_no_clock(&report(&sandbox), begun.elapsed().as_secs_f64());
}

/// Checks that a run of `took` seconds at most looks like one, whose clock was set back twice.
#[track_caller]
fn knows_no_clock(report: &Value, took: f64) {
    let durations = [
        &report["wall_seconds"],
        &report["max_sample_gap_seconds"],
        &report["peak_rss_elapsed_seconds"],
        &report["stages"][0]["wall_seconds"],
    ];
    for value in durations {
        assert!((0.0..=took).contains(&number(value)), "{value} of {took}");
    }
    // The curve has all samples in the order in which they were taken.
    let curve = report["curve"].as_array().unwrap();
    let at: Vec<&str> = curve.iter().map(|it| it["at"].as_str().unwrap()).collect();
    let back = at.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert_eq!(back, 2, "{at:?}");
    let counts = curve.iter().map(|it| number(&it["samples"]));
    assert_eq!(counts.sum::<f64>(), number(&report["samples"]));
    let times = curve.iter().map(|it| number(&it["elapsed_seconds"]));
    let times: Vec<f64> = times.collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{curve:?}");
    assert!(times[times.len() - 1] <= took, "{curve:?}");
}

#[test]
fn what_a_full_disk_took_is_counted_in_the_next_report_and_heals() {
    let sandbox = quick("log-interval = \"100ms\"\n");
    // Each wait ends after a minute, whatever happens.
    let task = r#"
wait_for() { i=0; until grep -qs "$@" || [ $i = 3000 ]; do i=$((i+1)); sleep 0.02; done; }
wait_for -r '"samples":[1-9]' /mnt/store --include=report.json --exclude-dir=.spool
dd if=/dev/zero of=/mnt/fill bs=1k 2> dd
wait_for 'it is lost' said
rm /mnt/fill
wait_for -r '"last_error":"' /mnt/store --include=report.json --exclude-dir=.spool
wait_for -r '"output_error":null' /mnt/store --include=report.json --exclude-dir=.spool
echo mine; exit 3
"#;
    sandbox.write("task.sh", task);
    let script = "mount -t tmpfs -o size=2m none /mnt && \
         { \"$0\" run --interval 1h --store /mnt/store -- sh task.sh 2> said; echo $? > status; \
           \"$0\" report --json /mnt/store > report.json; \"$0\" report /mnt/store > page; }";
    let Some(output) = among_mounts(&sandbox, script) else {
        return;
    };
    let read = |name: &str| fs::read_to_string(sandbox.path(name)).unwrap_or_default();
    let said = read("said");
    assert_eq!(read("status"), "3\n", "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mine\n", "{said}");
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(report["output_error"], Value::Null, "it has healed: {said}");
    let errors = &report["output_errors"];
    assert!(number(&errors["count"]) >= 1.0, "{errors}\n{said}");
    let last = errors["last_error"].as_str().unwrap();
    assert!(
        last.contains("No space left") || last.contains("StorageFull"),
        "{errors}"
    );
    let words = "keeping what was sampled failed ";
    assert!(read("page").contains(words), "{}", read("page"));
}
