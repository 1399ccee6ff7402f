//! As much of an ELF file as it takes to find a symbol: 64-bit, little endian, of any processor.
//!
//! The file may be anything, so each part has a limit and nothing is believed unchecked.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use regex::bytes::Regex;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;

/// More segments or sections than this are not looked at.
const MOST_PARTS: usize = 4096;

/// A section longer than this is not read, bytes.
const LONGEST_SECTION: u64 = 32 << 20;

const EXECUTABLE: u16 = 2;
const LOADED: u32 = 1;
const SYMBOLS: u32 = 2;
const DYNAMIC_SYMBOLS: u32 = 11;
const OBJECT: u8 = 1;

/// One ELF file.
#[derive(Debug)]
pub(crate) struct Elf {
    /// Whether it is linked to fixed addresses; all others are relative to where its first byte is mapped.
    is_fixed: bool,
    /// The address of its first segment, as linked.
    first_address: u64,
    sections: Vec<Section>,
    /// The names of sections.
    names: Vec<u8>,
}

/// Where something is in the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The same wherever the file is mapped.
    Fixed(u64),
    /// So many bytes behind where the file's first byte is mapped.
    Behind(u64),
}

#[derive(Clone, Copy, Debug)]
struct Section {
    name: u32,
    kind: u32,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
}

impl Elf {
    /// Reads the tables of `file`; nothing if it is no such ELF file. Errors: the file cannot be read.
    pub(crate) fn read(file: &File) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        match file.read_exact_at(&mut header, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        // 64-bit and little endian.
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Ok(None);
        }
        let count = |at| usize::from(u16_at(&header, at)).min(MOST_PARTS);
        let segments = read(file, u64_at(&header, 32), count(56) * SEGMENT_BYTES)?;
        let first_address = segments
            .chunks_exact(SEGMENT_BYTES)
            .find(|segment| u32_at(segment, 0) == LOADED)
            .map_or(0, |segment| u64_at(segment, 16));
        let sections = read(file, u64_at(&header, 40), count(60) * SECTION_BYTES)?;
        let sections: Vec<Section> = sections
            .chunks_exact(SECTION_BYTES)
            .map(Section::of)
            .collect();
        let mut elf = Self {
            is_fixed: u16_at(&header, 16) == EXECUTABLE,
            first_address,
            sections,
            names: Vec::new(),
        };
        if let Some(names) = elf.sections.get(usize::from(u16_at(&header, 62))) {
            elf.names = names.content(file)?;
        }
        Ok(Some(elf))
    }

    /// Returns whether it defines or asks for a symbol that begins with one of `starts`; where the names of its symbols
    /// were stripped, nothing.
    pub(crate) fn names_symbol(&self, file: &File, starts: &[&str]) -> io::Result<Option<bool>> {
        // Those of the dynamic linker say it all where there are any.
        for kind in [DYNAMIC_SYMBOLS, SYMBOLS] {
            if let Some(symbols) = self.sections.iter().find(|section| section.kind == kind) {
                let names = self.linked(*symbols, file)?;
                let is_there = |start: &&str| find(&names, &format!("\0{start}")).is_some();
                return Ok(Some(starts.iter().any(is_there)));
            }
        }
        Ok(None)
    }

    /// Returns the address of the symbol called `name`, as linked.
    pub(crate) fn symbol(&self, file: &File, name: &str) -> io::Result<Option<u64>> {
        let tables = self
            .sections
            .iter()
            .filter(|section| matches!(section.kind, SYMBOLS | DYNAMIC_SYMBOLS));
        for table in tables {
            let names = self.linked(*table, file)?;
            let Some(at) = find(&names, &format!("\0{name}\0")) else {
                continue;
            };
            let symbols = table.content(file)?;
            let defined = symbols
                .chunks_exact(SYMBOL_BYTES)
                .find(|symbol| u32_at(symbol, 0) as usize == at + 1 && u16_at(symbol, 6) != 0);
            if let Some(symbol) = defined {
                return Ok(Some(u64_at(symbol, 8)));
            }
        }
        Ok(None)
    }

    /// Returns the address, as linked, of the variable that has one of `names`. Unlike `symbol` it compares each symbol: a
    /// linker may keep one name as the end of another.
    pub(crate) fn variable(&self, file: &File, names: &[&str]) -> io::Result<Option<u64>> {
        let tables = self
            .sections
            .iter()
            .filter(|section| matches!(section.kind, SYMBOLS | DYNAMIC_SYMBOLS));
        for table in tables {
            let texts = self.linked(*table, file)?;
            let is_named = |symbol: &[u8]| {
                let text = texts.get(u32_at(symbol, 0) as usize..).unwrap_or_default();
                names.iter().any(|name| {
                    text.strip_prefix(name.as_bytes())
                        .is_some_and(|rest| rest.first() == Some(&0))
                })
            };
            let symbols = table.content(file)?;
            let found = symbols.chunks_exact(SYMBOL_BYTES).find(|symbol| {
                symbol[4] & 0xf == OBJECT && u16_at(symbol, 6) != 0 && is_named(symbol)
            });
            if let Some(symbol) = found {
                return Ok(Some(u64_at(symbol, 8)));
            }
        }
        Ok(None)
    }

    /// Returns where something linked to `address` is in the memory of a process that runs this file.
    pub(crate) fn place(&self, address: u64) -> Place {
        if self.is_fixed {
            Place::Fixed(address)
        } else {
            Place::Behind(address.wrapping_sub(self.first_address))
        }
    }

    /// Returns where the section called `name` is in memory, as linked.
    pub(crate) fn section(&self, name: &str) -> Option<Range<u64>> {
        let section = self.named(name)?;
        Some(section.address..section.address.checked_add(section.size)?)
    }

    /// Returns whether the section called `name` holds `text` in the file.
    pub(crate) fn holds(&self, file: &File, name: &str, text: &str) -> io::Result<bool> {
        let content = self.named(name).map(|section| section.content(file));
        Ok(find(&content.transpose()?.unwrap_or_default(), text).is_some())
    }

    /// Returns where something linked to `address` is when the file's first byte is mapped at `start`.
    pub(crate) fn mapped(&self, address: u64, start: u64) -> u64 {
        match self.place(address) {
            Place::Fixed(address) => address,
            Place::Behind(bytes) => start.wrapping_add(bytes),
        }
    }

    fn named(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| {
            let text = self.names.get(section.name as usize..).unwrap_or_default();
            text.strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    fn linked(&self, table: Section, file: &File) -> io::Result<Vec<u8>> {
        let names = self.sections.get(table.link as usize);
        Ok(names
            .map(|section| section.content(file))
            .transpose()?
            .unwrap_or_default())
    }
}

impl Section {
    fn of(bytes: &[u8]) -> Self {
        Self {
            name: u32_at(bytes, 0),
            kind: u32_at(bytes, 4),
            address: u64_at(bytes, 16),
            offset: u64_at(bytes, 24),
            size: u64_at(bytes, 32),
            link: u32_at(bytes, 40),
        }
    }

    /// Returns what the file holds of it; nothing of one that is too long.
    fn content(&self, file: &File) -> io::Result<Vec<u8>> {
        match usize::try_from(self.size) {
            Ok(size) if self.size <= LONGEST_SECTION => read(file, self.offset, size),
            _ => Ok(Vec::new()),
        }
    }
}

/// Reads up to `size` bytes; a file that ends before is no error.
fn read(file: &File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    // The file may be shorter than it says: nothing is allocated for what is not there.
    let there = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; size.min(usize::try_from(there).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn find(text: &[u8], wanted: &str) -> Option<usize> {
    let wanted = Regex::new(&regex::escape(wanted)).expect("an escaped text is an expression");
    wanted.find(text).map(|found| found.start())
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let part = bytes.get(at..at + N).and_then(|part| part.try_into().ok());
    part.unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(part(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(part(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(part(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn own() -> (File, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        (File::open(&path).unwrap(), std::fs::read(path).unwrap())
    }

    #[test]
    fn a_symbol_of_this_program_is_where_it_really_is() {
        let (file, _) = own();
        let elf = Elf::read(&file).unwrap().unwrap();
        let linked = elf.symbol(&file, "main").unwrap().unwrap();
        let text = elf.section(".text").unwrap();
        assert!(text.contains(&linked), "{linked:x} is not in {text:x?}");
        assert_eq!(elf.symbol(&file, "no_such_symbol").unwrap(), None);
        assert_eq!(elf.variable(&file, &["main", "no_such"]).unwrap(), None);
        assert_eq!(elf.names_symbol(&file, &["malloc"]).unwrap(), Some(true));
        assert_eq!(elf.names_symbol(&file, &["Py_Init"]).unwrap(), Some(false));
        assert!(elf.holds(&file, ".rodata", "no_such_symbol").unwrap());
    }

    #[test]
    fn a_cut_or_broken_file_is_no_reason_to_panic() {
        let (_, bytes) = own();
        for end in [0, 3, 63, 64, 100, 4096] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes[..end]).unwrap();
            let elf = Elf::read(&file).unwrap();
            assert_eq!(elf.is_some(), end >= HEADER_BYTES);
            assert!(elf.is_none_or(|elf| elf.section(".text").is_none()));
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes[..16]).unwrap();
        file.write_all(&[0xff; 200]).unwrap();
        let elf = Elf::read(&file).unwrap().unwrap();
        assert_eq!(elf.symbol(&file, "main").unwrap(), None);
    }
}
