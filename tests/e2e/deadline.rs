//! A snapshot ahead of the end that the scheduler has set.

use std::time::{SystemTime, UNIX_EPOCH};

use testkit::{DEADLINE, PythonJob, newest_python, wait_until};

use crate::support::{sandbox, stored, wait_for_snapshot};

/// Epoch seconds of a moment from now.
fn epoch_seconds_in(seconds: u64) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a deadline is a time of the real clock"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now.as_secs() + seconds).to_string()
}

#[test]
fn a_snapshot_is_taken_ahead_of_the_deadline_that_slurm_or_somebody_else_has_set() {
    // Less than twice the lead is left, so the look comes half-way.
    for variable in ["SLURM_JOB_END_TIME", "TASKSCOPE_DEADLINE"] {
        let sandbox = sandbox().environment(variable, &epoch_seconds_in(6));
        let running = sandbox.spawn(["run", "--interval", "1h", "--", "sleep", "1000"]);
        let seen = wait_for_snapshot(&sandbox, |snapshot| {
            snapshot["capture"]["trigger"] == "deadline"
        });
        assert_eq!(seen["processes"][0]["command"], "sleep 1000");
        assert!(!running.has_ended(), "nothing is sent to the task");
        running.signal(15);
        running.wait(DEADLINE).killed_by(15);
        let page = sandbox
            .run(["show", "--at", seen["capture"]["id"].as_str().unwrap()])
            .success();
        assert!(page.stdout.contains("before a deadline"), "{page}");
    }
}

#[test]
fn attach_looks_ahead_of_the_deadline_too() {
    let job = PythonJob::new(
        newest_python(),
        "print('ready')\nimport time\ntime.sleep(1000)\n",
    )
    .start();
    let sandbox = sandbox().environment("TASKSCOPE_DEADLINE", &epoch_seconds_in(6));
    let running = sandbox.spawn([
        "attach",
        "--pid",
        &job.pid().to_string(),
        "--interval",
        "1h",
    ]);
    wait_for_snapshot(&sandbox, |snapshot| {
        snapshot["capture"]["trigger"] == "deadline"
    });
    drop(running);
}

#[test]
fn a_deadline_that_is_none_or_past_is_a_line_and_the_task_runs() {
    for (text, words) in [
        ("tomorrow", "TASKSCOPE_DEADLINE=`tomorrow` is no time"),
        ("1700000000", "of TASKSCOPE_DEADLINE is past"),
    ] {
        let sandbox = sandbox().environment("TASKSCOPE_DEADLINE", text);
        let output = sandbox.run(["run", "--", "sh", "-c", "exit 3"]).exited(3);
        assert_eq!(output.stderr.matches(words).count(), 1, "{output}");
        wait_until(DEADLINE, || !stored(&sandbox).is_empty());
    }
}
