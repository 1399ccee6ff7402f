//! Directories that are used and others that are not; what is kept and what goes.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn put(cache: &Cache, key: &str, bytes: &[u8]) -> File {
    let mut unfinished = cache.begin(key).unwrap();
    unfinished.file.write_all(bytes).unwrap();
    unfinished.keep(key).unwrap()
}

fn content(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_of_our_own_is_made_and_keeps_what_is_finished() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("cache/plugins");
    let cache = Cache::open(Some(&directory));
    let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(cache.find("a").is_none());
    put(&cache, "a", b"code");
    assert_eq!(content(cache.find("a").unwrap()), b"code");
    drop(cache.begin("b").unwrap());
    assert_eq!(names(&directory), ["a.cwasm"]);
    cache.remove("a");
    assert!(names(&directory).is_empty());
}

#[test]
fn a_directory_that_cannot_be_trusted_is_not_used_and_the_reason_is_said() {
    let parent = tempfile::tempdir().unwrap();
    let open = parent.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o750)).unwrap();
    let reason = trusted(&open).unwrap_err().to_string();
    assert_eq!(reason, "others may enter it (mode 750); `chmod 700` it");
    let fine = parent.path().join("fine");
    trusted(&fine).unwrap();
    let link = parent.path().join("link");
    symlink(&fine, &link).unwrap();
    assert_eq!(
        trusted(&link).unwrap_err().to_string(),
        "it is a symbolic link"
    );
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(trusted(&file), Err(Distrust::Io(_))));
    // The root directory belongs to root; who is root himself finds it open.
    assert!(matches!(
        trusted(Path::new("/")),
        Err(Distrust::Foreign(_) | Distrust::Open(_))
    ));

    let cache = Cache::open(Some(&open));
    let kept = put(&cache, "a", b"code");
    assert_eq!(std::fs::read(path_of(&kept)).unwrap(), b"code");
    assert!(cache.find("a").is_none() && names(&open).is_empty());
}

#[test]
fn code_in_memory_cannot_be_changed_once_it_is_kept() {
    let mut kept = put(&Cache::open(None), "a", b"code");
    assert!(kept.write_all(b"more").is_err());
    assert!(kept.set_len(0).is_err());
}

#[test]
fn what_is_old_or_too_much_goes_and_the_latest_stays() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("plugins");
    let cache = Cache::open(Some(&directory));
    let hour = std::time::Duration::from_hours(1);
    let aged = |name: &str, size: u64, hours: u32| {
        let file = File::create(directory.join(name)).unwrap();
        file.set_len(size).unwrap(); // a hole: it takes no room
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - hour * hours).unwrap();
    };
    aged("month.cwasm", 1, 31 * 24);
    aged("week.cwasm", 1, 7 * 24);
    aged("large.cwasm", 512 << 20, 2);
    aged("small.cwasm", 1, 1);
    aged("given-up.new", 1, 2);
    aged("under-way.new", 1, 0);
    aged("stranger", 1, 1000);
    let kept = put(&cache, "latest", b"code");
    cache.prune(&kept);
    assert_eq!(
        names(&directory),
        ["latest.cwasm", "small.cwasm", "stranger", "under-way.new"]
    );
}

#[test]
fn use_keeps_a_file_young() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("plugins");
    let cache = Cache::open(Some(&directory));
    let kept = put(&cache, "a", b"code");
    let modified = || {
        std::fs::metadata(directory.join("a.cwasm"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let written = modified();
    kept.set_modified(written - std::time::Duration::from_hours(1))
        .unwrap();
    cache.find("a").unwrap();
    assert!(modified() >= written);
}
