//! A stand-in for the library of the NVIDIA driver, `libnvidia-ml.so.1`, built from `nvml/stand_in.rs` by rustc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::environment;

/// The name that programs load it by.
const NAME: &str = "libnvidia-ml.so.1";

/// A copy of the library with two GPUs, in a folder of its own, that does what it is told to.
#[derive(Debug)]
pub struct NvmlStandIn(TempDir);

impl NvmlStandIn {
    /// One that behaves as [`NvmlStandIn::behave`] says.
    pub fn new(behaviour: &str) -> NvmlStandIn {
        let folder = tempfile::Builder::new()
            .prefix("nvml-")
            .tempdir()
            .expect("a temporary folder can be made");
        let stand_in = NvmlStandIn(folder);
        fs::copy(built(), stand_in.library()).expect("the library was built");
        stand_in.behave(behaviour);
        stand_in
    }

    /// The folder that the library lies in, for `LD_LIBRARY_PATH`.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.folder().join(NAME)
    }

    /// Changes what it does, from now on and in whatever hangs: some of the words `abort`, `garbage`, `hang-init`,
    /// `hang-utilization` (of the second GPU), `lost` (the second GPU) and `mismatch`.
    pub fn behave(&self, behaviour: &str) {
        // Replaced at once: the library may read it now.
        let next = self.folder().join("next");
        fs::write(&next, behaviour).expect("the folder can be written");
        fs::rename(next, self.folder().join("behaviour")).expect("the folder can be written");
    }
}

/// Builds it once; it is kept in cargo's target directory.
fn built() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = environment::target_directory().join("nvml-stand-in");
        fs::create_dir_all(&folder).expect("the target directory can be written");
        let beside_cargo = Path::new(env!("CARGO")).with_file_name("rustc");
        let rustc = Some(beside_cargo).filter(|rustc| rustc.exists());
        // Other test binaries may build it at the same time.
        let ours = folder.join(format!("{}.so", std::process::id()));
        let compiled = Command::new(rustc.unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/nvml/stand_in.rs"))
            .arg("-o")
            .arg(&ours)
            .output()
            .expect("rustc is where cargo is");
        let words = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{words}");
        let library = folder.join(NAME);
        fs::rename(ours, &library).expect("the target directory can be written");
        library
    })
}
