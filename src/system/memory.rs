//! How the C library keeps memory that was given back, and which of the program's pages the process holds.
#![expect(
    unsafe_code,
    reason = "mallopt, malloc_trim and madvise are reached through libc only; this file is their door"
)]
#![expect(clippy::disallowed_methods, reason = "reads /proc")]

use std::ops::Range;

/// Memory blocks of at least this size are given back to the system as soon as they are free, bytes.
const LARGE: libc::c_int = 512 << 10;
/// Kept at the end of a heap, bytes: work that goes on does not ask for it again and again.
const KEPT: libc::c_int = 1 << 20;
/// The number of heaps that the threads share.
const HEAPS: libc::c_int = 2;

/// Keeps the process as small as what it works on. Each of the threads that work on files would otherwise keep a heap of its
/// own, as large as the longest list that it ever held. To be called before there are threads; does nothing where the C
/// library is not glibc.
pub fn be_frugal() {
    #[cfg(target_env = "gnu")]
    for (what, value) in
        [(libc::M_ARENA_MAX, HEAPS), (libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, KEPT)]
    {
        // SAFETY: takes two integers, and the process has one thread.
        unsafe { libc::mallopt(what, value) };
    }
}

/// Gives free memory of the heap back to the system. Who asks for memory meanwhile may wait, some milliseconds.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer; the heap's own locks are held by the call.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets go of what only the start needed: free memory of the heap, and the pages of code that were run once. The kernel keeps code
/// in its cache of files, and maps it again where it is run. Returns how many bytes of code may be mapped; none where `/proc` can't
/// be read.
pub fn let_go_of_the_start() -> usize {
    give_back();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let code = code_in(&maps);
    for pages in &code {
        // SAFETY: an executable, unwritable mapping of a file. Nothing of it is changed in memory (code is not relocated), so each
        // page is read from the file again as it was.
        unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED) };
    }
    code.iter().map(ExactSizeIterator::len).sum()
}

/// Returns where files are mapped as code, of the text of `/proc/PID/maps`.
fn code_in(maps: &str) -> Vec<Range<usize>> {
    let code = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        // Private, readable, executable, not writable; of a file, which has a path.
        let file = words.nth(3)?;
        let (from, to) = range.split_once('-')?;
        let at = |hex| usize::from_str_radix(hex, 16).ok();
        (rights == "r-xp" && file.starts_with('/')).then_some(at(from)?..at(to)?)
    };
    maps.lines().filter_map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_is_mapped_of_files_to_be_run_and_not_to_be_written() {
        let maps = "\
55d000000000-55d000500000 r--p 00000000 fd:00 12 /usr/bin/g2
55d000500000-55d001300000 r-xp 00500000 fd:00 12 /usr/bin/g2
55d001300000-55d001400000 rw-p 01300000 fd:00 12 /usr/bin/g2
7f0000000000-7f0000001000 rwxp 00000000 fd:00 13 /usr/lib/odd.so
7f0000002000-7f0000003000 r-xp 00000000 00:00 0
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
7f0000004000-7f0000005000 r-xp 00001000 fd:00 14 /usr/lib/libc.so.6 (deleted)
nonsense
";
        assert_eq!(code_in(maps), [0x55d0_0050_0000..0x55d0_0130_0000, 0x7f00_0000_4000..0x7f00_0000_5000]);
        assert!(code_in("").is_empty());
    }

    #[test]
    fn a_process_that_lets_go_of_its_start_goes_on_and_may_do_so_again() {
        let code = let_go_of_the_start();
        assert!(code > 0);
        assert_eq!(let_go_of_the_start(), code);
    }
}
