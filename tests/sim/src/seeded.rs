//! The kernel's chance, by a seed. The standard library's maps and the runtime begin with chance from `getrandom`; a process that
//! tells a story has to get the same each time.
#![expect(unsafe_code, reason = "stands in for a function of the C library")]

use std::{
    ffi::{c_uint, c_void},
    sync::{Mutex, PoisonError},
};

use crate::Chance;

static CHANCE: Mutex<Option<Chance>> = Mutex::new(None);

/// Has all chance of this process depend on a seed from now on. To be called first.
pub fn begin(seed: u64) {
    *CHANCE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Chance::new(seed));
}

/// Stands in for the C library's function of this name.
///
/// # Safety
/// As of that one: `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    let mut chance = CHANCE.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *chance {
        Some(chance) => {
            // SAFETY: the caller says that there is room for so many bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
            chance.fill(bytes);
            length.try_into().unwrap_or(isize::MAX)
        }
        // SAFETY: the kernel gets what the caller gave us.
        None => {
            let got = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
            got.try_into().unwrap_or(-1)
        }
    }
}
