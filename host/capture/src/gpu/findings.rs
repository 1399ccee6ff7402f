//! What is wrong with the GPUs, by what a snapshot holds of them.

use std::time::Duration;

use model::{Evidence, Finding, Gpu, GpuTrouble, Severity, Snapshot, Target, Timestamp};

/// A driver that is silent for longer does not just take its time to start.
const STARTING: Duration = Duration::from_secs(10);

/// Returns our findings.
pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let machine = &snapshot.machine;
    let silent = machine.gpu_silent_since;
    let silent = silent.map(|since| silence(since, snapshot.capture.started_at));
    let gpus = machine.gpus.iter().enumerate();
    let in_trouble = gpus.filter_map(|(at, gpu)| Some(trouble(at, gpu, gpu.trouble?)));
    silent.into_iter().chain(in_trouble).collect()
}

fn silence(since: Timestamp, now: Timestamp) -> Finding {
    let severity = if now.since(since) < STARTING {
        Severity::Warning
    } else {
        Severity::Error
    };
    finding(
        "gpu-unresponsive",
        format!(
            "the GPU driver has not answered since {} UTC",
            since.human()
        ),
        severity,
        "/machine/gpu_silent_since".to_owned(),
        format!("\"{since}\""),
    )
}

fn trouble(at: usize, gpu: &Gpu, trouble: GpuTrouble) -> Finding {
    let (kind, words, value) = match trouble {
        GpuTrouble::Lost => (
            "gpu-lost",
            "is lost: it fell off the bus or cannot be reached",
            "\"lost\"",
        ),
        GpuTrouble::ResetRequired => (
            "gpu-needs-reset",
            "needs a reset before it works again",
            "\"reset_required\"",
        ),
    };
    let named: Vec<&str> = [&gpu.name, &gpu.pci_bus_id]
        .into_iter()
        .filter_map(|name| name.as_deref())
        .collect();
    let named = match named.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    finding(
        kind,
        format!("GPU {}{named} {words}", gpu.index),
        Severity::Error,
        format!("/machine/gpus/{at}/trouble"),
        value.to_owned(),
    )
}

fn finding(
    kind: &str,
    message: String,
    severity: Severity,
    pointer: String,
    value: String,
) -> Finding {
    Finding {
        evidence: vec![Evidence { pointer, value }],
        kind: kind.to_owned(),
        message,
        plugin: None,
        severity,
        target: Target::Snapshot,
    }
}
