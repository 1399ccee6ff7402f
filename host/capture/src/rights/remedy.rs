//! What grants a right, in the words of each place where it can be granted. The only place that has these texts: gaps
//! carry the sentence, `taskscope doctor` the lines.

use serde::Serialize;

/// What grants a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The option of `docker run`.
    pub docker: Option<&'static str>,
    /// What to do on the machine itself.
    pub host: Option<&'static str>,
    /// The line of a Kubernetes container or pod.
    pub kubernetes: Option<&'static str>,
    /// All of it in one sentence without a full stop.
    pub sentence: &'static str,
}

const DOCKER_PTRACE: Option<&str> = Some("--cap-add=SYS_PTRACE");
const KUBERNETES_PTRACE: Option<&str> =
    Some(r#"securityContext: {capabilities: {add: ["SYS_PTRACE"]}}"#);

/// The process is another user's, undumpable, or has more capabilities.
pub(crate) const SAME_USER: Remedy = Remedy {
    docker: DOCKER_PTRACE,
    host: Some("run taskscope as the user of the process, or as root"),
    kubernetes: KUBERNETES_PTRACE,
    sentence: "run taskscope as the user of the process, or with CAP_SYS_PTRACE",
};

/// Nobody without the capability sees kernel stacks.
pub(crate) const SYS_ADMIN: Remedy = Remedy {
    docker: Some("--cap-add=SYS_ADMIN"),
    host: Some("run taskscope as root"),
    kubernetes: Some(r#"securityContext: {capabilities: {add: ["SYS_ADMIN"]}}"#),
    sentence: "run taskscope with CAP_SYS_ADMIN: the kernel shows kernel stacks to nobody else",
};

/// Yama lets only ancestors in: `kernel.yama.ptrace_scope` is 1.
pub(crate) const YAMA_DESCENDANTS: Remedy = Remedy {
    docker: DOCKER_PTRACE,
    host: Some("sysctl -w kernel.yama.ptrace_scope=0, or start the task with `taskscope run`"),
    kubernetes: KUBERNETES_PTRACE,
    sentence: "run as the same user and start the task with `taskscope run` (kernel.yama.ptrace_scope is 1: only \
               descendants can be read), or add CAP_SYS_PTRACE",
};

/// The collector may open the memory of the process, as its ancestor, and hands that to its helpers; py-spy must open it
/// itself.
pub(crate) const PY_SPY_ITSELF: Remedy = Remedy {
    docker: DOCKER_PTRACE,
    host: Some("sysctl -w kernel.yama.ptrace_scope=0"),
    kubernetes: KUBERNETES_PTRACE,
    sentence: "add CAP_SYS_PTRACE, or set kernel.yama.ptrace_scope to 0: py-spy is no ancestor of the task (CPython 3.8 to \
               3.13 is read without it, unless nonblocking is false)",
};

/// Yama lets only the capability in: `kernel.yama.ptrace_scope` is 2.
pub(crate) const YAMA_PRIVILEGED: Remedy = Remedy {
    docker: DOCKER_PTRACE,
    host: Some("sysctl -w kernel.yama.ptrace_scope=1"),
    kubernetes: KUBERNETES_PTRACE,
    sentence: "add CAP_SYS_PTRACE (kernel.yama.ptrace_scope is 2: nobody else can read)",
};

/// Yama lets nobody in: `kernel.yama.ptrace_scope` is 3, which only a new start of the machine changes.
pub(crate) const YAMA_NOBODY: Remedy = Remedy {
    docker: None,
    host: Some("write kernel.yama.ptrace_scope=1 to /etc/sysctl.d/10-ptrace.conf and reboot"),
    kubernetes: None,
    sentence: "set kernel.yama.ptrace_scope to 2 or less (it is 3: nobody can read) and reboot",
};

/// A seccomp filter refuses the system call.
pub(crate) const SECCOMP: Remedy = Remedy {
    docker: Some(
        "--cap-add=SYS_PTRACE (its default filter then allows the call), or --security-opt seccomp=unconfined",
    ),
    host: None,
    kubernetes: Some("securityContext: {seccompProfile: {type: Unconfined}}"),
    sentence: "allow the system call in the container's seccomp profile",
};

/// A security module or user namespace refuses, though user and capabilities would do.
pub(crate) const SECURITY_MODULE: Remedy = Remedy {
    docker: Some("--security-opt apparmor=unconfined --security-opt label=disable"),
    host: Some("look into dmesg for the refusal of AppArmor or SELinux"),
    kubernetes: Some(
        "securityContext: {appArmorProfile: {type: Unconfined}, seLinuxOptions: {type: spc_t}}",
    ),
    sentence: "let the security module (AppArmor, SELinux) or the user namespace allow it",
};

/// `/proc` is mounted with `hidepid`.
pub(crate) const HIDEPID: Remedy = Remedy {
    docker: DOCKER_PTRACE,
    host: Some("mount -o remount,hidepid=0 /proc"),
    kubernetes: KUBERNETES_PTRACE,
    sentence: "mount /proc without hidepid, or add CAP_SYS_PTRACE",
};

/// The kernel has no `children` files.
pub(crate) const PROC_CHILDREN: Remedy = Remedy {
    docker: None,
    host: Some("a kernel built with CONFIG_PROC_CHILDREN=y"),
    kubernetes: None,
    sentence: "use a kernel built with CONFIG_PROC_CHILDREN",
};

/// The cgroup of the task is not visible.
pub(crate) const CGROUP_MOUNT: Remedy = Remedy {
    docker: Some("-v /sys/fs/cgroup:/sys/fs/cgroup:ro --cgroupns=host"),
    host: Some("mount -t cgroup2 none /sys/fs/cgroup"),
    kubernetes: Some(
        "volumeMounts: [{name: cgroup, mountPath: /sys/fs/cgroup, readOnly: true}] with \
         volumes: [{name: cgroup, hostPath: {path: /sys/fs/cgroup}}]",
    ),
    sentence: "mount the cgroup hierarchy of the machine, read-only, at /sys/fs/cgroup",
};

/// The driver is there, and its library or its devices are not.
pub(crate) const GPU_LIBRARY: Remedy = Remedy {
    docker: Some("--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
    host: Some("install the library of the driver, libnvidia-ml.so.1, and load its kernel module"),
    kubernetes: Some(
        r#"env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}] with resources: {limits: {nvidia.com/gpu: 1}}"#,
    ),
    sentence: "give the container GPUs with NVIDIA_DRIVER_CAPABILITIES=compute,utility (the NVIDIA container toolkit \
               then adds libnvidia-ml.so.1), or install that library of the driver",
};

/// The library is of another version than the driver that runs.
pub(crate) const GPU_VERSIONS: Remedy = Remedy {
    docker: Some("start the container anew: its library is of the driver that ran before"),
    host: Some(
        "reboot, or unload and load the modules nvidia_uvm, nvidia_drm, nvidia_modeset and nvidia",
    ),
    kubernetes: Some("delete the pod: its library is of the driver that ran before"),
    sentence: "load the driver that was installed (reboot, or reload its kernel modules), and start containers anew",
};

/// The kernel counts no pressure.
pub(crate) const PSI: Remedy = Remedy {
    docker: None,
    host: Some("boot the kernel with psi=1 (CONFIG_PSI=y)"),
    kubernetes: None,
    sentence: "boot a kernel with CONFIG_PSI with psi=1",
};
