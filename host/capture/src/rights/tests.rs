//! What is refused and why, what of that a gap says, and a try on a living process.

use std::io;
use std::process::{Command, Stdio};

use testkit::FakeMachine;

use super::reason::{Access, refusal};
use super::*;
use crate::{StackSettings, StackSource};

fn stacks() -> StackSettings {
    StackSettings {
        source: StackSource::Off,
        timeout: Duration::from_secs(5),
        nonblocking: true,
        max_parallel: 1,
    }
}

fn ours(yama: Option<u32>, capabilities: &[&str]) -> OwnRights {
    OwnRights {
        capabilities: capabilities.iter().map(|&name| name.to_owned()).collect(),
        effective_uid: 1000,
        yama_ptrace_scope: yama,
        ..OwnRights::default()
    }
}

fn process() -> ProcessRights {
    ProcessRights {
        command: Some("python3".to_owned()),
        dumpable: Some(true),
        has_our_ids: true,
        identity: ProcessId {
            pid: 7,
            start_time_ticks: 9,
        },
        is_descendant: false,
        is_in_our_user_namespace: Some(true),
        permitted: 0,
        seccomp: Some("off"),
        uid: Some(1000),
    }
}

#[track_caller]
fn assert_refused(
    access: Access,
    ours: &OwnRights,
    process: &ProcessRights,
    words: &str,
    remedy: Remedy,
) {
    let (detail, found) = refusal(access, ours, process);
    assert!(detail.contains(words), "{detail}");
    assert_eq!(found, remedy, "{detail}");
}

#[test]
fn the_reason_of_a_refusal_is_the_first_that_the_kernel_checks() {
    let stranger = ProcessRights {
        has_our_ids: false,
        uid: Some(0),
        dumpable: None,
        ..process()
    };
    let undumpable = ProcessRights {
        dumpable: Some(false),
        ..process()
    };
    let capable = ProcessRights {
        permitted: 1 << 19,
        ..process()
    };
    let none = ours(None, &[]);
    let read = Access::Read;
    assert_refused(
        read,
        &none,
        &stranger,
        "process of user 0, and we are user 1000",
        SAME_USER,
    );
    assert_refused(read, &none, &undumpable, "not dumpable", SAME_USER);
    assert_refused(read, &none, &capable, "SYS_PTRACE", SAME_USER);
}

#[test]
fn yama_guards_memory_and_not_files() {
    let attach = Access::Attach;
    assert_refused(
        attach,
        &ours(Some(1), &[]),
        &process(),
        "not an ancestor",
        YAMA_DESCENDANTS,
    );
    assert_refused(
        attach,
        &ours(Some(2), &[]),
        &process(),
        "ptrace_scope is 2",
        YAMA_PRIVILEGED,
    );
    assert_refused(
        attach,
        &ours(Some(3), &["SYS_PTRACE"]),
        &process(),
        "nobody",
        YAMA_NOBODY,
    );
    assert_refused(
        Access::Read,
        &ours(Some(1), &[]),
        &process(),
        "security module",
        remedy::SECURITY_MODULE,
    );
    let child = ProcessRights {
        is_descendant: true,
        ..process()
    };
    assert_refused(
        attach,
        &ours(Some(1), &[]),
        &child,
        "security module",
        remedy::SECURITY_MODULE,
    );
}

#[test]
fn the_memory_of_a_descendant_holds_for_our_helpers_if_its_file_can_be_opened() {
    let child = ProcessRights {
        is_descendant: true,
        ..process()
    };
    let judged = |file: io::Result<()>, ours| {
        let right = memory::judge(Ok(()), file, &ours, &child);
        (right.state, right.detail, right.remedy)
    };
    let refused = || Err(io::ErrorKind::PermissionDenied.into());
    let (state, detail, _) = judged(Ok(()), ours(Some(1), &[]));
    assert_eq!(state, RightState::Holds);
    assert!(
        detail.contains("its helpers are handed that file")
            && detail.contains("3.8 to 3.13 are read by it, no others"),
        "{detail}"
    );
    let (state, _, remedy) = judged(refused(), ours(Some(1), &[]));
    assert_eq!((state, remedy), (RightState::Lost, Some(PY_SPY_ITSELF)));
    for free in [ours(Some(1), &["SYS_PTRACE"]), ours(Some(0), &[])] {
        let (state, detail, _) = judged(refused(), free);
        assert_eq!(
            (state, detail.as_str()),
            (RightState::Holds, "process_vm_readv works")
        );
    }
}

#[test]
fn a_gap_names_the_right_that_is_lacking() {
    let id = ProcessId {
        pid: 7,
        start_time_ticks: 9,
    };
    let mut gaps = [
        Gap::new("task/*/stack", GapCode::Denied).of(id),
        Gap::new("environ", GapCode::Denied).of(id),
        Gap::new("task/*/wchan", GapCode::Denied).of(id),
        Gap::new("python_stack", GapCode::Denied).of(id),
        Gap::new("environ", GapCode::Vanished).of(id),
        Gap::new("cgroup/memory.max", GapCode::Denied),
        Gap::new("pressure/*", GapCode::Unsupported),
    ];
    name_rights(&mut gaps);
    let rights: Vec<_> = gaps.iter().map(|gap| gap.right.as_deref()).collect();
    assert_eq!(
        rights,
        [
            Some("kernel_stacks"),
            Some("process_files"),
            Some("wait_channels"),
            Some("process_memory"),
            None,
            Some("cgroup_files"),
            Some("pressure"),
        ]
    );
}

#[test]
fn names_are_serialised_as_gaps_have_them() {
    let all = [
        RightName::VisibleProcesses,
        RightName::ProcessFiles,
        RightName::ProcessMemory,
        RightName::ProcessDescriptors,
        RightName::KernelStacks,
        RightName::WaitChannels,
        RightName::ChildrenFiles,
        RightName::CgroupFiles,
        RightName::Pressure,
        RightName::PythonStacks,
        RightName::Store,
    ];
    for name in all {
        assert_eq!(serde_json::to_value(name).unwrap(), name.as_str());
    }
}

#[test]
fn capabilities_have_their_names() {
    let bits = ours::mask("000001fffeffffff").unwrap();
    let names = ours::names(bits);
    assert!(names.contains(&"SYS_PTRACE".to_owned()) && names.contains(&"PERFMON".to_owned()));
    assert!(!names.contains(&"SYS_RESOURCE".to_owned()));
    assert_eq!(ours::names(1 << 60), ["capability 60"]);
}

#[test]
fn a_machine_that_hides_processes_or_lacks_files_says_what_is_lost() {
    let fake = FakeMachine::new().process(100, |p| {
        p.wchan("0")
            .thread(100, |thread| thread.without("children"))
    });
    let mountinfo = format!(
        "23 22 0:21 / {} rw - proc proc rw,hidepid=invisible\n",
        fake.proc_root().display()
    );
    let fake = fake
        .file("self/mountinfo", &mountinfo)
        .without("pressure/cpu");
    let fake = fake.without("pressure/io").without("pressure/memory");
    std::fs::remove_file(fake.proc_root().join("100/stack")).ok();
    let machine = Machine::at(fake.proc_root(), fake.cgroup_root(), stacks());
    let found = try_rights(&machine, 100).unwrap();
    let lost: Vec<RightName> = found
        .rights
        .iter()
        .filter(|right| right.state == RightState::Lost)
        .map(|right| right.right)
        .collect();
    for name in [
        RightName::VisibleProcesses,
        RightName::WaitChannels,
        RightName::Pressure,
    ] {
        assert!(lost.contains(&name), "{name:?} of {lost:?}");
    }
}

#[test]
fn a_child_of_ours_can_be_looked_into() {
    let child = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let machine = Machine::local(stacks());
    let pid = i32::try_from(child.id()).unwrap();
    let found = try_rights(&machine, pid);
    child.kill().unwrap();
    child.wait().unwrap();
    let found = found.unwrap();
    assert!(found.process.is_descendant);
    let state = |name: RightName| {
        let mut rights = found.rights.iter();
        let right = rights.find(|right| right.right == name).unwrap();
        (right.state, right.detail.clone())
    };
    // A child of the same user: whoever we are, unless a container's filter or Yama 2 and more forbids it.
    let files = state(RightName::ProcessFiles);
    assert_eq!(files.0, RightState::Holds, "{}", files.1);
    let channels = state(RightName::WaitChannels);
    assert_eq!(channels.0, RightState::Holds, "{}", channels.1);
    let expected = if found.ours.has("SYS_ADMIN") {
        RightState::Holds
    } else {
        RightState::Lost
    };
    let kernel_stacks = state(RightName::KernelStacks);
    assert_eq!(kernel_stacks.0, expected, "{}", kernel_stacks.1);
    let gone = try_rights(&machine, pid);
    assert!(
        matches!(gone, Err(CaptureError::NoProcess { .. })),
        "{gone:?}"
    );
}
