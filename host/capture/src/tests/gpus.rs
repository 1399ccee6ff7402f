//! GPUs in whole looks at fake machines.

use model::{GapCode, Severity, Snapshot};
use testkit::{DEADLINE, FakeMachine, NvmlStandIn, wait_until};

use super::{look, machine};
use crate::gpu::tests::settings;
use crate::rights::{GPU_VERSIONS, try_gpus};
use crate::{GpuSettings, Machine, Right, RightName, RightState};

fn fake() -> FakeMachine {
    FakeMachine::new()
        .process(100, |it| it.cmdline(["python", "train.py"]))
        .process(4243, |it| it.ppid(100).fd(9, "/dev/nvidia0"))
        .process(4242, |it| it.ppid(100))
}

/// Looks until `condition` holds, which takes as long as a helper needs to start.
fn look_until(machine: &Machine, condition: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let mut snapshot = look(machine, 100);
    wait_until(DEADLINE, || {
        let holds = condition(&snapshot);
        if !holds {
            snapshot = look(machine, 100);
        }
        holds
    });
    snapshot
}

/// Whether the first finding rests on what is in the snapshot.
fn rests_on(snapshot: &Snapshot, kind: &str, pointer: &str) -> bool {
    let finding = &snapshot.findings[0];
    let document = serde_json::to_value(snapshot).unwrap();
    let evidence = &finding.evidence[0];
    assert_eq!(
        (finding.kind.as_str(), evidence.pointer.as_str()),
        (kind, pointer)
    );
    let value: serde_json::Value = serde_json::from_str(&evidence.value).unwrap();
    document.pointer(pointer) == Some(&value)
}

#[test]
fn gpus_are_told_with_the_processes_of_the_task_that_hold_them() {
    let driver = NvmlStandIn::new("");
    let fake = fake();
    let machine = machine(&fake).with_gpus(settings(&driver));
    let snapshot = look_until(&machine, |snapshot| !snapshot.machine.gpus.is_empty());
    let processes = snapshot.machine.gpus[0].processes.iter();
    let known: Vec<_> = processes
        .map(|one| (one.pid, one.identity.map(|id| id.pid)))
        .collect();
    // A process without a descriptor of a GPU only has the number by chance.
    assert_eq!(known, [(4243, Some(4243)), (4242, None), (4244, None)]);
    assert_eq!(snapshot.machine.gpu_driver.as_deref(), Some("550.54.15"));
    assert_eq!(snapshot.findings, []);
    assert_eq!(snapshot.capture.helper_count, Some(1));
    // One for both GPUs.
    let gaps = snapshot.gaps.iter();
    let gaps: Vec<_> = gaps
        .filter(|gap| gap.what.starts_with("gpus"))
        .map(|gap| (gap.what.as_str(), gap.code, gap.count))
        .collect();
    assert_eq!(gaps, [("gpus/processes", GapCode::Unsupported, 2)]);
}

#[test]
fn a_silent_driver_and_a_lost_gpu_are_findings_as_long_as_they_are() {
    let driver = NvmlStandIn::new("hang-init");
    let fake = fake();
    let machine = machine(&fake).with_gpus(settings(&driver));
    let snapshot = look_until(&machine, |snapshot| !snapshot.findings.is_empty());
    assert!(rests_on(
        &snapshot,
        "gpu-unresponsive",
        "/machine/gpu_silent_since"
    ));
    let since = snapshot.capture.started_at;
    assert_eq!(snapshot.machine.gpu_silent_since, Some(since));
    assert_eq!(snapshot.findings[0].severity, Severity::Warning);
    let said = format!(
        "the GPU driver has not answered since {} UTC",
        since.human()
    );
    assert_eq!(snapshot.findings[0].message, said);

    driver.behave("lost");
    let snapshot = look_until(&machine, |snapshot| snapshot.machine.gpus.len() == 2);
    assert!(rests_on(&snapshot, "gpu-lost", "/machine/gpus/1/trouble"));
    assert_eq!(snapshot.findings.len(), 1);
    assert_eq!(snapshot.findings[0].severity, Severity::Error);
    let said = "GPU 1 is lost: it fell off the bus or cannot be reached";
    assert_eq!(snapshot.findings[0].message, said);
    assert_eq!(snapshot.processes.len(), 3, "nothing else is lost");
}

#[test]
fn without_a_sign_of_a_driver_nobody_is_asked() {
    let driver = NvmlStandIn::new("");
    let unsaid = || GpuSettings {
        library: None,
        ..settings(&driver)
    };
    let fake = fake();
    let machine = machine(&fake).with_gpus(unsaid());
    let snapshot = look(&machine, 100);
    assert_eq!(snapshot.capture.helper_count, Some(0));
    assert!(snapshot.gaps.iter().all(|gap| gap.what != "gpus"));

    let fake = fake.file("driver/nvidia/version", "NVRM version: 550.54.15\n");
    let machine = super::machine(&fake).with_gpus(unsaid());
    // What comes of it depends on this machine.
    look_until(&machine, |snapshot| {
        let is_refused = snapshot
            .gaps
            .iter()
            .any(|gap| gap.code == GapCode::NoReader);
        is_refused || !snapshot.machine.gpus.is_empty()
    });
}

#[test]
fn the_doctor_says_whether_gpus_answer_and_what_helps() {
    let driver = NvmlStandIn::new("");
    let fake = fake();
    let unread = machine(&fake);
    let now = super::moment().now;
    assert_eq!(try_gpus(&unread, now), None);
    let machine = unread.with_gpus(settings(&driver));
    let right_until = |state: RightState| {
        let mut found: Option<Right> = None;
        wait_until(DEADLINE, || {
            found = try_gpus(&machine, now);
            found.as_ref().is_some_and(|right| right.state == state)
        });
        found.unwrap()
    };
    let right = right_until(RightState::Holds);
    assert_eq!(right.right, RightName::Gpus);
    let words = "2 GPUs were asked; version of the driver: 550.54.15";
    assert_eq!(right.detail, words);

    machine.gpus.as_ref().unwrap().close();
    driver.behave("mismatch");
    let right = right_until(RightState::Lost);
    assert_eq!(right.remedy, Some(GPU_VERSIONS));
}
