//! Where the cgroup hierarchies are mounted: version 2, version 1, or both (hybrid).
//!
//! A line of `/proc/PID/cgroup` says where in a hierarchy a process is, `mountinfo` says where that is in the file
//! system. Only both together name a directory: the mount may show a part of the hierarchy only.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use procfs::prelude::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

/// Where the hierarchies of a machine are found, as `mountinfo` names them.
pub(crate) const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Its controllers, for version 1; `name=systemd` is one.
    pub(crate) controllers: Vec<String>,
    /// Where it is mounted, below the cgroup root of the machine.
    pub(crate) mount_point: PathBuf,
    /// Which part of the hierarchy is mounted; `/` for all of it.
    pub(crate) part: String,
    /// 1 or 2.
    pub(crate) version: u32,
}

/// One line of `/proc/PID/cgroup`: `ID:CONTROLLERS:PATH`.
struct Line<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl Hierarchy {
    /// Returns the path in this hierarchy that `lines`, those of `/proc/PID/cgroup`, say.
    pub(crate) fn path<'a>(&self, lines: &'a [String]) -> Option<&'a str> {
        let mut lines = lines.iter().filter_map(|line| parse(line));
        let found = lines.find(|line| match self.version {
            2 => line.controllers.is_empty(),
            _ => line.controllers.split(',').any(|name| self.has(name)),
        });
        found.map(|line| line.path)
    }

    /// Returns the directory of the process whose lines these are; none where this mount does not show it.
    pub(crate) fn directory(&self, lines: &[String]) -> Option<PathBuf> {
        let path = self.path(lines)?;
        let below = match self.part.as_str() {
            "/" => path,
            part => path
                .strip_prefix(part)
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))?,
        };
        // `/..` begins the path of a process outside our cgroup namespace.
        if below.split('/').any(|segment| segment == "..") {
            return None;
        }
        Some(self.mount_point.join(below.trim_start_matches('/')))
    }

    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// Returns the hierarchies below `cgroup`; the machine's `mountinfo` decides, and where it says nothing the
/// directories do.
pub(crate) fn find(proc: &Path, cgroup: &Path) -> Vec<Hierarchy> {
    let infos = fs::File::open(proc.join("self/mountinfo"))
        .ok()
        .and_then(|file| MountInfos::from_buf_read(BufReader::new(file)).ok());
    let mounts: Vec<Hierarchy> = infos.iter().flatten().filter_map(from_mount).collect();
    let mut below: Vec<Hierarchy> = mounts
        .iter()
        .filter(|hierarchy| hierarchy.mount_point.starts_with(cgroup))
        .cloned()
        .collect();
    if below.is_empty() {
        // Seen through another root, the mounts keep the names that they have on the machine itself.
        below = mounts
            .into_iter()
            .filter_map(|hierarchy| moved(hierarchy, cgroup))
            .collect();
    }
    if below.is_empty() {
        below = guess(cgroup);
    }
    // Of two mounts of one hierarchy take the one that shows more of it.
    below.sort_by_key(|hierarchy| hierarchy.part.len());
    below
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    Some(Line { controllers, path })
}

fn from_mount(info: &MountInfo) -> Option<Hierarchy> {
    let version = match info.fs_type.as_str() {
        "cgroup" => 1,
        "cgroup2" => 2,
        _ => return None,
    };
    let mut controllers: Vec<String> = info
        .super_options
        .iter()
        .map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.clone(),
        })
        .collect();
    controllers.sort();
    Some(Hierarchy {
        controllers,
        mount_point: info.mount_point.clone(),
        part: info.root.clone(),
        version,
    })
}

fn moved(hierarchy: Hierarchy, cgroup: &Path) -> Option<Hierarchy> {
    let below = hierarchy.mount_point.strip_prefix(CGROUP_ROOT).ok()?;
    // `join` of nothing would add a slash.
    let mount_point = if below.as_os_str().is_empty() {
        cgroup.to_owned()
    } else {
        cgroup.join(below)
    };
    Some(Hierarchy {
        mount_point,
        ..hierarchy
    })
}

fn guess(cgroup: &Path) -> Vec<Hierarchy> {
    let whole = |mount_point: PathBuf, version, controllers| Hierarchy {
        controllers,
        mount_point,
        part: "/".to_owned(),
        version,
    };
    if cgroup.join("cgroup.controllers").exists() {
        return vec![whole(cgroup.to_owned(), 2, Vec::new())];
    }
    let controllers = ["memory", "cpu", "pids"];
    let present = controllers
        .into_iter()
        .filter(|name| cgroup.join(name).is_dir());
    present
        .map(|name| whole(cgroup.join(name), 1, vec![name.to_owned()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn machine(mountinfo: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("self")).unwrap();
        fs::write(root.path().join("self/mountinfo"), mountinfo).unwrap();
        root
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_hybrid_machine_has_each_hierarchy_where_mountinfo_says() {
        let root = machine(HYBRID);
        let found = find(root.path(), Path::new("/c"));
        let of = |controller: &str| found.iter().find(|one| one.has(controller)).unwrap();
        let lines = lines("4:memory:/job/a\n1:cpu,cpuacct:/\n9:name=systemd:/user\n0::/\n");
        assert_eq!(
            of("memory").directory(&lines),
            Some("/c/memory/job/a".into())
        );
        assert_eq!(
            of("cpuacct").directory(&lines),
            Some("/c/cpu,cpuacct/".into())
        );
        assert_eq!(
            of("name=systemd").directory(&lines),
            Some("/c/systemd/user".into())
        );
        let unified = found.iter().find(|one| one.version == 2).unwrap();
        assert_eq!(unified.directory(&lines), Some("/c/unified/".into()));
    }

    #[test]
    fn a_mount_of_a_part_shows_what_is_below_it_and_nothing_else() {
        let root =
            machine("1 0 0:1 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        let found = find(root.path(), Path::new(CGROUP_ROOT));
        let directory = |line: &str| found[0].directory(&lines(line));
        let below = Some("/sys/fs/cgroup/memory/job".into());
        assert_eq!(directory("4:memory:/docker/7/job"), below);
        assert_eq!(directory("4:memory:/docker/77"), None);
        assert_eq!(directory("4:memory:/docker/7/../8"), None);
    }

    #[test]
    fn without_mountinfo_the_directories_decide() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "").unwrap();
        let found = find(Path::new("/nowhere"), root.path());
        assert_eq!(found.len(), 1);
        let job = found[0].directory(&lines("0::/job"));
        assert_eq!(job, Some(root.path().join("job")));
    }
}
