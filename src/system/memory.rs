//! How the C library keeps memory that was given back.
#![expect(unsafe_code, reason = "mallopt is reached through libc only; this file is its door")]

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
