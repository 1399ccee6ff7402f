//! Files in memory that processes hold or map: memfds and `/dev/shm`.

use std::collections::BTreeMap;

use model::{Process, SharedFile, SharedMapping, SysvKind};

use super::descriptor;
use super::survey::Survey;
use super::sysv::Users;

/// Returns the files in memory, by name, and who maps System V segments.
pub(super) fn read(processes: &[Process], survey: &Survey) -> (Vec<SharedFile>, Users) {
    let mut files = BTreeMap::<(String, Option<u64>), SharedFile>::new();
    let mut users = Users::new();
    for process in processes {
        let descriptors = process.proc.file_descriptors.iter();
        for descriptor in descriptors.filter(|one| descriptor::is_shared_file(&one.target)) {
            let known = survey.file(process.identity, &descriptor.fd);
            let inode = known.map(|known| known.inode);
            let inode = inode.or_else(|| descriptor::number(descriptor, "ino"));
            let file = files.entry((descriptor.target.clone(), inode)).or_default();
            file.size_bytes = file.size_bytes.or(known.map(|known| known.size_bytes));
            let owner = descriptor::owner(process, descriptor, None);
            file.owners.push(owner);
        }
        for mapping in survey.mappings.get(&process.identity).into_iter().flatten() {
            if mapping.name.starts_with("/SYSV") {
                if let Ok(id) = i64::try_from(mapping.inode) {
                    let segment = (SysvKind::SharedMemory, id);
                    users.entry(segment).or_default().insert(process.identity);
                }
                continue;
            }
            let key = (mapping.name.clone(), Some(mapping.inode));
            files.entry(key).or_default().mapped.push(SharedMapping {
                bytes: mapping.bytes,
                identity: process.identity,
            });
        }
    }
    let files = files.into_iter().map(|((name, inode), file)| SharedFile {
        inode,
        name,
        ..file
    });
    (files.collect(), users)
}
