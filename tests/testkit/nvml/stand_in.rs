//! A stand-in for `libnvidia-ml.so.1`: two GPUs with fixed answers, and the words in the file `behaviour` beside the
//! library say what it does wrong. `NvmlStandIn` builds it with rustc; it is part of no crate.

#![expect(non_snake_case, reason = "the names are those of the library")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fs;
use std::ptr;
use std::thread::sleep;
use std::time::Duration;

const SUCCESS: c_uint = 0;
const NOT_SUPPORTED: c_uint = 3;
const INSUFFICIENT_SIZE: c_uint = 7;
const GPU_IS_LOST: c_uint = 15;
const LIB_RM_VERSION_MISMATCH: c_uint = 18;

const GIB: c_ulonglong = 1 << 30;

/// What it does wrong now.
fn does(word: &str) -> bool {
    let here = does as *const c_void as usize;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_here = (number(start)?..number(end)?).contains(&here);
        is_here.then(|| rest[rest.find('/').unwrap()..].to_owned())
    });
    let folder = library.unwrap().rsplit_once('/').unwrap().0.to_owned();
    let behaviour = fs::read_to_string(folder + "/behaviour").unwrap_or_default();
    behaviour.split_whitespace().any(|one| one == word)
}

fn hang_while_told(word: &str) {
    while does(word) {
        sleep(Duration::from_millis(5));
    }
}

unsafe fn text(to: *mut c_char, value: &[u8]) -> c_uint {
    unsafe { ptr::copy_nonoverlapping(value.as_ptr().cast(), to, value.len()) };
    SUCCESS
}

/// A handle is the number of its GPU, from 1.
fn index(device: *mut c_void) -> usize {
    device as usize - 1
}

fn is_lost(device: *mut c_void) -> bool {
    index(device) == 1 && does("lost")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    hang_while_told("hang-init");
    if does("abort") {
        std::process::abort();
    }
    if does("mismatch") {
        return LIB_RM_VERSION_MISMATCH;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, _: c_uint) -> c_uint {
    unsafe { text(version, b"550.54.15\0") }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_uint {
    unsafe { *count = 2 };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: *mut *mut c_void,
) -> c_uint {
    unsafe { *device = (index as usize + 1) as *mut c_void };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: *mut c_void,
    name: *mut c_char,
    _: c_uint,
) -> c_uint {
    if is_lost(device) {
        return GPU_IS_LOST;
    }
    let value: &[u8] = if does("garbage") {
        b"\xff\xfeH100\0"
    } else {
        b"NVIDIA H100\0"
    };
    unsafe { text(name, value) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: *mut c_void,
    uuid: *mut c_char,
    _: c_uint,
) -> c_uint {
    if is_lost(device) {
        return GPU_IS_LOST;
    }
    let values: [&[u8]; 2] = [b"GPU-aaaa\0", b"GPU-bbbb\0"];
    unsafe { text(uuid, values[index(device)]) }
}

#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    numbers: [c_uint; 5],
    bus_id: [c_char; 32],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: *mut c_void, pci: *mut PciInfo) -> c_uint {
    if is_lost(device) {
        return GPU_IS_LOST;
    }
    let values: [&[u8]; 2] = [b"00000000:17:00.0\0", b"00000000:65:00.0\0"];
    unsafe { text((&raw mut (*pci).bus_id).cast(), values[index(device)]) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: *mut c_void,
    rates: *mut [c_uint; 2],
) -> c_uint {
    if is_lost(device) {
        return GPU_IS_LOST;
    }
    if index(device) == 1 {
        hang_while_told("hang-utilization");
    }
    let garbage = does("garbage");
    unsafe {
        *rates = if garbage {
            [4_000_000_000, 3]
        } else {
            [97, 41]
        }
    };
    SUCCESS
}

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: *mut c_void,
    memory: *mut Memory,
) -> c_uint {
    if is_lost(device) {
        return GPU_IS_LOST;
    }
    let memory = unsafe { &mut *memory };
    memory.total = 80 * GIB;
    memory.reserved = GIB;
    memory.free = 9 * GIB;
    memory.used = if does("garbage") {
        c_ulonglong::MAX
    } else {
        70 * GIB
    };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: *mut c_void,
    _: c_uint,
    degrees: *mut c_uint,
) -> c_uint {
    if is_lost(device) {
        return GPU_IS_LOST;
    }
    unsafe { *degrees = 64 };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(
    device: *mut c_void,
    milliwatts: *mut c_uint,
) -> c_uint {
    if index(device) == 1 {
        return NOT_SUPPORTED;
    }
    unsafe { *milliwatts = 612_345 };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPerformanceState(
    _: *mut c_void,
    state: *mut c_uint,
) -> c_uint {
    // 32 is "unknown", 77 is nothing at all.
    unsafe { *state = if does("garbage") { 77 } else { 0 } };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: *mut c_void,
    reasons: *mut c_ulonglong,
) -> c_uint {
    // The software's power cap and hardware's heat; of the other GPU none.
    unsafe { *reasons = if index(device) == 0 { 0x44 } else { 0 } };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: *mut c_void,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_uint {
    if index(device) == 1 {
        return NOT_SUPPORTED;
    }
    unsafe { (*current, *pending) = (0, 0) };
    SUCCESS
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    instances: [c_int; 2],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: *mut c_void,
    count: *mut c_uint,
    processes: *mut Process,
) -> c_uint {
    let all = [(4242, 2 * GIB), (4243, 66 * GIB), (4244, c_ulonglong::MAX)];
    let all = if index(device) == 0 { &all[..] } else { &[] };
    let room = unsafe { *count } as usize;
    unsafe { *count = all.len() as c_uint };
    if room < all.len() {
        return INSUFFICIENT_SIZE;
    }
    for (at, &(pid, used)) in all.iter().enumerate() {
        let instances = [-1, -1];
        let process = Process {
            pid,
            used,
            instances,
        };
        unsafe { processes.add(at).write(process) };
    }
    SUCCESS
}

// There is no `nvmlDeviceGetGraphicsRunningProcesses_v3`, as in the library of an old driver.
