//! `/proc/PID/ns`: the namespaces of a process, as the inode numbers in the texts of its links.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::NamespaceSet;
use rustix::io::Errno;

use super::reader::{open_directory, read_link};

/// Returns the namespaces by the links in `path`, below the `directory` of the process; `ours` is false.
pub(crate) fn read(directory: BorrowedFd<'_>, path: &str) -> io::Result<NamespaceSet> {
    let links = open_directory(directory, path)?;
    let number = |name: &str| match read_link(links.as_fd(), name) {
        Ok(target) => Ok(inode(&target.to_string_lossy(), name)),
        // This kernel has no such namespace, or the process ends.
        Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    };
    Ok(NamespaceSet {
        cgroup: number("cgroup")?,
        ipc: number("ipc")?,
        mnt: number("mnt")?,
        net: number("net")?,
        ours: false,
        pid: number("pid")?,
        user: number("user")?,
        uts: number("uts")?,
    })
}

/// Returns the number of a text such as `net:[4026531840]`.
fn inode(target: &str, name: &str) -> Option<u64> {
    let rest = target.strip_prefix(name)?.strip_prefix(":[")?;
    rest.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_the_kind_and_the_inode() {
        assert_eq!(inode("net:[4026531840]", "net"), Some(4_026_531_840));
        for odd in ["", "net", "net:[]", "net:[x]", "mnt:[1]", "net:[1"] {
            assert_eq!(inode(odd, "net"), None, "{odd}");
        }
    }

    #[test]
    fn our_own_are_known() {
        let ours = std::fs::File::open("/proc/self").unwrap();
        let set = read(ours.as_fd(), "ns").unwrap();
        assert!(set.mnt.is_some() && set.pid.is_some() && set.net.is_some());
    }
}
