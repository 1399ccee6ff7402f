//! What each level of detail leaves out, and that it is said.

use model::{Detail, GapCode, Snapshot};
use testkit::FakeMachine;

use super::{machine, moment, options, process};
use crate::{Moment, Scope, capture, discover};

fn look_at_level(detail: Detail, shared_memory: Option<u64>) -> Snapshot {
    let fake = FakeMachine::new()
        .process(100, |p| {
            p.cmdline(["python3", "train.py"])
                .exe("/usr/bin/python3.11")
                .fd(0, "/dev/null")
                .fd(9, "pipe:[5]")
                .wchan("futex_do_wait")
                .syscall("202 0x1 0x2")
                .kernel_stack(["futex_do_wait"])
        })
        .process(102, |p| p.ppid(100).fd(0, "pipe:[5]"));
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(100).unwrap(), None);
    let mut options = options();
    options.shared_memory = shared_memory;
    let moment = Moment { detail, ..moment() };
    capture(
        &machine,
        &options,
        &discover(&machine, &mut scope).unwrap(),
        &moment,
    )
}

/// What is said to be left out.
fn left_out(snapshot: &Snapshot) -> Vec<&str> {
    let skipped = snapshot.gaps.iter().filter(|gap| {
        let is_skipped = gap.code == GapCode::Skipped;
        assert!(
            !is_skipped || (gap.process.is_none() && gap.count == 1),
            "{gap:?}"
        );
        is_skipped
    });
    skipped
        .map(|gap| {
            assert!(
                gap.detail
                    .as_deref()
                    .unwrap()
                    .contains("`[capture] budget`")
            );
            assert!(gap.remedy.as_deref().unwrap().contains("--interval"));
            gap.what.as_str()
        })
        .collect()
}

#[test]
fn each_level_leaves_out_more_and_says_each_kind_once() {
    let all = [
        "smaps_rollup",
        "task/*/stack",
        "fdinfo",
        "ipc",
        "python_stack",
    ];
    for (level, count) in Detail::ALL.into_iter().zip([0, 1, 2, 4, 5]) {
        let snapshot = look_at_level(level, Some(1 << 30));
        assert_eq!(left_out(&snapshot), all[..count], "{level:?}");
        let facts = &process(&snapshot, 100).proc;
        let thread = &facts.threads[0];
        assert_eq!(thread.kernel_stack.is_empty(), count >= 2);
        assert_eq!(facts.kernel_stack.is_empty(), count >= 2);
        assert_eq!(facts.file_descriptors[1].info.is_none(), count >= 4);
        assert_eq!(snapshot.ipc.endpoints.is_empty(), count >= 4);
        let off = snapshot.gaps.iter().any(|gap| gap.code == GapCode::Off);
        assert_eq!(off, count < 5, "stacks are asked for");
        // What says where it waits is never left out.
        assert_eq!(thread.wchan.as_deref(), Some("futex_do_wait"));
        assert_eq!(thread.syscall.as_deref(), Some("202 0x1 0x2"));
        assert_eq!(facts.file_descriptors[1].target, "pipe:[5]");
    }
}

#[test]
fn what_is_switched_off_anyway_is_not_left_out() {
    let snapshot = look_at_level(Detail::WithoutSharedMemory, None);
    assert_eq!(left_out(&snapshot), [""; 0]);
}
