//! What NVML says of each GPU; runs in the helper, where it may hang or crash.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use model::{Gap, GapCode, Gpu, GpuProcess, GpuProcessKind, GpuTrouble};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::device::Device;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::in_order;
use super::wire::Part;
use crate::rights::{GPU_LIBRARY, GPU_VERSIONS};

/// Where drivers put the library: a name that the loader looks up, then the places of systems that do not tell the loader
/// (GKE, NixOS).
const LIBRARIES: [&str; 3] = [
    "libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];

/// The library, loaded and at work where it could be.
#[derive(Debug, Default)]
pub(super) struct Library(Option<Nvml>);

type Tell<'a> = dyn FnMut(Part) -> io::Result<()> + 'a;

impl Library {
    /// Tells all that NVML says. Errors: `tell` failed.
    pub(super) fn look(&mut self, path: Option<&Path>, tell: &mut Tell<'_>) -> io::Result<()> {
        tell(Part::Asking("the driver".to_owned()))?;
        // It stays loaded: where nobody else uses the GPUs, each first use makes the driver start them anew.
        let nvml = match self.0.take().map_or_else(|| load(path), Ok) {
            Ok(nvml) => self.0.insert(nvml),
            Err(error) => return tell(Part::Gap(of_all(&error))),
        };
        if let Ok(version) = nvml.sys_driver_version() {
            tell(Part::Driver(version))?;
        }
        let count = match nvml.device_count() {
            Ok(count) => count,
            Err(error) => {
                self.0 = None;
                return tell(Part::Gap(of_all(&error)));
            }
        };
        let mut is_in_trouble = false;
        for index in 0..count {
            tell(Part::Asking(format!("GPU {index}")))?;
            let (gpu, gaps) = read(nvml, index);
            is_in_trouble |= gpu.trouble.is_some();
            for gap in gaps {
                tell(Part::Gap(gap))?;
            }
            tell(Part::Gpu(Box::new(gpu)))?;
        }
        if is_in_trouble {
            // What was reset or came back is seen only by who begins anew.
            tell(Part::Asking("the driver".to_owned()))?;
            self.0 = None;
        }
        Ok(())
    }
}

fn load(path: Option<&Path>) -> Result<Nvml, NvmlError> {
    let names: Vec<OsString> = match path {
        Some(path) => vec![path.into()],
        None => LIBRARIES.map(OsString::from).to_vec(),
    };
    let mut first = None;
    for name in names {
        match Nvml::builder().lib_path(OsStr::new(&name)).init() {
            Err(error @ NvmlError::LibloadingError(_)) => first = first.or(Some(error)),
            loaded => return loaded,
        }
    }
    Err(first.unwrap_or(NvmlError::LibraryNotFound))
}

/// The gap of all GPUs.
fn of_all(error: &NvmlError) -> Gap {
    let gap = Gap::new("gpus", code(error)).with_detail(error.to_string());
    match error {
        NvmlError::LibraryNotFound
        | NvmlError::LibloadingError(_)
        | NvmlError::DriverNotLoaded
        | NvmlError::NoPermission
        | NvmlError::OperatingSystem => gap.with_remedy(GPU_LIBRARY.sentence),
        NvmlError::LibRmVersionMismatch => gap.with_remedy(GPU_VERSIONS.sentence),
        _ => gap,
    }
}

fn code(error: &NvmlError) -> GapCode {
    match error {
        NvmlError::LibraryNotFound | NvmlError::LibloadingError(_) => GapCode::NoReader,
        NvmlError::NoPermission | NvmlError::OperatingSystem => GapCode::Denied,
        NvmlError::DriverNotLoaded
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::FunctionNotFound => GapCode::Unsupported,
        NvmlError::Utf8Error(_) | NvmlError::UnexpectedVariant(_) => GapCode::Malformed,
        NvmlError::InsufficientSize(_) => GapCode::Truncated,
        _ => GapCode::Failed,
    }
}

/// What one GPU did not tell.
#[derive(Default)]
struct Notes {
    gaps: Vec<Gap>,
    trouble: Option<GpuTrouble>,
}

impl Notes {
    /// Returns the value, or notes why there is none. What the device does not support it does not have.
    fn keep<T>(&mut self, what: &str, value: Result<T, NvmlError>) -> Option<T> {
        let error = match value {
            Ok(value) => return Some(value),
            Err(NvmlError::NotSupported) => return None,
            Err(error) => error,
        };
        match error {
            NvmlError::GpuLost => self.trouble = Some(GpuTrouble::Lost),
            NvmlError::ResetRequired => self.trouble = Some(GpuTrouble::ResetRequired),
            error => self.note(what, code(&error), error.to_string()),
        }
        None
    }

    fn note(&mut self, what: &str, code: GapCode, detail: impl Into<String>) {
        let what = format!("gpus/{what}");
        self.gaps.push(Gap::new(what, code).with_detail(detail));
    }

    fn keep_percent(&mut self, value: u32) -> Option<u32> {
        if value <= 100 {
            return Some(value);
        }
        let detail = format!("{value} is no share in percent");
        self.note("utilization", GapCode::Malformed, detail);
        None
    }
}

fn read(nvml: &Nvml, index: u32) -> (Gpu, Vec<Gap>) {
    let mut notes = Notes::default();
    let mut gpu = Gpu {
        index,
        ..Gpu::default()
    };
    if let Some(device) = notes.keep("device", nvml.device_by_index(index)) {
        describe(&mut gpu, &device, &mut notes);
        measure(&mut gpu, &device, &mut notes);
        let compute = notes.keep("processes", device.running_compute_processes());
        let graphics = notes.keep("processes", device.running_graphics_processes());
        let compute = compute.into_iter().flatten();
        let graphics = graphics.into_iter().flatten();
        gpu.processes = compute
            .map(|one| process(&one, GpuProcessKind::Compute))
            .chain(graphics.map(|one| process(&one, GpuProcessKind::Graphics)))
            .collect();
        in_order(&mut gpu.processes);
    }
    gpu.trouble = notes.trouble;
    if let Some(trouble) = notes.trouble {
        let words = match trouble {
            GpuTrouble::Lost => NvmlError::GpuLost,
            GpuTrouble::ResetRequired => NvmlError::ResetRequired,
        };
        let detail = format!("GPU {index}: {words}");
        let gap = Gap::new("gpus", GapCode::Failed).with_detail(detail);
        notes.gaps.push(gap);
    }
    (gpu, notes.gaps)
}

fn describe(gpu: &mut Gpu, device: &Device<'_>, notes: &mut Notes) {
    gpu.name = notes.keep("name", device.name());
    gpu.uuid = notes.keep("uuid", device.uuid());
    let pci = notes.keep("pci_bus_id", device.pci_info());
    gpu.pci_bus_id = pci.map(|pci| pci.bus_id);
    let mig = notes.keep("mig", device.mig_mode());
    gpu.is_mig_enabled = mig.map(|mode| mode.current == 1);
}

fn measure(gpu: &mut Gpu, device: &Device<'_>, notes: &mut Notes) {
    if let Some(utilization) = notes.keep("utilization", device.utilization_rates()) {
        gpu.utilization_percent = notes.keep_percent(utilization.gpu);
        gpu.memory_utilization_percent = notes.keep_percent(utilization.memory);
    }
    if let Some(memory) = notes.keep("memory", device.memory_info()) {
        if memory.used <= memory.total && memory.free <= memory.total {
            gpu.memory_free_bytes = Some(memory.free);
            gpu.memory_reserved_bytes = Some(memory.reserved);
            gpu.memory_total_bytes = Some(memory.total);
            gpu.memory_used_bytes = Some(memory.used);
        } else {
            let detail = "more is used or free than there is";
            notes.note("memory", GapCode::Malformed, detail);
        }
    }
    let temperature = device.temperature(TemperatureSensor::Gpu);
    gpu.temperature_celsius = notes.keep("temperature", temperature);
    gpu.power_milliwatts = notes.keep("power", device.power_usage());
    let state = notes.keep("performance_state", device.performance_state());
    // 32 stands for an unknown one.
    gpu.performance_state = state.map(|state| state.as_c()).filter(|&state| state <= 15);
    let reasons = notes.keep("throttle_reasons", device.current_throttle_reasons());
    gpu.throttle_reasons = reasons.map(words).unwrap_or_default();
}

fn words(reasons: ThrottleReasons) -> Vec<String> {
    let names = reasons.iter_names();
    names.map(|(name, _)| name.to_lowercase()).collect()
}

fn process(process: &ProcessInfo, kind: GpuProcessKind) -> GpuProcess {
    GpuProcess {
        identity: None,
        kind,
        memory_used_bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
        pid: process.pid,
    }
}
