//! Collects the gaps of one process, or of the machine: alike ones become one with a count.

use std::io;

use model::{Gap, GapCode, ProcessId};

use crate::error::gap_code;
use crate::rights::{SAME_USER, SYS_ADMIN};

/// Files that a kernel may be built without. What a process loses while it ends, before it is a zombie (`exe`,
/// `environ`, `fd`), is not among them.
const CONFIGURABLE: [&str; 4] = ["cgroup", "io", "limits", "smaps_rollup"];

/// Gaps of one process, or of the machine where there is no process.
#[derive(Debug)]
pub(crate) struct GapList {
    process: Option<ProcessId>,
    gaps: Vec<Gap>,
}

impl GapList {
    pub(crate) fn of(process: ProcessId) -> Self {
        Self {
            process: Some(process),
            gaps: Vec::new(),
        }
    }

    pub(crate) fn of_machine() -> Self {
        Self {
            process: None,
            gaps: Vec::new(),
        }
    }

    /// Notes that reading `what` ended in `error`.
    pub(crate) fn note(&mut self, what: &str, error: &io::Error) {
        let code = gap_code(error);
        let mut gap = Gap::new(what, code);
        if code == GapCode::Failed {
            gap = gap.with_detail(error.to_string());
        }
        self.add(gap);
    }

    /// Returns the value of `result`; notes its error under `what`.
    pub(crate) fn keep<T>(&mut self, what: &str, result: io::Result<T>) -> Option<T> {
        result.map_err(|error| self.note(what, &error)).ok()
    }

    /// Adds `gap`, or its count to the gap of the same thing, code and detail.
    pub(crate) fn add(&mut self, mut gap: Gap) {
        gap.process = self.process;
        let alike = self.gaps.iter_mut().find(|known| {
            known.what == gap.what && known.code == gap.code && known.detail == gap.detail
        });
        match alike {
            Some(known) => known.count = known.count.saturating_add(gap.count),
            None => self.gaps.push(gap),
        }
    }

    /// Returns the gaps as they are now.
    pub(crate) fn as_slice(&self) -> &[Gap] {
        &self.gaps
    }

    /// Drops the gaps of `what`, which was found elsewhere.
    pub(crate) fn forget(&mut self, what: &str) {
        self.gaps.retain(|gap| gap.what != what);
    }

    /// Makes one gap with `code` and `detail` of all gaps with one of `codes`, and of `more`; of nothing, the whole
    /// `process`.
    pub(crate) fn collapse(
        &mut self,
        codes: &[GapCode],
        more: &[&str],
        code: GapCode,
        detail: &str,
    ) {
        let mut names: Vec<String> = more.iter().map(|&name| name.to_owned()).collect();
        self.gaps.retain(|gap| {
            let collapses = codes.contains(&gap.code);
            if collapses {
                names.push(gap.what.clone());
            }
            !collapses
        });
        names.sort();
        names.dedup();
        let what = if names.is_empty() {
            "process".to_owned()
        } else {
            names.join(",")
        };
        self.add(Gap::new(what, code).with_detail(detail));
    }

    /// Turns a missing file of a process that lives into one that this kernel does not have. A file of `threads`
    /// threads is missing in the kernel only when it is missing in each of them.
    pub(crate) fn settle_missing_files(&mut self, threads: usize) {
        for gap in &mut self.gaps {
            let of_all_threads = gap.what.starts_with("task/*/") && gap.count as usize >= threads;
            let of_process = CONFIGURABLE.contains(&gap.what.as_str());
            if gap.code == GapCode::Vanished && (of_process || of_all_threads) {
                gap.code = GapCode::Unsupported;
            }
        }
    }

    /// Returns the gaps in order; each remedy is said once.
    pub(crate) fn finish(mut self) -> Vec<Gap> {
        let mut said: Vec<&str> = Vec::new();
        for gap in &mut self.gaps {
            let Some(remedy) = remedy(gap) else { continue };
            if !said.contains(&remedy) {
                said.push(remedy);
                gap.remedy = Some(remedy.to_owned());
            }
        }
        self.gaps
    }
}

fn remedy(gap: &Gap) -> Option<&'static str> {
    if gap.code != GapCode::Denied || gap.process.is_none() || gap.remedy.is_some() {
        return None;
    }
    Some(if gap.what.ends_with("stack") {
        SYS_ADMIN.sentence
    } else {
        SAME_USER.sentence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ProcessId {
        ProcessId {
            pid: 7,
            start_time_ticks: 9,
        }
    }

    fn denied() -> io::Error {
        io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error())
    }

    #[test]
    fn alike_gaps_are_one_with_a_count_and_each_remedy_is_said_once() {
        let mut gaps = GapList::of(id());
        for what in ["environ", "io", "task/*/stack", "task/*/stack"] {
            gaps.note(what, &denied());
        }
        let gaps = gaps.finish();
        let seen: Vec<_> = gaps
            .iter()
            .map(|gap| (gap.what.as_str(), gap.count, gap.remedy.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("environ", 1, Some(SAME_USER.sentence)),
                ("io", 1, None),
                ("task/*/stack", 2, Some(SYS_ADMIN.sentence))
            ]
        );
        assert!(gaps.iter().all(|gap| gap.process == Some(id())));
    }

    #[test]
    fn what_a_gone_process_lost_is_one_gap() {
        let mut gaps = GapList::of(id());
        gaps.add(Gap::new("io", GapCode::Vanished));
        gaps.add(Gap::new("fd", GapCode::Vanished));
        gaps.add(Gap::new("environ", GapCode::Denied));
        gaps.collapse(&[GapCode::Vanished], &[], GapCode::Vanished, "it ended");
        let gaps = gaps.finish();
        assert_eq!(gaps.len(), 2);
        assert_eq!(gaps[1].what, "fd,io");
        assert_eq!(gaps[1].detail.as_deref(), Some("it ended"));
    }

    #[test]
    fn a_file_that_a_living_process_lacks_is_one_that_the_kernel_lacks() {
        let mut gaps = GapList::of(id());
        gaps.add(Gap::new("io", GapCode::Vanished));
        gaps.add(Gap::new("task/*/wchan", GapCode::Vanished));
        gaps.settle_missing_files(2);
        let codes: Vec<_> = gaps.finish().iter().map(|gap| gap.code).collect();
        assert_eq!(codes, [GapCode::Unsupported, GapCode::Vanished]);
    }
}
