//! The helper asks a stand-in for the driver's library, which each test makes do something else.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use helper::{OwnProcess, Register};
use model::{Gap, GapCode, GpuProcessKind, GpuTrouble, Timestamp};
use testkit::{DEADLINE, NvmlStandIn, process_exists, wait_until};

use super::asker::{Asker, Patience};
use super::wire::{PROTOCOL, Part, Question};
use super::{GpuLook, GpuSettings};
use crate::helper::frame::{self, Hello};
use crate::rights::{GPU_LIBRARY, GPU_VERSIONS};

const GIB: u64 = 1 << 30;

/// Long enough for any answer that comes at all, on a loaded machine.
const PATIENT: Patience = Patience {
    answer: DEADLINE,
    late: DEADLINE,
    question: DEADLINE,
};

/// For questions that get no answer: they are not waited for.
const QUICK: Patience = Patience {
    answer: Duration::from_millis(300),
    late: Duration::from_millis(20),
    question: DEADLINE,
};

/// Where cargo puts what it builds.
fn built_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_owned()
}

/// A driver, and who asks it.
struct Asked {
    asker: Asker,
    driver: NvmlStandIn,
    register: Register,
}

impl Asked {
    fn of(behaviour: &str, patience: Patience) -> Self {
        let driver = NvmlStandIn::new(behaviour);
        let register = Register::default();
        let mut asker = Asker::new(settings(&driver), register.clone());
        asker.patience = patience;
        Self {
            asker,
            driver,
            register,
        }
    }

    fn look(&mut self, second: i64) -> GpuLook {
        self.asker.look(at(second))
    }
}

pub(crate) fn settings(driver: &NvmlStandIn) -> GpuSettings {
    let helper = built_folder().join("examples/gpu_helper");
    let words = "is missing: run `cargo test -p taskscope-capture` without `--lib`";
    assert!(helper.exists(), "{} {words}", helper.display());
    GpuSettings {
        helper,
        arguments: Vec::new(),
        library: Some(driver.library()),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_microseconds(second * 1_000_000).unwrap()
}

fn codes(gaps: &[Gap]) -> Vec<(&str, GapCode)> {
    gaps.iter()
        .map(|gap| (gap.what.as_str(), gap.code))
        .collect()
}

fn detail(look: &GpuLook) -> &str {
    look.gaps[0].detail.as_deref().unwrap()
}

/// The library has no function for those that draw.
const NO_DRAWING: (&str, GapCode) = ("gpus/processes", GapCode::Unsupported);

#[test]
fn two_gpus_tell_all_they_have() {
    let mut asked = Asked::of("", PATIENT);
    let look = asked.look(1);
    assert_eq!(codes(&look.gaps), [NO_DRAWING, NO_DRAWING]);
    assert_eq!(look.driver.as_deref(), Some("550.54.15"));
    assert_eq!(look.silent_since, None);
    let [first, second] = look.gpus.as_slice() else {
        panic!("{look:?}")
    };
    assert_eq!((first.index, second.index), (0, 1));
    assert_eq!(first.name.as_deref(), Some("NVIDIA H100"));
    assert_eq!(second.uuid.as_deref(), Some("GPU-bbbb"));
    assert_eq!(second.pci_bus_id.as_deref(), Some("00000000:65:00.0"));
    assert_eq!(first.utilization_percent, Some(97));
    assert_eq!(first.memory_utilization_percent, Some(41));
    assert_eq!(first.memory_total_bytes, Some(80 * GIB));
    assert_eq!(first.memory_used_bytes, Some(70 * GIB));
    assert_eq!(first.memory_free_bytes, Some(9 * GIB));
    assert_eq!(first.memory_reserved_bytes, Some(GIB));
    assert_eq!(first.temperature_celsius, Some(64));
    assert_eq!(first.performance_state, Some(0));
    assert_eq!(
        first.throttle_reasons,
        ["sw_power_cap", "hw_thermal_slowdown"]
    );
    assert_eq!(second.throttle_reasons, [""; 0]);
    // What a GPU does not support it does not have.
    assert_eq!(
        (first.power_milliwatts, second.power_milliwatts),
        (Some(612_345), None)
    );
    assert_eq!(
        (first.is_mig_enabled, second.is_mig_enabled),
        (Some(false), None)
    );
    let processes = first.processes.iter();
    let processes: Vec<_> = processes
        .map(|one| (one.pid, one.memory_used_bytes, one.kind))
        .collect();
    let computes = GpuProcessKind::Compute;
    assert_eq!(
        processes,
        [
            (4243, Some(66 * GIB), computes),
            (4242, Some(2 * GIB), computes),
            (4244, None, computes)
        ]
    );
    assert_eq!(second.processes, []);
}

#[test]
fn one_helper_asks_each_time_and_ends_with_who_started_it() {
    let mut asked = Asked::of("", PATIENT);
    asked.look(1);
    let helpers = asked.register.pids();
    assert_eq!(asked.look(2).gpus.len(), 2);
    assert_eq!(asked.register.pids(), helpers);
    asked.asker.close();
    assert_eq!(asked.register.pids(), [0; 0]);
    assert!(!process_exists(helpers[0]));
}

#[test]
fn a_driver_that_hangs_from_the_start_is_silent_since_the_first_question_until_it_answers() {
    let mut asked = Asked::of("hang-init", QUICK);
    // The helper may be slow to start.
    wait_until(DEADLINE, || asked.look(60).silent_since.is_some());
    let helpers = asked.register.pids();
    let began = Instant::now();
    let look = asked.look(90);
    // Far less than the hang, which has no end.
    assert!(began.elapsed() < DEADLINE);
    assert_eq!(look.silent_since, Some(at(60)));
    assert_eq!(codes(&look.gaps), [("gpus", GapCode::BlockedRead)]);
    assert_eq!(
        detail(&look),
        "the driver has not answered since 1970-01-01T00:01:00.000000Z; its helper waits on"
    );
    assert_eq!(asked.register.pids(), helpers, "nobody else asks meanwhile");
    asked.driver.behave("");
    asked.asker.patience = PATIENT;
    let look = asked.look(120);
    assert_eq!((look.silent_since, look.gpus.len()), (None, 2));
    assert_eq!(asked.register.pids(), helpers);
}

#[test]
fn what_was_told_before_the_driver_hung_is_kept() {
    let mut asked = Asked::of("hang-utilization", PATIENT);
    asked.asker.patience.answer = Duration::from_secs(2);
    let mut look = GpuLook::default();
    wait_until(DEADLINE, || {
        asked.asker.close();
        look = asked.look(60);
        !look.gpus.is_empty()
    });
    assert_eq!(look.gpus.len(), 1);
    assert_eq!(look.gpus[0].utilization_percent, Some(97));
    assert_eq!(look.silent_since, Some(at(60)));
    let silence = look.gaps.last().unwrap();
    assert_eq!(silence.code, GapCode::BlockedRead);
    let words = silence.detail.as_deref().unwrap();
    assert!(
        words.starts_with("GPU 1 has not answered since "),
        "{words}"
    );
}

#[test]
fn a_question_that_stands_too_long_is_asked_anew_by_another_helper() {
    let mut asked = Asked::of("hang-init", QUICK);
    wait_until(DEADLINE, || asked.look(60).silent_since.is_some());
    let helpers = asked.register.pids();
    asked.asker.patience.question = Duration::ZERO;
    let look = asked.look(90);
    assert_eq!(look.silent_since, Some(at(60)));
    assert!(!process_exists(helpers[0]), "it was killed");
    assert!(asked.asker.abandoned.is_none());
    asked.driver.behave("");
    asked.asker.patience = PATIENT;
    let look = asked.look(120);
    assert_eq!((look.silent_since, look.gpus.len()), (None, 2));
}

#[test]
fn while_a_helper_cannot_be_killed_nobody_asks() {
    let mut asked = Asked::of("", PATIENT);
    let mut command = Command::new("/bin/sleep");
    let (stuck, _) = OwnProcess::start(command.arg("1000"), &asked.register).unwrap();
    let helpers = asked.register.pids();
    asked.asker.abandoned = Some(stuck);
    for second in [60, 90] {
        let look = asked.look(second);
        assert_eq!(look.silent_since, Some(at(60)));
        let words = "the driver has not answered since 1970-01-01T00:01:00.000000Z; a helper hangs in it for good";
        assert_eq!(detail(&look), words);
        assert_eq!(asked.register.pids(), helpers, "it counts");
    }
    asked.asker.abandoned.as_ref().unwrap().kill();
    let mut look = GpuLook::default();
    wait_until(DEADLINE, || {
        look = asked.look(120);
        look.silent_since.is_none()
    });
    assert_eq!(look.gpus.len(), 2);
    assert!(!asked.register.pids().contains(&helpers[0]));
}

#[test]
fn a_helper_that_hangs_ends_when_its_collector_is_gone() {
    let driver = NvmlStandIn::new("hang-init");
    let settings = settings(&driver);
    let mut helper = Command::new(&settings.helper)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (helper.stdin.take().unwrap(), helper.stdout.take().unwrap());
    let library = settings.library;
    frame::write(&mut input, &Question { library }).unwrap();
    let mut payload = || frame::read_payload(&mut output).unwrap();
    let hello: Hello = frame::decode(&payload()).unwrap();
    assert_eq!(hello, Hello::of(PROTOCOL));
    let part: Part = frame::decode(&payload()).unwrap();
    assert!(matches!(part, Part::Asking(_)), "{part:?}");
    drop(input);
    wait_until(DEADLINE, || helper.try_wait().unwrap().is_some());
}

#[test]
fn a_lost_gpu_is_named_and_the_other_still_tells() {
    let mut asked = Asked::of("lost", PATIENT);
    let look = asked.look(1);
    assert_eq!(look.gpus[0].trouble, None);
    assert_eq!(look.gpus[0].utilization_percent, Some(97));
    assert_eq!(look.gpus[1].trouble, Some(GpuTrouble::Lost));
    assert_eq!(look.gpus[1].utilization_percent, None);
    let lost: Vec<&str> = look
        .gaps
        .iter()
        .filter(|gap| gap.what == "gpus")
        .filter_map(|gap| gap.detail.as_deref())
        .collect();
    assert_eq!(
        lost,
        ["GPU 1: device fell off the bus or has otherwise become inacessible"]
    );
    asked.driver.behave("");
    assert_eq!(asked.look(2).gpus[1].trouble, None, "it was reset");
}

#[test]
fn a_library_of_another_version_than_the_driver_is_a_gap_with_a_remedy() {
    let mut asked = Asked::of("mismatch", PATIENT);
    let look = asked.look(1);
    assert_eq!(codes(&look.gaps), [("gpus", GapCode::Failed)]);
    assert_eq!(
        detail(&look),
        "RM detects a driver/library version mismatch"
    );
    let remedy = look.gaps[0].remedy.as_deref();
    assert_eq!(remedy, Some(GPU_VERSIONS.sentence));
    asked.driver.behave("");
    assert_eq!(asked.look(2).gpus.len(), 2, "it is tried again");
}

#[test]
fn a_library_that_is_not_there_is_a_gap_with_a_remedy() {
    let mut asked = Asked::of("", PATIENT);
    fs::remove_file(asked.driver.library()).unwrap();
    let look = asked.look(1);
    assert_eq!(codes(&look.gaps), [("gpus", GapCode::NoReader)]);
    let remedy = look.gaps[0].remedy.as_deref();
    assert_eq!(remedy, Some(GPU_LIBRARY.sentence));
}

#[test]
fn a_library_that_crashes_is_left_alone_for_a_while() {
    let mut asked = Asked::of("abort", PATIENT);
    let look = asked.look(1);
    assert_eq!(codes(&look.gaps), [("gpus", GapCode::Failed)]);
    let words = "its helper was killed by signal 6 while the driver was asked; it is asked again after 5 more captures";
    assert_eq!(detail(&look), words);
    asked.driver.behave("");
    for second in 2..7 {
        assert_eq!(asked.look(second), look);
        assert_eq!(asked.register.pids(), [0; 0]);
    }
    assert_eq!(asked.look(7).gpus.len(), 2);
}

#[test]
fn garbage_is_a_gap_and_no_value() {
    let mut asked = Asked::of("garbage", PATIENT);
    let look = asked.look(1);
    let gpu = &look.gpus[0];
    assert_eq!(gpu.name, None);
    assert_eq!(gpu.utilization_percent, None);
    assert_eq!(gpu.memory_utilization_percent, Some(3));
    assert_eq!(
        (gpu.memory_used_bytes, gpu.memory_total_bytes),
        (None, None)
    );
    assert_eq!(gpu.performance_state, None);
    assert_eq!(gpu.temperature_celsius, Some(64));
    let malformed = look.gaps.iter();
    let malformed: Vec<_> = malformed
        .filter(|gap| gap.code == GapCode::Malformed)
        .map(|gap| gap.what.as_str())
        .take(4)
        .collect();
    let expected = ["name", "utilization", "memory", "performance_state"];
    assert_eq!(malformed, expected.map(|name| format!("gpus/{name}")));
}
