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

/// Lets go of what only the start needed: free memory of the heap, and the pages of the program's file that were run or read once.
/// The kernel keeps them in its cache of files, and maps each again where it is needed. Returns how many bytes of files may be
/// mapped; none where `/proc` can't be read.
pub fn let_go_of_the_start() -> usize {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer; the heap's own locks are held by the call.
    unsafe {
        libc::malloc_trim(0);
    }
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let clean = clean_in(&maps);
    for pages in &clean {
        // SAFETY: an unwritable mapping of a file of which no page differs from the file: each page is read from it again as it was.
        unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED) };
    }
    clean.iter().map(ExactSizeIterator::len).sum()
}

/// Returns where files are mapped to be run or read, of the text of `/proc/PID/smaps`. Not where the process has pages of its own:
/// the loader has written addresses to some that can only be read since.
fn clean_in(maps: &str) -> Vec<Range<usize>> {
    let file = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let file = words.nth(3)?;
        let (from, to) = range.split_once('-')?;
        let at = |hex| usize::from_str_radix(hex, 16).ok();
        (matches!(rights, "r-xp" | "r--p") && file.starts_with('/')).then_some(at(from)?..at(to)?)
    };
    let mut clean = Vec::new();
    let mut last = None;
    for line in maps.lines() {
        match line.split_once(':') {
            Some(("Anonymous", kib)) if kib.trim() == "0 kB" => clean.extend(last.take()),
            Some((name, _)) if name.starts_with(char::is_uppercase) => {}
            _ => last = file(line),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_is_what_is_mapped_of_files_not_to_be_written_and_has_no_page_of_its_own() {
        let of = |mapping: &str, own: &str| {
            clean_in(&format!("{mapping}\nSize: 12 kB\nAnonymous: {own} kB\nVmFlags: rd mr mw me\n"))
        };
        let code = "55d000500000-55d001300000 r-xp 00500000 fd:00 12 /usr/bin/g2";
        let read = "55d000000000-55d000500000 r--p 00000000 fd:00 12 /usr/bin/g2";
        let both = format!("{read}\nAnonymous: 0 kB\n{code}\nAnonymous: 0 kB\n");
        assert_eq!(clean_in(&both), [0x55d0_0000_0000..0x55d0_0050_0000, 0x55d0_0050_0000..0x55d0_0130_0000]);
        assert_eq!((of(code, "4"), of(read, "4")), (vec![], vec![]));
        for other in [
            "55d001300000-55d001400000 rw-p 01300000 fd:00 12 /usr/bin/g2",
            "7f0000000000-7f0000001000 rwxp 00000000 fd:00 13 /usr/lib/odd.so",
            "7f0000000000-7f0000001000 r--s 00000000 fd:00 13 /root/data/g2.sqlite-shm",
            "7f0000002000-7f0000003000 r-xp 00000000 00:00 0",
            "7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]",
            "nonsense",
            "",
        ] {
            assert!(of(other, "0").is_empty(), "{other}");
        }
        assert!(clean_in(code).is_empty(), "it is not known what it has of its own");
        // What is said of a later mapping is not said of the one before.
        let later = format!("{code}\n7f0000002000-7f0000003000 r-xp 00000000 00:00 0\nAnonymous: 0 kB\n");
        assert!(clean_in(&later).is_empty());
    }

    #[test]
    fn a_process_that_lets_go_of_its_start_goes_on_and_may_do_so_again() {
        let code = let_go_of_the_start();
        assert!(code > 0);
        assert_eq!(let_go_of_the_start(), code);
    }
}
