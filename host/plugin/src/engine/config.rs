//! The settings of the engine. In a file of its own because the build script, which makes the machine code of the built-in
//! plugins, takes it in: code fits an engine only where the settings are the same.

use wasmtime::Config;

/// Returns the settings that bound a guest.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        // The default of 4 GiB a memory does not start under a limit of the address space (ulimit -v, some batch
        // systems); this costs a bounds check.
        .memory_reservation(64 << 20)
        .memory_reservation_for_growth(0)
        .memory_guard_size(64 << 10)
        .concurrency_support(false)
        // A tenth of the code; a backtrace has names all the same.
        .generate_address_map(false)
        // The CPUs belong to the task.
        .parallel_compilation(false)
        .max_wasm_stack(1 << 20)
        .async_stack_size(2 << 20);
    config
}
