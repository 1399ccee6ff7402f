//! Who we are to the kernel: user, capabilities, seccomp, Yama.

use serde::Serialize;

use crate::machine::Machine;
use crate::proc::{Reader, key_value, text};

/// Capabilities by number, capabilities(7).
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What we may do, as far as the kernel tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnRights {
    /// The effective capabilities, such as `SYS_PTRACE`; `CapEff` of `/proc/self/status`.
    pub capabilities: Vec<String>,
    /// The effective group.
    pub effective_gid: u32,
    /// The effective user.
    pub effective_uid: u32,
    /// `off`, `strict` or `filter`; `Seccomp` of `/proc/self/status`. Absent where the kernel does not tell.
    pub seccomp: Option<&'static str>,
    /// `kernel.yama.ptrace_scope`; absent where the kernel has no Yama.
    pub yama_ptrace_scope: Option<u32>,
    #[serde(skip)]
    pub(super) capability_bits: u64,
    #[serde(skip)]
    pub(super) pid: Option<i32>,
}

impl OwnRights {
    pub(super) fn read(machine: &Machine, reader: &mut Reader) -> Self {
        let status = reader
            .read_path(&machine.proc.join("self/status"))
            .map(key_value::parse)
            .unwrap_or_default();
        let bits = status.get("CapEff").and_then(|bits| mask(bits));
        let bits = bits.unwrap_or_default();
        let yama = machine.proc.join("sys/kernel/yama/ptrace_scope");
        let yama = reader.read_path(&yama).map(text::line);
        Self {
            capabilities: names(bits),
            capability_bits: bits,
            effective_gid: rustix::process::getegid().as_raw(),
            effective_uid: rustix::process::geteuid().as_raw(),
            pid: machine.own_pid(),
            seccomp: status.get("Seccomp").and_then(|mode| seccomp_words(mode)),
            yama_ptrace_scope: yama.ok().and_then(|scope| scope.trim().parse().ok()),
        }
    }

    /// Whether Yama lets us look into our descendants alone.
    pub(super) fn is_confined_by_yama(&self) -> bool {
        self.yama_ptrace_scope == Some(1) && !self.has("SYS_PTRACE")
    }

    /// Whether we hold the capability `name`, such as `SYS_PTRACE`.
    pub fn has(&self, name: &str) -> bool {
        self.capabilities.iter().any(|held| held == name)
    }
}

/// Returns the bits of a line such as `CapEff: 000001ffffffffff`.
pub(super) fn mask(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Returns the names of the capabilities in `bits`; one that is newer than we are has its number.
pub(super) fn names(bits: u64) -> Vec<String> {
    let held = (0..64_usize).filter(|bit| bits >> bit & 1 == 1);
    held.map(|bit| {
        CAPABILITIES
            .get(bit)
            .map_or_else(|| format!("capability {bit}"), |&name| name.to_owned())
    })
    .collect()
}

pub(super) fn seccomp_words(mode: &str) -> Option<&'static str> {
    match mode {
        "0" => Some("off"),
        "1" => Some("strict"),
        "2" => Some("filter"),
        _ => None,
    }
}
