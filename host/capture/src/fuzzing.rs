//! The one door for fuzz targets: each function takes any bytes, and panics if what must hold does not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::elf::Elf;
use crate::proc::{cmdline, environ, escaped, key_value, pressure, rollup, stat, status, text};
use crate::redact::Redactor;
use crate::{call, environment, frames, ipc, python};

/// Reads `bytes` as every file of `/proc`, and as an executable.
pub fn proc_parsers(bytes: &[u8]) {
    let lossy = String::from_utf8_lossy(bytes);
    if let Some(stat) = stat::parse(bytes) {
        let _ = stat.scheduling();
    }
    let _ = status::parse(bytes);
    let _ = rollup::parse(bytes);
    let _ = key_value::parse(bytes);
    let _ = pressure::parse(&lossy);
    let _ = call::decode(&lossy, 0x7fff_0000_0000);
    let _ = cmdline::arguments(bytes);
    let _ = escaped::escaped(bytes);
    let _ = (text::line(bytes), text::lines(bytes));
    let _ = (environ::is_overwritten(bytes), python::is_mapped(bytes));
    ipc::fuzzing::parsers(bytes);
    let allowed = environment::allowed(bytes, &["*".to_owned()]);
    let bounded: usize = allowed.values().map(String::len).sum();
    // Each byte that is no UTF-8 becomes three.
    assert!(bounded <= 3 * bytes.len());
    executable(bytes);
}

fn executable(bytes: &[u8]) {
    let descriptor = memfd_create("executable", MemfdFlags::CLOEXEC).expect("there is memory");
    let mut file = File::from(descriptor);
    file.write_all(bytes).expect("there is memory");
    let _ = python::has_symbols(&file);
    if let Ok(Some(elf)) = Elf::read(&file) {
        let _ = elf.symbol(&file, "_PyRuntime");
        let _ = elf.variable(&file, &["environ"]);
        let _ = elf.section(".bss");
    }
}

/// Reads `bytes` as the memory of a process that runs `CPython`.
pub fn frames(bytes: &[u8]) {
    frames::fuzzing::memory(bytes);
}

/// Redacts arguments and variables in which a secret stands among `bytes`, and looks for it afterwards.
pub fn redactor(bytes: &[u8]) {
    const SECRET: &str = "s3cr3tPassw0rd";
    let redactor = Redactor::new(&[]);
    let around = String::from_utf8_lossy(bytes);
    let arguments: Vec<String> = around.split('\0').map(str::to_owned).collect();

    let mut any = arguments.clone();
    redactor.arguments(&mut any);
    assert_eq!(any.len(), arguments.len());

    let mut with_secret = arguments;
    with_secret.extend(["--password".to_owned(), SECRET.to_owned()]);
    with_secret.push(format!("--api-key={SECRET}"));
    redactor.arguments(&mut with_secret);
    let count = with_secret.len();
    let kept = with_secret[count - 3..]
        .iter()
        .any(|argument| argument.contains(SECRET));
    // An option before it may take `--password` itself for its value; the secret is no less one.
    assert!(!kept, "{:?}", &with_secret[count - 3..]);

    let mut variables = BTreeMap::from([
        ("AWS_SECRET_ACCESS_KEY".to_owned(), SECRET.to_owned()),
        ("TEXT".to_owned(), around.into_owned()),
    ]);
    redactor.variables(&mut variables);
    assert!(variables["AWS_SECRET_ACCESS_KEY"] != SECRET);
}
