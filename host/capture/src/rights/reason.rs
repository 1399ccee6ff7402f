//! Why the kernel refuses to let us look into a process, in the order in which it checks: ptrace(2), "Ptrace access
//! mode checking".

use super::ours::{OwnRights, names};
use super::process::ProcessRights;
use super::remedy::{
    Remedy, SAME_USER, SECURITY_MODULE, YAMA_DESCENDANTS, YAMA_NOBODY, YAMA_PRIVILEGED,
};

/// How deep a look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Files such as `environ`.
    Read,
    /// Memory and descriptors; Yama guards this one.
    Attach,
}

/// Returns the first reason for a refusal that the facts show, and what helps.
pub(super) fn refusal(
    access: Access,
    ours: &OwnRights,
    process: &ProcessRights,
) -> (String, Remedy) {
    let scope = ours.yama_ptrace_scope.unwrap_or(0);
    if access == Access::Attach && scope >= 3 {
        let detail = "kernel.yama.ptrace_scope is 3: nobody may look into any process";
        return (detail.to_owned(), YAMA_NOBODY);
    }
    if ours.has("SYS_PTRACE") {
        let detail = match process.is_in_our_user_namespace {
            Some(false) => {
                "the process is in another user namespace, where our CAP_SYS_PTRACE does not count"
            }
            _ => "it is refused though we hold CAP_SYS_PTRACE: a security module forbids it",
        };
        return (detail.to_owned(), SECURITY_MODULE);
    }
    if !process.has_our_ids {
        let whose = process
            .uid
            .filter(|&uid| uid != ours.effective_uid)
            .map_or_else(
                || "not all of its user and group ids are ours".to_owned(),
                |uid| {
                    format!(
                        "it is a process of user {uid}, and we are user {}",
                        ours.effective_uid
                    )
                },
            );
        return (format!("{whose}; we lack CAP_SYS_PTRACE"), SAME_USER);
    }
    if process.dumpable == Some(false) {
        let detail = "the process is not dumpable: it changed its user, was not readable for its user, or called \
                      prctl(PR_SET_DUMPABLE, 0); we lack CAP_SYS_PTRACE";
        return (detail.to_owned(), SAME_USER);
    }
    let beyond = process.beyond(ours);
    if beyond != 0 {
        let names = names(beyond).join(", ");
        let detail = format!(
            "the process may have capabilities that we lack: {names}; we lack CAP_SYS_PTRACE"
        );
        return (detail, SAME_USER);
    }
    if access == Access::Attach && scope == 2 {
        let detail = "kernel.yama.ptrace_scope is 2 and we lack CAP_SYS_PTRACE";
        return (detail.to_owned(), YAMA_PRIVILEGED);
    }
    if access == Access::Attach && scope == 1 && !process.is_descendant {
        let detail =
            "kernel.yama.ptrace_scope is 1 and taskscope is not an ancestor of the process";
        return (detail.to_owned(), YAMA_DESCENDANTS);
    }
    let detail =
        "user, capabilities and Yama would allow it: a security module or namespace forbids it";
    (detail.to_owned(), SECURITY_MODULE)
}
