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

/// Gives free memory of the heap back to the system. A thread that asks for memory meanwhile may wait, some milliseconds.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer; the heap's own locks are held by the call.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets go of what only the start needed: free memory of the heap, and the pages of the program and its libraries that were used
/// once. The kernel keeps them in its cache of files, and maps them again where they are used. Returns how many bytes of them may
/// be mapped; none where `/proc` can't be read.
pub fn let_go_of_the_start() -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let unchanged = unchanged_in(&maps);
    drop(maps);
    give_back();
    for pages in &unchanged {
        // SAFETY: an unwritable mapping of a file. No page of it was changed in memory, so each is read from the file again as it was.
        unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED) };
    }
    unchanged.iter().map(ExactSizeIterator::len).sum()
}

/// Returns where files are mapped that can't be written to and of which no page was changed in memory, of the text of
/// `/proc/PID/smaps`.
fn unchanged_in(maps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // The one whose figures follow, and whether none of its pages in memory is the process's own.
    let (mut file, mut is_unchanged) = (None, false);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Anonymous:"), Some(kib)) => is_unchanged = kib == "0",
            // Where a kernel does not tell both, nothing is found.
            (Some("Swap:"), Some(kib)) => found.extend(file.take().filter(|_| is_unchanged && kib == "0")),
            (Some(name), _) if name.ends_with(':') => {}
            (Some(range), Some(rights)) => {
                // Private, readable, not writable; of a file, which has a path.
                let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
                file = pages(range).filter(|_| is_file && matches!(rights, "r-xp" | "r--p"));
                is_unchanged = false;
            }
            _ => {}
        }
    }
    found
}

fn pages(range: &str) -> Option<Range<usize>> {
    let (from, to) = range.split_once('-')?;
    let at = |hex| usize::from_str_radix(hex, 16).ok();
    Some(at(from)?..at(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_of_files_and_was_not_changed_is_told_from_all_else() {
        let maps = "\
55d000000000-55d000500000 r--p 00000000 fd:00 12 /usr/bin/g2
Rss:                1524 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
55d000500000-55d001300000 r-xp 00500000 fd:00 12 /usr/bin/g2
Anonymous:             0 kB
Swap:                  0 kB
55d001300000-55d001400000 r--p 01300000 fd:00 12 /usr/bin/g2
Anonymous:           724 kB
Swap:                  0 kB
55d001400000-55d001410000 rw-p 01400000 fd:00 12 /usr/bin/g2
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000001000 rwxp 00000000 fd:00 13 /usr/lib/odd.so
7f0000002000-7f0000003000 r-xp 00000000 00:00 0
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
7f0000004000-7f0000005000 r-xp 00001000 fd:00 14 /usr/lib/libc.so.6 (deleted)
Anonymous:             0 kB
Swap:                  0 kB
7f0000005000-7f0000006000 r--p 00002000 fd:00 14 /usr/lib/libc.so.6 (deleted)
Anonymous:             0 kB
Swap:                  4 kB
7f0000006000-7f0000007000 r--s 00002000 fd:00 15 /shared
Anonymous:             0 kB
Swap:                  0 kB
7f0000007000-7f0000008000 r--p 00002000 fd:00 15 /not-told-of
Swap:                  0 kB
7f0000008000-7f0000009000 r--p 00002000 fd:00 15 /told-of-by-half
Anonymous:             0 kB
nonsense
";
        let expected = [
            0x55d0_0000_0000..0x55d0_0050_0000,
            0x55d0_0050_0000..0x55d0_0130_0000,
            0x7f00_0000_4000..0x7f00_0000_5000,
        ];
        assert_eq!(unchanged_in(maps), expected);
        assert!(unchanged_in("").is_empty());
    }

    #[test]
    fn a_process_that_lets_go_of_its_start_goes_on_and_may_do_so_again() {
        assert!(let_go_of_the_start() > 0);
        assert!(let_go_of_the_start() > 0);
    }
}
