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

/// So far around a page that is touched its neighbours may be mapped with it, bytes. The kernel's own measure is 64 KiB
/// (`fault_around_bytes` in `mm/memory.c`); half of that maps a fifth less of our program, and takes the kernel 7 KiB for each MiB.
const PIECE: usize = 32 << 10;

/// Gives back the pages of the program and its libraries that nobody has written, for the whole process: what is needed of them
/// is mapped again at its first use, from the page cache, in pieces of [`PIECE`].
///
/// A start touches much (arguments, settings, the loader's own tables), and the kernel maps 16 pages around each that is
/// touched. In a helper three of four of them are never used again, and each process of ours has them in its resident memory.
pub(crate) fn forget_start() {
    #[expect(unsafe_code, reason = "dl_iterate_phdr has no safe wrapper")]
    // SAFETY: the loader calls `forget_unwritten` with each object that is loaded, as its signature says, and keeps nothing.
    unsafe {
        libc::dl_iterate_phdr(Some(forget_unwritten), std::ptr::null_mut());
    }
}

/// Counts pieces of work of one kind, and gives back what of the program only a start needs after the first of them, the second, the
/// fourth, and so on. What is done once, such as finding out what a Python is, is spread over the first ones; what is done
/// seldom, over all.
#[derive(Debug, Default)]
pub struct Starts {
    done: u64,
}

impl Starts {
    /// Notes that a piece of work is done; so seldom that much is given back costs nothing in the long run.
    pub fn done(&mut self) {
        self.done += 1;
        if self.done.is_power_of_two() {
            forget_start();
        }
    }
}

/// Gives back the segments of one loaded object that are mapped from its file without the right to write.
#[expect(
    unsafe_code,
    reason = "headers of loaded objects are reached by address"
)]
unsafe extern "C" fn forget_unwritten(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a valid object, whose headers stay while it is loaded, and it is not unloaded meanwhile.
    let (base, headers) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        (
            object.dlpi_addr,
            std::slice::from_raw_parts(object.dlpi_phdr, count),
        )
    };
    let unwritten = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0);
    for header in unwritten {
        let page = u64::try_from(rustix::param::page_size()).expect("a page is small");
        let start = base + header.p_vaddr;
        let offset = start % page;
        let length = usize::try_from(header.p_memsz + offset).expect("it is in memory");
        let start = usize::try_from(start - offset).expect("it is in memory");
        divide(start, length);
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the pages are those of a file, mapped private and without the right to write, so they hold what the file
        // holds, and hold it again when they are next touched. What refuses this (locked pages) is left as it is.
        unsafe {
            libc::madvise(start, length, libc::MADV_DONTNEED);
        }
    }
    0
}

/// Makes mappings of [`PIECE`] bytes of one that is not written, but for its beginning, where the header is that tells debuggers
/// what it is.
///
/// Where one page is touched, the kernel maps those of its neighbours that are in the page cache, and all 2 MiB of a folio that lies
/// so that a table of pages can be left out (`do_fault_around` in `mm/memory.c`, `filemap_map_pmd` in `mm/filemap.c`), but no further
/// than the mapping reaches. Two mappings are one unless they differ, so every second one is left out of core dumps, which leave
/// pages of files out anyway (core(5)).
fn divide(start: usize, length: usize) {
    let end = start + length;
    for piece in (start / PIECE + 1..end.div_ceil(PIECE)).step_by(2) {
        let piece = piece * PIECE;
        let length = PIECE.min(end - piece);
        #[expect(unsafe_code, reason = "madvise has no safe wrapper")]
        // SAFETY: this changes what a core dump holds, and neither the pages nor what may be done with them.
        unsafe {
            libc::madvise(
                std::ptr::with_exposed_provenance_mut(piece),
                length,
                libc::MADV_DONTDUMP,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of this program's file that are resident.
    fn resident_of_files() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssFile:"));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }

    /// The longest mapping of this program's code, bytes.
    fn longest_of_code() -> usize {
        let program = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let code = maps
            .lines()
            .filter(|line| line.contains(" r-xp ") && line.ends_with(program.to_str().unwrap()));
        let lengths = code.map(|line| {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|it| usize::from_str_radix(it, 16).unwrap());
            end - start
        });
        lengths.max().unwrap()
    }

    #[test]
    fn what_is_forgotten_comes_back_when_it_is_used() {
        static WORDS: [&str; 3] = ["of", "the", "file"];
        if !testkit::alone("allocator::tests::what_is_forgotten_comes_back_when_it_is_used") {
            return;
        }
        let before = resident_of_files();
        assert!(longest_of_code() > 2 * PIECE);
        forget_start();
        assert!(longest_of_code() <= 2 * PIECE);
        let after = resident_of_files();
        assert!(after < before, "{after} of {before} kB");
        assert_eq!(WORDS.concat(), "ofthefile");
        assert!(std::panic::catch_unwind(|| panic!("unwinds")).is_err());
    }
}
