use std::os::unix::fs::PermissionsExt;

use super::*;

const PLACE: &str = "train/x/attempt-0/diagnostics/node-vm";

fn key(sequence: u64) -> ObjectKey {
    format!("{PLACE}/snapshots/20261129T144054.169782Z-{sequence:06}.json.gz")
        .parse()
        .unwrap()
}

fn spool(directory: &Path, max_size_bytes: u64) -> Spool {
    let settings = SpoolSettings {
        directory: directory.join("spool"),
        max_size_bytes,
    };
    Spool::open(settings, Some("s3://bucket/x".to_owned()))
}

fn place() -> Place {
    PLACE.parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

fn waiting(spool: &Spool) -> Vec<u64> {
    let keys = spool.waiting(&place());
    let sequence = |key: &ObjectKey| match key {
        ObjectKey::Snapshot(key) => key.id.sequence,
        ObjectKey::Record(key) => panic!("{key} was not put here"),
    };
    keys.iter().map(sequence).collect()
}

#[test]
fn what_is_put_waits_oldest_first_until_it_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 1000);
    for sequence in [10, 2, 1] {
        spool.put(&key(sequence), b"content").unwrap();
    }
    assert_eq!(waiting(&spool), [1, 2, 10]);
    assert_eq!(spool.read(&key(2)).unwrap(), b"content");
    let (claim, _) = spool.claim(&place()).unwrap().unwrap();
    for sequence in [1, 2, 10] {
        spool.remove(&key(sequence)).unwrap();
    }
    assert_eq!(waiting(&spool), [0; 0]);
    spool.release(claim, &place());
    assert_eq!(names(&root.path().join("spool")), [BELONGS_TO]);
    let address = fs::read_to_string(root.path().join("spool").join(BELONGS_TO)).unwrap();
    assert_eq!(address, "s3://bucket/x\n");
}

#[test]
fn nobody_else_can_look_into_it() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let root = tempfile::tempdir().unwrap();
    let mut made = spool(root.path(), 1000);
    made.put(&key(0), b"content").unwrap();
    assert_eq!(mode(&root.path().join("spool")), 0o700);
    assert_eq!(mode(&made.path(&key(0))), 0o600);

    let root = tempfile::tempdir().unwrap();
    let shared = root.path().join("spool");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    spool(root.path(), 1000).put(&key(0), b"content").unwrap();
    assert_eq!(mode(&shared), 0o755);
    assert_eq!(mode(&shared.join("train")), 0o700);
}

#[test]
fn beyond_the_limit_the_oldest_go_and_strangers_stay() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 250);
    let stranger = root.path().join("spool/letter.txt");
    fs::create_dir(stranger.parent().unwrap()).unwrap();
    fs::write(&stranger, [0; 500]).unwrap();
    let mut modified = fs::metadata(&stranger).unwrap().modified().unwrap();
    for sequence in 0..4 {
        spool.put(&key(sequence), &[0; 100]).unwrap();
        modified += std::time::Duration::from_secs(1);
        let file = fs::File::options()
            .append(true)
            .open(spool.path(&key(sequence)));
        // Not there where it was the one to go.
        if let Ok(file) = file {
            file.set_modified(modified).unwrap();
        }
    }
    assert_eq!((spool.evicted(), spool.evicted_of(&place())), (2, 2));
    assert_eq!(waiting(&spool).len(), 2);
    assert!(stranger.exists());
    spool.forget_evicted(&place(), 1).unwrap();
    assert_eq!(spool.evicted_of(&place()), 1);
    spool.forget_evicted(&place(), 1).unwrap();
    assert_eq!(names(&spool.settings.directory.join(PLACE)), ["snapshots"]);
}

#[test]
fn one_that_alone_is_too_large_is_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 50);
    spool.put(&key(0), &[0; 100]).unwrap();
    assert_eq!((waiting(&spool).len(), spool.evicted()), (0, 1));
}

#[test]
fn what_is_set_aside_no_longer_waits_but_counts() {
    let root = tempfile::tempdir().unwrap();
    let mut first = spool(root.path(), 1000);
    first.put(&key(0), &[0; 100]).unwrap();
    let aside = first.set_aside(&key(0)).unwrap();
    assert!(aside.ends_with("20261129T144054.169782Z-000000.json.gz.bad"));
    assert_eq!(waiting(&first), [0; 0]);
    assert_eq!(spool(root.path(), 1000).size_bytes, 100);
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("spool"), b"a file").unwrap();
    let mut spool = spool(root.path(), 1000);
    assert!(spool.put(&key(0), b"content").is_err());
}

#[test]
fn what_a_dead_owner_left_half_written_is_set_aside_and_a_living_ones_is_not() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 1000);
    spool.put(&key(0), &[0; 100]).unwrap();
    let part = with_suffix(&spool.path(&key(1)), PART);
    fs::write(&part, "half").unwrap();
    let (claim, aside) = spool.claim(&place()).unwrap().unwrap();
    assert_eq!(aside, [with_suffix(&spool.path(&key(1)), BAD)]);
    fs::write(&part, "half").unwrap();
    assert!(spool.claim(&place()).unwrap().is_none());
    assert!(part.exists());
    assert_eq!((waiting(&spool), spool.places()), (vec![0], vec![place()]));
    spool.release(claim, &place());
    assert_eq!(waiting(&spool), [0]);
}

fn record(name: &str) -> ObjectKey {
    format!("{PLACE}/{name}").parse().unwrap()
}

#[test]
fn records_wait_behind_the_snapshots_and_are_set_aside_when_torn() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 1000);
    let report = record("report.json");
    let samples = record("samples/20261129T144054.169782Z-00c0ffee.json.gz");
    let obituaries = record("obituaries/20261129T154054.169782Z-00c0ffee.json.gz");
    for key in [&report, &obituaries, &samples, &key(7)] {
        spool.put(key, b"content").unwrap();
    }
    let in_turn = [key(7), samples.clone(), obituaries.clone(), report.clone()];
    assert_eq!(spool.waiting(&place()), in_turn);
    fs::write(with_suffix(&spool.path(&samples), PART), "half").unwrap();
    let (claim, aside) = spool.claim(&place()).unwrap().unwrap();
    assert_eq!(aside, [with_suffix(&spool.path(&samples), BAD)]);
    for key in in_turn {
        spool.remove(&key).unwrap();
    }
    fs::remove_file(&aside[0]).unwrap();
    spool.release(claim, &place());
    assert_eq!(names(&root.path().join("spool")), [BELONGS_TO]);
}

#[test]
fn a_report_that_was_replaced_while_it_was_stored_stays() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 1000);
    let report = record("report.json");
    spool.put(&report, b"new").unwrap();
    spool.remove_stored(&report, b"old").unwrap();
    assert_eq!(spool.read(&report).unwrap(), b"new");
    spool.remove_stored(&report, b"new").unwrap();
    assert_eq!(spool.waiting(&place()), []);
}

#[test]
fn records_that_are_thrown_away_do_not_count_as_snapshots() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = spool(root.path(), 50);
    let samples = record("samples/20261129T144054.169782Z-00c0ffee.json.gz");
    let evicted = spool.put(&samples, &[0; 100]).unwrap();
    assert_eq!(evicted, [samples]);
    assert_eq!((spool.evicted(), spool.evicted_of(&place())), (1, 0));
}
