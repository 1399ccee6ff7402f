//! The environment of a process as its own memory has it: what getenv(3) would find there now.
//!
//! Needed where the process has written its title over the place that `/proc/PID/environ` shows. The C library keeps the
//! environment in a list of pointers to strings, and the pointer to that list in a variable called `environ`: in the program
//! itself where it is linked so, else in the library. Everything that is read has a limit, for it may be anything.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use model::ProcessId;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use super::MAPS_LIMIT;
use super::executables::{self, Executables};
use super::handed;
use super::service::{Service, Sink};
use crate::elf::Place;
use crate::proc::environ;
use crate::proc::kind::Kind;
use crate::proc::reader::read_link;

/// More variables than this are not read.
const MOST_VARIABLES: usize = 8192;

/// A longer variable is left out, bytes.
const LONGEST_VARIABLE: usize = 128 << 10;

/// Bytes per read of a string: most are shorter.
const CHUNK: usize = 256;

const POINTER: usize = size_of::<u64>();

/// Returns the environment in the form of `/proc/PID/environ`, or why there is none.
pub(super) fn read(
    service: &mut Service,
    directory: BorrowedFd<'_>,
    (id, kind): (ProcessId, Kind),
    sink: &mut Sink<'_>,
) -> Result<Vec<u8>, String> {
    let exe = kind.path("exe");
    let program = executables::open_exe(directory, &exe).ok_or("its program cannot be opened")?;
    let name = read_link(directory, &exe).map_err(in_words("exe"))?;
    let maps = kind.path("maps");
    let (maps, _) = service
        .reader
        .read_up_to(directory, &maps, MAPS_LIMIT)
        .map_err(in_words("maps"))?;
    let files = first_bytes(maps);
    let memory = handed::open(service, directory, id, &kind.path("mem"), sink);
    let memory = memory.map_err(in_words("mem"))?;
    // A program that refers to the variable has it itself, and the library uses that one.
    let name = name.to_string_lossy();
    let own = files.iter().find(|(path, _)| *path == name);
    let own = own.and_then(|&(_, start)| place(&mut service.executables, &program, start));
    let mut places: Vec<u64> = own.into_iter().collect();
    if places.is_empty() {
        let libraries = files.iter().filter(|(path, _)| is_c_library(path));
        places.extend(libraries.filter_map(|(path, start)| {
            let file = open_library(directory, path).ok()?;
            place(&mut service.executables, &file, *start)
        }));
    }
    let place = places
        .first()
        .ok_or("no `environ` among the symbols of its program and its C library")?;
    let read = Memory(memory).environment(*place);
    let content = read.map_err(in_words("mem"))?;
    if content.is_empty() || environ::entries(&content).next().is_some() {
        return Ok(content);
    }
    Err("what its `environ` leads to is no environment".to_owned())
}

fn in_words(file: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{file}: {error}")
}

fn place(known: &mut Executables, file: &File, start: u64) -> Option<u64> {
    match executables::environ(known, file).ok()?? {
        Place::Fixed(address) => Some(address),
        Place::Behind(bytes) => start.checked_add(bytes),
    }
}

/// Returns where the first byte of each file is mapped first, from the text of `maps`.
fn first_bytes(maps: &[u8]) -> Vec<(String, u64)> {
    let mut files: Vec<(String, u64)> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let Some(slash) = line.iter().position(|&byte| byte == b'/') else {
            continue;
        };
        let (numbers, path) = line.split_at(slash);
        let (Ok(numbers), Ok(path)) = (std::str::from_utf8(numbers), std::str::from_utf8(path))
        else {
            continue;
        };
        // START-END PERMISSIONS OFFSET DEVICE INODE
        let mut fields = numbers.split_ascii_whitespace();
        let start = fields.next().and_then(|range| range.split_once('-'));
        let start = start.and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
        let is_first = fields.nth(1) == Some("00000000");
        if let Some(start) = start.filter(|_| is_first)
            && files.iter().all(|(known, _)| known != path)
        {
            files.push((path.to_owned(), start));
        }
    }
    files
}

/// Whether the file at `path` is glibc's or musl's, by its name.
fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "libc-", "ld-musl-", "libc.musl-"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Opens what is at `path` for the process, in its own mount namespace, if it is a file: a pipe must not notice us.
fn open_library(directory: BorrowedFd<'_>, path: &str) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat(directory, format!("root{path}"), flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let number = std::os::fd::AsRawFd::as_raw_fd(&found);
    File::open(format!("/proc/self/fd/{number}"))
}

/// `/proc/PID/mem`, in which an offset is an address.
struct Memory(Arc<File>);

impl Memory {
    /// Reads the environment whose list the pointer at `place` leads to. It may be moved while it is read: then once more.
    fn environment(&self, place: u64) -> io::Result<Vec<u8>> {
        let list = self.pointer(place)?;
        let content = self.strings(list)?;
        let now = self.pointer(place)?;
        if now == list {
            return Ok(content);
        }
        self.strings(now)
    }

    /// Reads the strings of the list at `list`, each ended by a NUL. There is none where the environment was cleared.
    fn strings(&self, list: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        if list == 0 {
            return Ok(content);
        }
        for pointer in self.pointers(list)? {
            if content.len() > environ::LIMIT {
                break;
            }
            // One that was given back since is not there any more.
            if let Some(text) = self.string(pointer) {
                content.extend_from_slice(&text);
                content.push(0);
            }
        }
        Ok(content)
    }

    fn pointers(&self, list: u64) -> io::Result<Vec<u64>> {
        let mut pointers = Vec::new();
        let mut bytes = [0; 64 * POINTER];
        while pointers.len() < MOST_VARIABLES {
            let address = address(list, pointers.len() * POINTER)?;
            let count = self.at(address, &mut bytes)? / POINTER;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for bytes in bytes[..count * POINTER].chunks_exact(POINTER) {
                match u64::from_ne_bytes(bytes.try_into().expect("eight bytes")) {
                    0 => return Ok(pointers),
                    pointer => pointers.push(pointer),
                }
            }
        }
        Ok(pointers)
    }

    fn string(&self, start: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut chunk = [0; CHUNK];
        while text.len() < LONGEST_VARIABLE {
            let count = self.at(address(start, text.len()).ok()?, &mut chunk).ok()?;
            let chunk = &chunk[..count];
            if let Some(end) = chunk.iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&chunk[..end]);
                return Some(text);
            }
            if chunk.is_empty() {
                return None;
            }
            text.extend_from_slice(chunk);
        }
        None
    }

    fn pointer(&self, place: u64) -> io::Result<u64> {
        let mut bytes = [0; POINTER];
        if self.at(place, &mut bytes)? < POINTER {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(u64::from_ne_bytes(bytes))
    }

    fn at(&self, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        // The kernel reads up to the first page that is not there.
        Ok(rustix::io::pread(&self.0, bytes, address)?)
    }
}

fn address(start: u64, offset: usize) -> io::Result<u64> {
    let offset = u64::try_from(offset).expect("a length fits");
    start
        .checked_add(offset)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_byte_of_a_file_is_where_its_offset_is_zero() {
        let maps = b"55d0c8a00000-55d0c8a01000 r--p 00000000 fe:00 131 /usr/bin/python3.11\n55d0c8a01000-55d0c8a02000 r-xp 00001000 fe:00 131 /usr/bin/python3.11\n7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n7f0000005000-7f0000006000 r--p 00000000 fe:00 7 /lib/my libc.so.6\nodd /x\n";
        let expected = [
            ("/usr/bin/python3.11".to_owned(), 0x55d0_c8a0_0000),
            ("/lib/my libc.so.6".to_owned(), 0x7f00_0000_5000),
        ];
        assert_eq!(first_bytes(maps), expected);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = first_bytes(&[&bytes[..], b" /lib/libc.so.6"].concat());
        }
    }

    #[test]
    fn c_libraries_are_known_by_name() {
        for path in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/libc-2.17.so",
            "/lib/ld-musl-x86_64.so.1",
        ] {
            assert!(is_c_library(path), "{path}");
        }
        assert!(!is_c_library("/usr/lib/libcrypto.so.3"));
        assert!(!is_c_library("/opt/libc.so.6/libz.so.1"));
    }
}
