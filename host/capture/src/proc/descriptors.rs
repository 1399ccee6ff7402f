//! `/proc/PID/fd` and `/proc/PID/fdinfo`: what a process holds open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::{Detail, FileDescriptor, Gap, GapCode};
use rustix::io::Errno;

use super::kind::Kind;
use super::reader::{open_directory, read_link};
use super::{Reader, key_value};
use crate::gaps::GapList;

/// More descriptors than this are counted, but not read.
const LIMIT: usize = 4096;

/// Returns the descriptors of the process in `directory`, by number.
pub(crate) fn read(
    reader: &mut Reader,
    directory: BorrowedFd<'_>,
    kind: Kind,
    detail: Detail,
    gaps: &mut GapList,
) -> Vec<FileDescriptor> {
    let listed = reader.numbers(directory, &kind.path("fd"));
    let Some((links, numbers)) = gaps.keep("fd", listed) else {
        return Vec::new();
    };
    if let Some(beyond) = numbers.len().checked_sub(LIMIT + 1) {
        let detail = format!("{} are open; the first {LIMIT} were read", numbers.len());
        let mut gap = Gap::new("fd", GapCode::Truncated).with_detail(detail);
        gap.count = u32::try_from(beyond + 1).unwrap_or(u32::MAX);
        gaps.add(gap);
    }
    let infos = (detail < Detail::WithoutConnections)
        .then(|| gaps.keep("fdinfo", open_directory(directory, &kind.path("fdinfo"))))
        .flatten();
    let mut descriptors = Vec::with_capacity(numbers.len().min(LIMIT));
    for number in numbers.into_iter().take(LIMIT) {
        let fd = number.to_string();
        let target = match read_link(links.as_fd(), &fd) {
            Ok(target) => target.to_string_lossy().into_owned(),
            // Closed since it was listed: it is no longer open, so nothing is missing.
            Err(error) if is_missing(&error) => continue,
            Err(error) => {
                gaps.note("fd", &error);
                continue;
            }
        };
        let info = infos.as_ref().and_then(|infos| {
            let content = reader.read_record(infos.as_fd(), &fd);
            gaps.keep("fdinfo", content).map(key_value::parse)
        });
        descriptors.push(FileDescriptor { fd, info, target });
    }
    descriptors
}

fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOENT.raw_os_error())
}
