//! The whole program where a driver seems to be: a stand-in for its library, and its file in a fake proc root.

use testkit::{DEADLINE, FakeMachine, NvmlStandIn, Sandbox, wait_until};

use crate::support::sandbox;

fn machine() -> FakeMachine {
    FakeMachine::new()
        .file("driver/nvidia/version", "NVRM version: 550.54.15\n")
        .process(4243, |it| {
            it.cmdline(["python", "train.py"]).fd(9, "/dev/nvidia0")
        })
}

/// Takes a snapshot and returns its page.
fn page(sandbox: &Sandbox, machine: &FakeMachine) -> String {
    let (proc, cgroup) = (machine.proc_root(), machine.cgroup_root());
    let roots = [
        "--proc-root",
        proc.to_str().unwrap(),
        "--cgroup-root",
        cgroup.to_str().unwrap(),
    ];
    let arguments = ["snapshot", "--pid", "4243", "--store", ".taskscope"];
    _ = sandbox.run(arguments.into_iter().chain(roots)).success();
    sandbox.run(["show"]).success().stdout
}

#[test]
fn the_page_tells_of_gpus_and_of_a_driver_that_hangs() {
    let (driver, machine) = (NvmlStandIn::new(""), machine());
    let sandbox = sandbox().environment("LD_LIBRARY_PATH", driver.folder().to_str().unwrap());
    sandbox.write(
        "collector.toml",
        "[[enricher]]\nname = \"torchrun-ranks\"\nenabled = false\n",
    );
    // A helper may be slow to start.
    let mut text = String::new();
    let mut shows = |words: &str| {
        wait_until(DEADLINE, || {
            text = page(&sandbox, &machine);
            text.contains(words)
        });
        text.clone()
    };
    let healthy = shows(
        "97 %  70.0 GiB of 80.0 GiB  612 W  64 °C  4243 66.0 GiB; not of the task: 4242, 4244",
    );
    assert!(!healthy.contains("GPU driver"), "{healthy}");
    driver.behave("lost");
    shows("error: GPU 1 is lost: it fell off the bus or cannot be reached");
    driver.behave("hang-init");
    shows("warning: the GPU driver has not answered since ");
}
