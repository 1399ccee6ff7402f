//! What a capture leaves out to stay within the budget: one gap for each kind of thing, whatever the number of processes.

use model::{Detail, Gap, GapCode};

use crate::capture::Options;
use crate::gaps::GapList;
use crate::image::Image;
use crate::python::Python;

const REASON: &str = "left out to stay within the budget of CPU time, `[capture] budget`";
const REMEDY: &str =
    "raise `[capture] budget` in collector.toml, or give `--interval`: then cost is only reported";

/// Begins the list of gaps that belong to no process with what is left out at `detail`. What the settings have switched off
/// and what no process of `images` has is not left out.
pub(crate) fn gaps(detail: Detail, options: &Options, images: &[Image]) -> GapList {
    let kinds = [
        (
            Detail::WithoutSharedMemory,
            "smaps_rollup",
            options.shared_memory.is_some(),
        ),
        (Detail::WithoutThreadDetail, "task/*/stack", true),
        (Detail::WithoutConnections, "fdinfo", true),
        (Detail::WithoutConnections, "ipc", true),
        (
            Detail::WithoutPythonStacks,
            "python_stack",
            images.iter().any(|image| image.python() != Python::No),
        ),
    ];
    let mut gaps = GapList::of_machine();
    for (level, what, exists) in kinds {
        if detail >= level && exists {
            let gap = Gap::new(what, GapCode::Skipped).with_detail(REASON);
            gaps.add(gap.with_remedy(REMEDY));
        }
    }
    gaps
}
