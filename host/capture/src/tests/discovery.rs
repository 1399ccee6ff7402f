//! Which processes belong to the task, on fake machines.

use model::{GapCode, ScopeKind};
use testkit::FakeMachine;

use super::{look_at, machine, pids};
use crate::{CaptureError, Scope, discover};

/// 10 is the task's main process; 1 and 2 are strangers.
fn family() -> FakeMachine {
    FakeMachine::new()
        .process(1, |p| p.ppid(0))
        .process(2, |p| p.ppid(1))
        .process(10, |p| p.ppid(1).thread(11, |t| t))
        .process(12, |p| p.ppid(10))
        .process(13, |p| p.ppid(12))
}

#[test]
fn descendants_belong_to_the_task_and_strangers_do_not() {
    let fake = family();
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(10).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    assert_eq!(pids(&targets), [10, 12, 13]);
    assert_eq!(targets.scope.kind, ScopeKind::Tree);

    drop(fake);
    let error = discover(&machine, &mut scope).unwrap_err();
    assert!(matches!(error, CaptureError::Unreadable { .. }), "{error}");
}

#[test]
fn a_kernel_without_children_files_is_walked_instead() {
    let mut fake = family();
    for pid in [1, 2, 10, 12, 13] {
        fake.change(pid, |p| p.thread(pid, |t| t.without("children")));
    }
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(10).unwrap(), None);
    assert_eq!(pids(&discover(&machine, &mut scope).unwrap()), [10, 12, 13]);
}

#[test]
fn a_child_of_another_thread_belongs_to_the_task() {
    let fake = family().process(10, |p| {
        p.ppid(1)
            .thread(10, |t| t.file("children", ""))
            .thread(11, |t| t.file("children", "12 "))
    });
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(10).unwrap(), None);
    assert_eq!(pids(&discover(&machine, &mut scope).unwrap()), [10, 12, 13]);
}

#[test]
fn a_process_that_lost_its_parent_stays_a_member_and_so_do_its_children() {
    let mut fake = family();
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(10).unwrap(), None);
    discover(&machine, &mut scope).unwrap();

    fake.end(12, 1);
    fake.start(14, |p| p.ppid(13));
    assert_eq!(pids(&discover(&machine, &mut scope).unwrap()), [10, 13, 14]);

    fake.end(10, 1);
    assert_eq!(pids(&discover(&machine, &mut scope).unwrap()), [13, 14]);
}

#[test]
fn an_orphan_that_was_never_seen_is_found_with_its_adopter() {
    let fake = FakeMachine::new()
        .process(5, |p| p.ppid(1))
        .process(10, |p| p.ppid(5))
        .process(20, |p| p.ppid(5))
        .process(21, |p| p.ppid(20));
    let machine = machine(&fake);
    let root = machine.identify(10).unwrap();
    let adopted = discover(&machine, &mut Scope::tree(root, Some(5))).unwrap();
    assert_eq!(pids(&adopted), [10, 20, 21]);
    let alone = discover(&machine, &mut Scope::tree(root, None)).unwrap();
    assert_eq!(pids(&alone), [10]);
}

#[test]
fn a_stranger_with_a_members_pid_is_not_a_member() {
    let mut fake = family();
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(10).unwrap(), None);
    discover(&machine, &mut scope).unwrap();
    fake.end(13, 1);
    fake.start(13, |p| p.ppid(2).start_time_ticks(149_068));
    assert_eq!(pids(&discover(&machine, &mut scope).unwrap()), [10, 12]);
}

#[test]
fn when_nothing_is_left_the_error_names_the_task() {
    let mut fake = FakeMachine::new().process(10, |p| p.start_time_ticks(77));
    let machine = machine(&fake);
    let mut scope = Scope::tree(machine.identify(10).unwrap(), None);
    fake.start(10, |p| p.start_time_ticks(78));
    let error = discover(&machine, &mut scope).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing is left of the task: its main process 10:77 and all it started have ended"
    );
}

#[test]
fn a_pid_without_a_process_cannot_be_identified() {
    let fake = FakeMachine::new();
    let error = machine(&fake).identify(10).unwrap_err();
    let root = fake.proc_root();
    let expected = format!("there is no process 10 below {}", root.display());
    assert_eq!(error.to_string(), expected);
}

/// 10 and 12 are in the cgroup of the task, 14 in one below, and 13, a child of 12, has left it.
fn contained() -> FakeMachine {
    FakeMachine::new()
        .cgroup_file("task/cgroup.type", "domain\n")
        .cgroup_file("task/cgroup.procs", "10\n12\n0\n")
        .cgroup_file("task/below/cgroup.procs", "14\n")
        .process(10, |p| p.cgroup("0::/task\n"))
        .process(12, |p| p.ppid(10).cgroup("0::/task\n"))
        .process(13, |p| p.ppid(12).cgroup("0::/other\n"))
        .process(14, |p| p.ppid(10).cgroup("0::/task/below\n"))
}

#[test]
fn the_scope_of_a_cgroup_is_who_is_in_it_and_below() {
    let fake = contained().process(15, |p| p.ppid(1));
    let fake = fake.cgroup_file("task/cgroup.procs", "10\n12\n15\n");
    let machine = machine(&fake);
    let mut scope = Scope::cgroup(machine.identify(10).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    assert_eq!(pids(&targets), [10, 12, 14, 15]);
    let path = fake.cgroup_root().join("task");
    assert_eq!(targets.scope.cgroup, Some(path.display().to_string()));
}

#[test]
fn a_cgroup_that_holds_only_the_task_is_chosen() {
    let fake = contained();
    let machine = machine(&fake);
    let root = machine.identify(10).unwrap();
    let targets = discover(&machine, &mut Scope::auto(&machine, root, None)).unwrap();
    assert_eq!(targets.scope.kind, ScopeKind::Cgroup);
}

#[test]
fn a_cgroup_with_strangers_and_the_root_one_are_not_chosen() {
    let fake = contained().process(15, |p| p.ppid(1));
    let fake = fake.cgroup_file("task/cgroup.procs", "10\n12\n15\n");
    let strangers = machine(&fake);
    let root = strangers.identify(10).unwrap();
    assert_eq!(Scope::auto(&strangers, root, None).kind, ScopeKind::Tree);
    // As the adopter, 15 is us.
    assert_eq!(
        Scope::auto(&strangers, root, Some(15)).kind,
        ScopeKind::Cgroup
    );

    let fake = FakeMachine::new()
        .cgroup_file("cgroup.procs", "10\n")
        .process(10, |p| p);
    let alone = machine(&fake);
    let root = alone.identify(10).unwrap();
    assert_eq!(Scope::auto(&alone, root, None).kind, ScopeKind::Tree);
}

#[test]
fn where_the_cgroup_cannot_be_told_the_tree_is_watched_and_a_gap_says_so() {
    let fake = family();
    let machine = machine(&fake);
    let mut scope = Scope::cgroup(machine.identify(10).unwrap(), None);
    let targets = discover(&machine, &mut scope).unwrap();
    assert_eq!(pids(&targets), [10, 12, 13]);
    let gap = &look_at(&machine, &targets).gaps[0];
    assert_eq!(
        (gap.what.as_str(), gap.code),
        ("scope", GapCode::Unsupported)
    );
}
