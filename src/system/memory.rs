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

/// Lets go of what only the start needed: free memory of the heap, and the pages of code, and of the program's own constants, that
/// were needed once. The kernel keeps them in its cache of files, and maps each again where it is needed. Returns how many bytes of
/// files may be mapped; none where `/proc` can't be read.
pub fn let_go_of_the_start() -> usize {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer; the heap's own locks are held by the call.
    unsafe {
        libc::malloc_trim(0);
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = rustix::fs::stat("/proc/self/exe").map_or(0, |stat| stat.st_ino);
    let clean = clean_in(&maps, program);
    for pages in &clean {
        // SAFETY: an unwritable mapping of a file. Nothing of it is changed in memory (neither code nor what is before it is
        // relocated), so each page is read from the file again as it was.
        unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED) };
    }
    clean.iter().map(ExactSizeIterator::len).sum()
}

/// Returns where files are mapped as code, and where the beginning of the program's file is (its inode is `program`), of the
/// text of `/proc/PID/maps`. What else can only be read may have been written before: the loader puts addresses there.
fn clean_in(maps: &str, program: u64) -> Vec<Range<usize>> {
    let clean = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
        let inode = words.nth(1)?.parse::<u64>().ok()?;
        // Private, readable, not writable; of a file, which has a path.
        let is_of_a_file = words.next()?.starts_with('/');
        let is_constant = rights == "r--p" && u64::from_str_radix(offset, 16) == Ok(0) && inode == program;
        let (from, to) = range.split_once('-')?;
        let at = |hex| usize::from_str_radix(hex, 16).ok();
        (is_of_a_file && (rights == "r-xp" || is_constant)).then_some(at(from)?..at(to)?)
    };
    maps.lines().filter_map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_is_code_and_the_beginning_of_the_program_and_nothing_that_the_loader_writes_to() {
        let maps = "\
55d000000000-55d000500000 r--p 00000000 fd:00 12 /usr/bin/g2
55d000500000-55d001300000 r-xp 00500000 fd:00 12 /usr/bin/g2
55d001300000-55d001310000 r--p 01300000 fd:00 12 /usr/bin/g2
55d001310000-55d001400000 rw-p 01310000 fd:00 12 /usr/bin/g2
7f0000000000-7f0000001000 rwxp 00000000 fd:00 13 /usr/lib/odd.so
7f0000002000-7f0000003000 r-xp 00000000 00:00 0
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
7f0000003000-7f0000004000 r--p 00000000 fd:00 14 /usr/lib/libc.so.6 (deleted)
7f0000004000-7f0000005000 r-xp 00001000 fd:00 14 /usr/lib/libc.so.6 (deleted)
7f0000005000-7f0000006000 r--s 00000000 fd:00 12 /root/data/g2.sqlite-shm
nonsense
";
        let code = [0x55d0_0050_0000..0x55d0_0130_0000, 0x7f00_0000_4000..0x7f00_0000_5000];
        assert_eq!(clean_in(maps, 0), code);
        let [code, later] = code;
        assert_eq!(clean_in(maps, 12), [0x55d0_0000_0000..0x55d0_0050_0000, code, later]);
        assert!(clean_in("", 12).is_empty());
    }

    #[test]
    fn a_process_that_lets_go_of_its_start_goes_on_and_may_do_so_again() {
        let code = let_go_of_the_start();
        assert!(code > 0);
        assert_eq!(let_go_of_the_start(), code);
    }
}
