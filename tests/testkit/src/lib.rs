//! What tests are made of: machines that exist only as files, a binary in a clean room, and real Python jobs.
//! It knows no host crate, and everything it starts or writes is gone when its value is dropped.

mod alone;
mod environment;
mod fake_machine;
mod fake_process;
mod fake_s3;
mod fake_thread;
mod filtered;
mod http_server;
mod kernel_text;
mod nvml_stand_in;
mod output;
mod processes;
mod python;
mod python_job;
mod running;
mod sandbox;
mod scrub;
mod servers;
mod unprivileged;
mod venv;
mod waiting;

pub use alone::alone;
pub use fake_machine::FakeMachine;
pub use fake_process::FakeProcess;
pub use fake_s3::{FakeS3, S3Fault};
pub use fake_thread::FakeThread;
pub use filtered::{FILTERED, NO_ANCESTOR};
pub use http_server::{Answer, HttpServer, Received};
pub use nvml_stand_in::NvmlStandIn;
pub use output::Output;
pub use processes::{kill, process_exists, process_state, send_signal, wait_until_asleep};
pub use python::{Python, newest_python, pythons};
pub use python_job::{JobSettings, PythonJob};
pub use running::Running;
pub use sandbox::Sandbox;
pub use scrub::scrubbers;
pub use servers::{AZURE_ACCOUNT, AZURE_KEY, BUCKET, StorageServer};
pub use unprivileged::{Unprivileged, unprivileged};
pub use venv::venv;
pub use waiting::{DEADLINE, wait_until};
