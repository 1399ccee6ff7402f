//! How full the file systems are that a task uses.

use std::fs;
use std::os::unix::fs::MetadataExt;

use model::{Mount, MountPurpose, Snapshot};
use testkit::FakeMachine;

use super::{local, look, machine};

fn mount(snapshot: &Snapshot, purpose: MountPurpose) -> &Mount {
    let mut mounts = snapshot.filesystem.mounts.iter();
    mounts.find(|mount| mount.purpose == purpose).unwrap()
}

#[test]
fn each_place_of_the_task_has_its_mount_and_its_inodes() {
    let mountinfo = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
50 27 0:50 / /scratch rw - nfs4 server:/scratch rw
";
    let fake = FakeMachine::new().process(100, |p| {
        p.file("mountinfo", mountinfo)
            .environment([("TMPDIR", "/scratch/of-nobody")])
    });
    let cwd = fake.proc_root().join("100/cwd");
    fs::remove_file(&cwd).unwrap();
    std::os::unix::fs::symlink(fake.root(), &cwd).unwrap();
    let spool = fake.root().join("made/later");
    let snapshot = look(&machine(&fake).with_spool(spool), 100);

    let working = mount(&snapshot, MountPurpose::WorkingDirectory);
    assert_eq!(working.path, fake.root().to_str().unwrap());
    assert_eq!(working.mount_point.as_deref(), Some("/"));
    assert_eq!(working.kind.as_deref(), Some("ext4"));
    assert!(working.bytes_total.is_some_and(|bytes| bytes > 0));
    assert!(working.inodes_total.is_some());
    assert_eq!(working.is_read_only, Some(false));

    // What cannot be asked keeps what is known without asking, and is a gap.
    let temporary = mount(&snapshot, MountPurpose::Temporary);
    assert_eq!(temporary.kind.as_deref(), Some("nfs4"));
    assert_eq!(temporary.source.as_deref(), Some("server:/scratch"));
    assert_eq!(temporary.bytes_total, None);
    let gap = snapshot
        .gaps
        .iter()
        .find(|gap| gap.what == "/scratch/of-nobody");
    assert!(gap.is_some(), "{:?}", snapshot.gaps);

    assert!(
        mount(&snapshot, MountPurpose::Spool)
            .bytes_available
            .is_some()
    );
    let shared = mount(&snapshot, MountPurpose::SharedMemory);
    assert_eq!(
        shared.bytes_total,
        snapshot.filesystem.shared_memory.bytes_total
    );
}

#[test]
fn a_living_task_tells_where_it_works() {
    let directory = tempfile::tempdir().unwrap();
    let child = std::process::Command::new("sleep")
        .arg("1000")
        .current_dir(directory.path())
        .spawn();
    let mut child = child.unwrap();
    let snapshot = look(&local(), i32::try_from(child.id()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    let working = mount(&snapshot, MountPurpose::WorkingDirectory);
    let real = directory.path().canonicalize().unwrap();
    assert_eq!(working.path, real.to_str().unwrap());
    let mount_point = working.mount_point.as_ref().unwrap();
    let device = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
    assert_eq!(device(mount_point.as_ref()), device(&real));
}
