//! Secrets in the paths of a snapshot: programs, open files, what a call waits for, sockets, locks, file systems.
//!
//! They are replaced last, because what belongs together is found by its path. Files of Python frames are code, and stay.

use model::{ProcessId, Snapshot};

use super::{Redactor, record};

impl Redactor<'_> {
    /// Redacts the paths of `snapshot` in place. What was replaced is noted with the process whose path it is: for what
    /// several have, the first; for a file system, the main process.
    pub(crate) fn paths(&self, snapshot: &mut Snapshot) {
        for process in &mut snapshot.processes {
            let facts = &mut process.proc;
            let mut texts = Vec::new();
            texts.extend(process.exe.iter_mut().map(|exe| ("exe".to_owned(), exe)));
            texts.extend(facts.file_descriptors.iter_mut().map(|descriptor| {
                let place = format!("proc/file_descriptors/{}", descriptor.fd);
                (place, &mut descriptor.target)
            }));
            for thread in &mut facts.threads {
                let place = format!("proc/threads/{}", thread.tid);
                let call = thread.call.iter_mut();
                let paths = call.flat_map(|call| call.fd_target.iter_mut().chain(&mut call.path));
                texts.extend(paths.map(|path| (place.clone(), path)));
            }
            for (place, text) in texts {
                let found = self.path(text);
                record(&mut process.redactions, &place, found);
            }
        }
        self.shared_paths(snapshot);
    }

    fn shared_paths(&self, snapshot: &mut Snapshot) {
        let ipc = &mut snapshot.ipc;
        let mut texts: Vec<(Option<ProcessId>, &str, &mut String)> = Vec::new();
        for endpoint in &mut ipc.endpoints {
            let owner = endpoint.owners.first().map(|owner| owner.identity);
            texts.push((owner, "ipc/endpoints", &mut endpoint.target));
            let paths = endpoint.unix.iter_mut().filter_map(|it| it.path.as_mut());
            texts.extend(paths.map(|path| (owner, "ipc/endpoints", path)));
        }
        for lock in &mut ipc.locks {
            let owner = lock.owners.first().map(|owner| owner.identity);
            let holder = lock.holder.or(owner);
            texts.extend(lock.path.iter_mut().map(|path| (holder, "ipc/locks", path)));
        }
        for file in &mut ipc.shared_memory {
            let owner = file.owners.first().map(|owner| owner.identity);
            texts.push((owner, "ipc/shared_memory", &mut file.name));
        }
        let root = snapshot.scope.as_ref().map(|scope| scope.root);
        for mount in &mut snapshot.filesystem.mounts {
            texts.push((root, "filesystem/mounts", &mut mount.path));
            let points = mount.mount_point.iter_mut();
            texts.extend(points.map(|point| (root, "filesystem/mounts", point)));
        }
        for (owner, place, text) in texts {
            let found = self.path(text);
            let mut processes = snapshot.processes.iter_mut();
            if let Some(process) = processes.find(|process| Some(process.identity) == owner) {
                record(&mut process.redactions, place, found);
            }
        }
    }

    /// What has no `/` is no path but the kernel's own name, such as `socket:[4711]`, and there are many.
    fn path(&self, text: &mut String) -> Vec<String> {
        let mut found = Vec::new();
        if text.contains('/') {
            self.text(text, &mut found);
        }
        found
    }
}
