//! Tries the files of `/proc` and of the cgroups.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Cgroup, GapCode, Limit, ProcessId};
use procfs::FromBufRead;
use procfs::process::MountInfos;

use super::ours::OwnRights;
use super::process::ProcessRights;
use super::reason::{Access, refusal};
use super::remedy::{CGROUP_MOUNT, HIDEPID, PROC_CHILDREN, PSI, SYS_ADMIN};
use super::{PATIENCE, Right, RightName, identity_of};
use crate::cgroup;
use crate::error::gap_code;
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::{Reader, stat, text};
use crate::stacks::{Numbers, Wanted};

/// How long a process that was just started has to fall asleep.
const FALLING_ASLEEP: Duration = Duration::from_millis(500);

pub(super) fn visible_processes(machine: &Machine, ours: &OwnRights) -> Right {
    let right = RightName::VisibleProcesses;
    let table = std::fs::File::open(machine.proc.join("self/mountinfo"))
        .ok()
        .and_then(|file| MountInfos::from_buf_read(io::BufReader::new(file)).ok());
    let Some(table) = table else {
        return Right::unknown(right, "mountinfo cannot be read");
    };
    let mut mounts = table.0.iter().rev();
    let Some(proc) = mounts.find(|one| one.fs_type == "proc" && one.mount_point == machine.proc)
    else {
        return Right::unknown(right, "mountinfo does not show how /proc is mounted");
    };
    let options = [&proc.super_options, &proc.mount_options];
    let hidepid = options.iter().find_map(|options| options.get("hidepid"));
    let hidepid = hidepid.and_then(Option::as_deref).unwrap_or("0");
    match hidepid {
        "0" | "off" => Right::holds(right, "/proc hides no process"),
        _ if ours.has("SYS_PTRACE") => Right::holds(
            right,
            format!("/proc has hidepid={hidepid}, which CAP_SYS_PTRACE overrides"),
        ),
        _ => {
            let detail = format!("/proc is mounted with hidepid={hidepid}");
            Right::lost(right, detail, Some(HIDEPID))
        }
    }
}

pub(super) fn process_files(directory: &Path, ours: &OwnRights, process: &ProcessRights) -> Right {
    let right = RightName::ProcessFiles;
    match std::fs::read_link(directory.join("exe")) {
        Ok(_) => Right::holds(right, "environ, exe, fd, io, maps and syscall can be read"),
        Err(error) if gap_code(&error) == GapCode::Denied => {
            let (detail, remedy) = refusal(Access::Read, ours, process);
            Right::lost(right, detail, Some(remedy))
        }
        Err(error) => Right::unknown(right, format!("/proc/PID/exe: {error}")),
    }
}

pub(super) fn kernel_stacks(
    directory: &Path,
    ours: &OwnRights,
    process: &ProcessRights,
    reader: &mut Reader,
) -> Right {
    let right = RightName::KernelStacks;
    match reader.read_path(&directory.join("stack")) {
        Ok(_) => Right::holds(right, "/proc/PID/stack can be read"),
        Err(error) => match gap_code(&error) {
            // The kernel asks for both: the capability, and that we may look into the process.
            GapCode::Denied if ours.has("SYS_ADMIN") => {
                let (detail, remedy) = refusal(Access::Attach, ours, process);
                let detail = format!("/proc/PID/stack is refused: {detail}");
                Right::lost(right, detail, Some(remedy))
            }
            GapCode::Denied => {
                let detail = "/proc/PID/stack is refused: we lack CAP_SYS_ADMIN";
                Right::lost(right, detail, Some(SYS_ADMIN))
            }
            GapCode::Vanished => Right::lost(right, "this kernel has no /proc/PID/stack", None),
            _ => Right::unknown(right, format!("/proc/PID/stack: {error}")),
        },
    }
}

pub(super) fn wait_channels(
    directory: &Path,
    ours: &OwnRights,
    process: &ProcessRights,
    reader: &mut Reader,
) -> Right {
    let right = RightName::WaitChannels;
    let deadline = Instant::now() + FALLING_ASLEEP;
    loop {
        let state = reader.read_path(&directory.join("stat")).ok();
        let state = state.and_then(stat::parse).map(|stat| stat.state);
        let channel = reader.read_path(&directory.join("wchan")).map(text::line);
        match (state, channel) {
            (_, Ok(channel)) if channel != "0" && !channel.is_empty() => {
                return Right::holds(right, "/proc/PID/wchan can be read");
            }
            (_, Err(error)) if gap_code(&error) == GapCode::Vanished => {
                return Right::lost(right, "this kernel has no /proc/PID/wchan", None);
            }
            (Some('S' | 'D'), _) if Instant::now() >= deadline => {
                let hidden = std::fs::read_link(directory.join("exe"));
                if !matches!(&hidden, Err(error) if gap_code(error) == GapCode::Denied) {
                    let detail =
                        "/proc/PID/wchan is 0 though the process sleeps: the kernel has no symbols";
                    return Right::lost(right, detail, None);
                }
                let (detail, remedy) = refusal(Access::Read, ours, process);
                let detail = format!("/proc/PID/wchan is masked: {detail}");
                return Right::lost(right, detail, Some(remedy));
            }
            _ if Instant::now() >= deadline => {
                return Right::unknown(right, "the process does not sleep, so it waits nowhere");
            }
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

pub(super) fn children_files(directory: &Path, pid: i32, reader: &mut Reader) -> Right {
    let right = RightName::ChildrenFiles;
    match reader.read_path(&directory.join(format!("task/{pid}/children"))) {
        Ok(_) => Right::holds(right, "/proc/PID/task/TID/children can be read"),
        Err(error) if directory.is_dir() && gap_code(&error) == GapCode::Vanished => {
            let detail = "this kernel has no /proc/PID/task/TID/children";
            Right::lost(right, detail, Some(PROC_CHILDREN))
        }
        Err(error) => Right::unknown(right, format!("/proc/PID/task/TID/children: {error}")),
    }
}

pub(super) fn cgroup_and_pressure(
    machine: &Machine,
    directory: &Path,
    reader: &mut Reader,
) -> [Right; 2] {
    let lines = reader
        .read_path(&directory.join("cgroup"))
        .map(text::lines)
        .unwrap_or_default();
    let mut gaps = GapList::of_machine();
    let cgroup = cgroup::read(machine, &lines, reader, &mut gaps);
    let refused = gaps.finish().into_iter().find(|gap| {
        gap.what.starts_with("cgroup") && matches!(gap.code, GapCode::Denied | GapCode::Vanished)
    });
    let pressure = if cgroup.host_pressure.is_empty() {
        let detail = "/proc/pressure cannot be read: the kernel does not count it";
        Right::lost(RightName::Pressure, detail, Some(PSI))
    } else {
        Right::holds(RightName::Pressure, "/proc/pressure can be read")
    };
    [cgroup_files(&cgroup, refused.map(|gap| gap.what)), pressure]
}

fn cgroup_files(cgroup: &Cgroup, refused: Option<String>) -> Right {
    let right = RightName::CgroupFiles;
    let memory = cgroup
        .limits
        .as_ref()
        .and_then(|limits| limits.memory.as_ref());
    if let Some(refused) = refused {
        let detail = format!("{refused} of its cgroup cannot be read");
        return Right::lost(right, detail, Some(CGROUP_MOUNT));
    }
    match memory {
        None => {
            let detail = "no mounted hierarchy shows the memory cgroup of the process";
            Right::lost(right, detail, Some(CGROUP_MOUNT))
        }
        Some(memory) if memory.limit_bytes == Limit::Unknown && !memory.is_whole => {
            let detail = "only a part of the hierarchy is mounted, and that part has no memory limit: one above it is \
                          not seen";
            Right::lost(right, detail, Some(CGROUP_MOUNT))
        }
        Some(memory) => {
            let whole = if memory.is_whole {
                ""
            } else {
                "; cgroups above them are not visible"
            };
            let detail = format!("cgroups of version {} can be read{whole}", cgroup.version);
            Right::holds(right, detail)
        }
    }
}

/// Reads the stacks of the process where it is Python.
pub(super) fn python_stacks(machine: &Machine, id: ProcessId, directory: &Path) -> Option<Right> {
    let right = RightName::PythonStacks;
    // Of what is not even known to be Python nothing is lost that the other rights do not say.
    let exe = std::fs::read_link(directory.join("exe")).ok()?;
    let wanted = Wanted {
        id,
        certain: crate::python::is_name(&exe.to_string_lossy()),
        exe: Some(exe),
    };
    let deadline = Instant::now() + machine.stack_timeout.max(PATIENCE);
    let (_, result) = machine
        .stacks
        .read(&[wanted], &Numbers::default(), deadline)
        .into_iter()
        .next()?;
    match result {
        Ok(None) => None,
        Ok(Some(read)) => {
            let detail = format!(
                "{} threads of its Python were read",
                read.stacks.traces.len()
            );
            Some(Right::holds(right, detail))
        }
        // A process that ends meanwhile, or whose stacks are switched off, says nothing of rights.
        Err(gap) if matches!(gap.code, GapCode::Off | GapCode::Vanished) => {
            Some(Right::unknown(right, "its Python stacks were not read"))
        }
        Err(_) if identity_of(directory, id, &mut Reader::new()).is_none() => None,
        Err(gap) => {
            let words = gap.detail.or(gap.remedy);
            let detail = words.unwrap_or_else(|| format!("{:?}", gap.code));
            Some(Right::lost(
                right,
                format!("its Python stacks cannot be read: {detail}"),
                None,
            ))
        }
    }
}
