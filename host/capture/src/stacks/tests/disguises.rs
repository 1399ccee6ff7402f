//! Interpreters that do not look like one, and programs that only look like one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use helper::Register;
use model::{GapCode, ProcessId};

use super::workload::{SCRIPT, Workload, pythons, version};
use super::{code, copy_program, embedded, eventually, read_one};
use crate::image::{Asked, ImageReader};
use crate::memory::MemoryReader;
use crate::python::Python;
use crate::stacks::{StackReaders, image};

/// What the capture takes the process for.
fn judged(id: ProcessId) -> Python {
    let memory = MemoryReader::with_helper(crate::tests::memory_helper(), Register::default());
    let images = ImageReader::default();
    images.read(&memory, Path::new("/proc"), &[id], &Asked::default())[0].python()
}

#[track_caller]
fn assert_read(readers: &StackReaders, workload: &Workload, python: &Path) {
    let words = format!("{} as {:?}", python.display(), workload.id);
    assert_ne!(judged(workload.id), Python::No, "{words}");
    let stacks = eventually("both threads wait", || {
        let stacks = read_one(readers, workload.id);
        let stacks = stacks.unwrap_or_else(|gap| panic!("{words}: {gap:?}"));
        let stacks = stacks.unwrap_or_else(|| panic!("{words}: not taken for Python"));
        let both = ["main_waits", "worker_waits"]
            .iter()
            .all(|function| workload.find(&stacks.traces, function).is_some());
        both.then_some(stacks)
    });
    let (major, minor) = version(python);
    let told = stacks
        .version
        .expect("the memory of each tells its version");
    assert!(
        told.starts_with(&format!("{major}.{minor}.")),
        "{words}: {told}"
    );
}

/// A command that runs a copy of `python` called `trainer`.
fn disguised(python: &Path, directory: &Path) -> (PathBuf, Command) {
    let copy = directory.join("trainer");
    copy_program(python, &copy);
    let prefix = python.parent().unwrap().parent().unwrap();
    let mut command = Command::new(&copy);
    command
        .env("PYTHONHOME", prefix)
        .env("LD_LIBRARY_PATH", prefix.join("lib"));
    (copy, command)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {words}");
}

/// Whether there is a C compiler; says so loudly where there is none.
fn can_compile() -> bool {
    let there = Command::new("cc").arg("--version").output().is_ok();
    if !there {
        skipped("there is no C compiler `cc`");
    }
    there
}

fn skipped(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap();
}

fn compile(directory: &Path, text: &str, arguments: &[&str]) -> PathBuf {
    let source = directory.join("program.c");
    std::fs::write(&source, text).unwrap();
    let program = directory.join("trainer");
    run(Command::new("cc")
        .arg("-o")
        .args([&program, &source])
        .args(arguments));
    program
}

/// A C program that stands still; whoever ends it is its value's end.
fn start(program: &Path) -> Workload {
    Workload::start_command(Command::new(program), "")
}

const STANDS: &str = r#"int main(void) { puts("ready"); fflush(stdout); getchar(); return 0; }"#;

#[test]
fn a_renamed_stripped_or_deleted_interpreter_is_read() {
    let readers = embedded();
    for python in pythons() {
        let directory = tempfile::tempdir().unwrap();
        let (copy, command) = disguised(&python, directory.path());
        // Not all machines have the tool.
        let _ = Command::new("strip")
            .arg(&copy)
            .stderr(Stdio::null())
            .status();
        let workload = Workload::start_command(command, SCRIPT);
        std::fs::remove_file(&copy).unwrap();
        assert_read(&readers, &workload, &python);
        assert_eq!(judged(workload.id), Python::Certain, "{}", python.display());
    }
}

#[test]
fn a_stripped_library_is_read() {
    let readers = embedded();
    for python in pythons() {
        let directory = tempfile::tempdir().unwrap();
        let (_, mut command) = disguised(&python, directory.path());
        let library = python.parent().unwrap().parent().unwrap().join("lib");
        let mut libraries = std::fs::read_dir(library).unwrap().flatten();
        let Some(library) = libraries.find(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            name.starts_with("libpython") && name.ends_with(".so.1.0")
        }) else {
            continue; // linked into the executable
        };
        let copy = directory.path().join(library.file_name());
        copy_program(&library.path(), &copy);
        let strip = Command::new("strip").arg(&copy).status();
        if !strip.is_ok_and(|status| status.success()) {
            skipped("there is no `strip`");
            return;
        }
        command.env("LD_LIBRARY_PATH", directory.path());
        let workload = Workload::start_command(command, SCRIPT);
        assert_read(&readers, &workload, &python);

        std::fs::remove_file(&copy).unwrap();
        // Whoever has it open goes on; who comes later cannot know where anything is.
        assert_read(&readers, &workload, &python);
        let gap = read_one(&embedded(), workload.id).unwrap_err();
        assert_eq!(gap.code, GapCode::Unsupported);
        let detail = gap.detail.unwrap();
        assert!(
            detail.contains("its libpython was removed or replaced"),
            "{detail}"
        );
    }
}

#[test]
fn an_interpreter_inside_of_another_program_is_read() {
    if !can_compile() {
        return;
    }
    let readers = embedded();
    let mut count = 0;
    for python in pythons() {
        let config = python.parent().unwrap().join("python3-config");
        let ask = |arguments: &[&str]| Command::new(&config).args(arguments).output().ok();
        // Since 3.8 the library has to be asked for.
        if version(&python) < (3, 8) {
            continue;
        }
        let (Some(include), Some(link)) = (ask(&["--includes"]), ask(&["--ldflags", "--embed"]))
        else {
            continue;
        };
        let words = format!(
            "{} {}",
            String::from_utf8_lossy(&include.stdout),
            String::from_utf8_lossy(&link.stdout)
        );
        let prefix = python.parent().unwrap().parent().unwrap();
        let path = format!("-Wl,-rpath,{}", prefix.join("lib").display());
        let mut arguments: Vec<&str> = words.split_whitespace().collect();
        arguments.push(&path);
        let directory = tempfile::tempdir().unwrap();
        let text =
            "#include <Python.h>\nint main(int c, char **v) { return Py_BytesMain(c, v); }\n";
        let program = compile(directory.path(), text, &arguments);
        let mut command = Command::new(program);
        command.env("PYTHONHOME", prefix);
        assert_read(&readers, &Workload::start_command(command, SCRIPT), &python);
        count += 1;

        // From 3.11 on the library says its version by a symbol.
        if !((3, 9)..(3, 11)).contains(&version(&python)) {
            continue;
        }
        let text = text.replace("return", "strcpy(words, \"needs 3.8.3 or higher\"); return");
        let program = compile(
            directory.path(),
            &text.replacen("int main", "char words[99]; int main", 1),
            &arguments,
        );
        let mut command = Command::new(program);
        command.env("PYTHONHOME", prefix);
        // py-spy would take it for 3.8.3.
        assert_read(&readers, &Workload::start_command(command, SCRIPT), &python);
    }
    if count == 0 {
        skipped("no Python here has a library to embed");
    }
}

#[test]
fn a_virtual_environment_and_what_a_shell_starts_are_read() {
    let readers = embedded();
    for python in pythons()
        .into_iter()
        .filter(|python| version(python) >= (3, 3))
    {
        let directory = tempfile::tempdir().unwrap();
        let environment = directory.path().join("venv");
        run(Command::new(&python)
            .args(["-m", "venv", "--without-pip"])
            .arg(&environment));
        let workload = Workload::start(&environment.join("bin/python"));
        assert_read(&readers, &workload, &python);
    }

    let python = pythons().remove(0);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{} $0; :", python.display())]);
    let workload = Workload::start_command(shell, SCRIPT);
    assert_eq!(
        judged(workload.id),
        Python::No,
        "the shell is no interpreter"
    );
    let children = format!("/proc/{0}/task/{0}/children", workload.id.pid);
    let child = std::fs::read_to_string(children).unwrap();
    let pid = child.trim().parse().unwrap();
    let id = ProcessId {
        pid,
        start_time_ticks: image::stat(pid).unwrap().start_time_ticks,
    };
    assert_eq!(judged(id), Python::Certain);
    assert!(read_one(&readers, id).unwrap().is_some());
}

#[test]
fn a_program_that_only_has_the_name_is_no_gap() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("python3");
    let cat = ["/usr/bin/cat", "/bin/cat"].map(Path::new);
    copy_program(
        cat.into_iter().find(|path| path.exists()).unwrap(),
        &program,
    );
    let mut command = Command::new(&program);
    command.arg("-");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let id = ProcessId {
        pid,
        start_time_ticks: image::stat(pid).unwrap().start_time_ticks,
    };
    // Before its exec it is a copy of this test.
    eventually("it runs its program", || {
        (judged(id) == Python::Maybe).then_some(())
    });
    assert_eq!(read_one_if_sure(id, false), Ok(None));
    child.kill().unwrap();
    child.wait().unwrap();
}

fn read_one_if_sure(id: ProcessId, certain: bool) -> super::Read {
    let wanted = crate::stacks::Wanted {
        certain,
        ..super::wanted(id)
    };
    super::read_all(&embedded(), &[wanted]).remove(0).1
}

#[test]
fn a_build_without_the_lock_and_one_of_the_future_are_named_as_unsupported() {
    if !can_compile() {
        return;
    }
    let builds = [
        (
            r#""xdebugpy\xf0\x05\x0d\x03\0\0\0\0\x01\0\0\0\0\0\0""#,
            "free-threaded CPython 3.13.5",
        ),
        (
            r#""xdebugpy\xf0\x00\x63\x03\0\0\0\0\0\0\0\0\0\0\0""#,
            "Python 3.99.0",
        ),
    ];
    for (runtime, words) in builds {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "#include <stdio.h>\nchar _PyRuntime[4096] = {runtime};\nunsigned Py_Version = 0x036300f0;\n\
             void Py_Initialize(void) {{}}\n{STANDS}\n"
        );
        let program = compile(directory.path(), &text, &["-rdynamic"]);
        let workload = start(&program);
        assert_eq!(judged(workload.id), Python::Certain);
        let read = read_one(&embedded(), workload.id);
        assert_eq!(code(&read), GapCode::Unsupported);
        let detail = read.unwrap_err().detail.unwrap();
        assert!(detail.contains(words), "{detail}");
    }
}

#[test]
fn an_interpreter_without_any_symbol_is_known_by_its_texts() {
    if !can_compile() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "#include <stdio.h>\nstatic const char *const names[] = {{\"PYTHONHOME\", \"PYTHONHASHSEED\", 0}};\n\
         const char *const *volatile kept = names;\n{STANDS}\n"
    );
    let program = compile(directory.path(), &text, &["-static", "-s"]);
    assert_eq!(judged(start(&program).id), Python::Certain);
    let text = format!("#include <stdio.h>\n{STANDS}\n");
    let program = compile(directory.path(), &text, &["-static", "-s"]);
    assert_eq!(judged(start(&program).id), Python::No);
}
