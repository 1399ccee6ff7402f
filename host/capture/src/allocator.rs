//! The memory that this program itself keeps.

/// Makes all threads share one heap, for the whole process and for good; to be called before any thread is started.
///
/// glibc gives each of the first threads a heap of its own (mallopt(3), `M_ARENA_MAX`), and each grows to the size of the
/// largest snapshot that was formed, passed on or dropped there: at 64 processes 11 MiB of nothing. Threads of ours seldom
/// allocate at the same time. Other C libraries have one heap anyway.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "mallopt has no safe wrapper")]
    // SAFETY: mallopt takes two numbers, touches nothing of ours, and refuses what it does not know.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
