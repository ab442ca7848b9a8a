//! SQLite's side of a disk: a table of functions for files and one for the file system, in C's calling convention.
#![expect(unsafe_code, reason = "SQLite calls a VFS through pointers; nothing in safe code stands between")]
//!
//! What the blocks below rest on, and SQLite promises to every VFS:
//!
//! - The first argument is what was registered ([`Place`]'s table) or what `xOpen` filled ([`File`]), in memory of `szOsFile`
//!   bytes that stays where it is until `xClose`. No function of a file is called after that, or if `xOpen` failed.
//! - Buffers have as many bytes as their length says, and nobody else has them during the call. Names end with a zero.
//! - Pointers for answers can be written.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr::{null, null_mut},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rusqlite::ffi;

use super::{
    locks::Level,
    machine::{Handle, Machine},
};
use crate::Chance;

/// The longest path.
const PATH: usize = 512;
/// The Julian day number of 1970 begins, ms.
const JULIAN_1970: i64 = 210_866_760_000_000;

/// Where SQLite finds a disk: a registered VFS, for one disk after the other. So there are as many as there were disks at once.
pub(super) struct Place {
    name: CString,
    disk: Mutex<Weak<Machine>>,
}

/// Places without a disk, and how many there are.
static PLACES: Mutex<(Vec<&'static Place>, usize)> = Mutex::new((Vec::new(), 0));

impl Place {
    pub(super) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    fn set(&self, disk: Weak<Machine>) {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = disk;
    }

    fn disk(&self) -> Option<Arc<Machine>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// The disk is gone, with all files of it that were open.
    pub(super) fn give_back(&'static self) {
        PLACES.lock().unwrap_or_else(PoisonError::into_inner).0.push(self);
    }

    fn of_its_own() -> &'static Self {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.0.pop() {
            return place;
        }
        places.1 += 1;
        let name = CString::new(format!("g2-sim-{}", places.1)).unwrap_or_default();
        let place: &'static Self = Box::leak(Box::new(Self { name, disk: Mutex::default() }));
        let table = Box::leak(Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: size_of::<File>() as c_int,
            mxPathname: PATH as c_int,
            pNext: null_mut(),
            zName: place.name.as_ptr(),
            pAppData: std::ptr::from_ref(place).cast_mut().cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: Some(dl_open),
            xDlError: Some(dl_error),
            xDlSym: Some(dl_sym),
            xDlClose: Some(dl_close),
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: None,
            xCurrentTimeInt64: Some(current_time_int64),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        }));
        // SAFETY: table, name and place are never freed; another VFS has another name.
        let code = unsafe { ffi::sqlite3_vfs_register(table, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes no VFS");
        place
    }
}

/// Makes a disk that SQLite can find.
pub(super) fn machine(seed: u64) -> Arc<Machine> {
    let place = Place::of_its_own();
    let machine = Arc::new(Machine::new(place, seed));
    place.set(Arc::downgrade(&machine));
    machine
}

/// Has SQLite's own chance begin at a seed, of which it takes 32 bits.
pub(super) fn seed_sqlite(seed: u64) {
    let bits = Chance::new(seed).below(u64::from(u32::MAX)) as u32 + 1;
    // SAFETY: this control takes an `int` and a connection that may be null, and both are given as such.
    unsafe {
        ffi::sqlite3_test_control(
            ffi::SQLITE_TESTCTRL_PRNG_SEED,
            bits.cast_signed(),
            null_mut::<ffi::sqlite3>(),
        )
    };
}

/// What SQLite has of an open file.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// Made by `xOpen`, freed by `xClose`.
    handle: *mut Handle,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Shared memory, but no maps of the file itself.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

fn code(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(ffi::SQLITE_OK)
}

/// The disk of a VFS, unless it is gone.
///
/// # Safety
/// `vfs` is a table of [`Place::of_its_own`].
unsafe fn disk(vfs: *mut ffi::sqlite3_vfs) -> Option<Arc<Machine>> {
    // SAFETY: the table and its place are never freed, and nobody writes to the place but through its lock.
    unsafe { (*(*vfs).pAppData.cast::<Place>()).disk() }
}

/// # Safety
/// `file` was opened by [`open`], and not closed; the answer is not kept beyond the call.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> &'a Handle {
    // SAFETY: `open` put a handle there. It is only ever shared: a hook may come back to the same file.
    unsafe { &*(*file.cast::<File>()).handle }
}

/// # Safety
/// `name` is null, or a text that ends with a zero and stays during the call.
unsafe fn text<'a>(name: *const c_char) -> Option<Result<&'a str, c_int>> {
    // SAFETY: as promised.
    let name = unsafe { (!name.is_null()).then(|| CStr::from_ptr(name)) }?;
    Some(name.to_str().map_err(|_| ffi::SQLITE_CANTOPEN))
}

/// Where in a file, or how long: never negative, and what is too large is nowhere.
fn size(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX / 2)
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `file` has room for a `File`; without methods SQLite never closes it.
    unsafe {
        file.cast::<File>().write(File { base: ffi::sqlite3_file { pMethods: null() }, handle: null_mut() })
    };
    // SAFETY: SQLite gives the table that was registered, and a name or null.
    let (disk, name) = unsafe { (disk(vfs), text(name)) };
    let opened = name.transpose().and_then(|name| disk.ok_or(ffi::SQLITE_CANTOPEN)?.open(name, flags));
    match opened {
        Ok(handle) => {
            let handle = Box::into_raw(Box::new(handle));
            // SAFETY: as above; `out_flags` may be null.
            unsafe {
                file.cast::<File>()
                    .write(File { base: ffi::sqlite3_file { pMethods: &raw const METHODS }, handle });
                if !out_flags.is_null() {
                    *out_flags = flags;
                }
            }
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the handle is `open`'s, and this is the last call on the file. A hook is not asked, so nobody comes back to it.
    drop(unsafe { Box::from_raw((*file.cast::<File>()).handle) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: the file is open; the buffer has `len` bytes, and is filled with zeros first, as it may never have been written.
    let (handle, to) = unsafe {
        to.cast::<u8>().write_bytes(0, size(len));
        (handle(file), std::slice::from_raw_parts_mut(to.cast::<u8>(), size(len)))
    };
    match handle.read(size(at), to) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(code) => code,
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: the file is open; the buffer has `len` bytes.
    let (handle, from) = unsafe { (handle(file), std::slice::from_raw_parts(from.cast::<u8>(), size(len))) };
    code(handle.write(size(at), from))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: the file is open.
    code(unsafe { handle(file) }.truncate(size(len)))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open.
    code(unsafe { handle(file) }.sync())
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, answer: *mut i64) -> c_int {
    // SAFETY: the file is open.
    let len = unsafe { handle(file) }.len();
    code(len.map(|len| {
        // SAFETY: an answer can be written.
        unsafe { *answer = i64::try_from(len).unwrap_or(i64::MAX) }
    }))
}

const fn level(number: c_int) -> Level {
    match number {
        ffi::SQLITE_LOCK_NONE => Level::None,
        ffi::SQLITE_LOCK_SHARED => Level::Shared,
        ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
        ffi::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: the file is open.
    code(unsafe { handle(file) }.lock(level(wanted)))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, left: c_int) -> c_int {
    // SAFETY: the file is open.
    code(unsafe { handle(file) }.unlock(level(left)))
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: the file is open.
    let is_reserved = unsafe { handle(file) }.is_reserved();
    code(is_reserved.map(|is_reserved| {
        // SAFETY: an answer can be written.
        unsafe { *answer = is_reserved.into() }
    }))
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    control: c_int,
    argument: *mut c_void,
) -> c_int {
    if control != ffi::SQLITE_FCNTL_HAS_MOVED {
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: the file is open.
    let has_moved = unsafe { handle(file) }.has_moved();
    code(has_moved.map(|has_moved| {
        // SAFETY: the argument of this control is an `int` for the answer.
        unsafe { *argument.cast::<c_int>() = has_moved.into() }
    }))
}

/// As SQLite's own VFS for Unix says.
const unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// As SQLite's own VFS for Unix says: a write that is torn damages no byte beside it.
const unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | ffi::SQLITE_IOCAP_SUBPAGE_READ
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extends: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is open.
    let mapped = unsafe { handle(file) }.map(size(region), size(bytes), extends != 0);
    let (pointer, code) = match mapped {
        // Atomics may be written through a shared reference. The handle keeps them until SQLite gives them back.
        Ok(region) => (region.map_or(null_mut(), |region| region.as_ptr().cast_mut().cast()), ffi::SQLITE_OK),
        Err(code) => (null_mut(), code),
    };
    // SAFETY: an answer can be written.
    unsafe { *answer = pointer };
    code
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    slots: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle(file) };
    let slots = ((1_u32 << slots) - 1) << first;
    code(if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        handle.give_slots(slots)
    } else {
        handle.take_slots(slots, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0)
    })
}

unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open.
    unsafe { handle(file) }.unmap();
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, syncs_names: c_int) -> c_int {
    // SAFETY: SQLite gives the table that was registered, and a name.
    let (Some(disk), Some(name)) = (unsafe { (disk(vfs), text(name)) }) else { return ffi::SQLITE_IOERR };
    code(name.and_then(|name| disk.delete(name, syncs_names != 0)))
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives the table that was registered, and a name.
    let (Some(disk), Some(name)) = (unsafe { (disk(vfs), text(name)) }) else { return ffi::SQLITE_IOERR };
    // For SQLite's own VFS, too, a file without bytes does not exist.
    let exists = name.and_then(|name| disk.exists(name, flags == ffi::SQLITE_ACCESS_EXISTS));
    code(exists.map(|exists| {
        // SAFETY: an answer can be written.
        unsafe { *answer = exists.into() }
    }))
}

/// Paths are taken as they are.
unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    answer: *mut c_char,
) -> c_int {
    // SAFETY: a name ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if name.len() > size(room) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: there is room for it, in memory of SQLite's own that is not the name's.
    unsafe { answer.copy_from_nonoverlapping(name.as_ptr().cast(), name.len()) };
    ffi::SQLITE_OK
}

/// There are no libraries on a disk.
const unsafe extern "C" fn dl_open(_: *mut ffi::sqlite3_vfs, _: *const c_char) -> *mut c_void {
    null_mut()
}

unsafe extern "C" fn dl_error(_: *mut ffi::sqlite3_vfs, room: c_int, answer: *mut c_char) {
    if room > 0 {
        // SAFETY: there is room for an empty text.
        unsafe { *answer = 0 };
    }
}

const unsafe extern "C" fn dl_sym(
    _: *mut ffi::sqlite3_vfs,
    _: *mut c_void,
    _: *const c_char,
) -> Option<unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char)> {
    None
}

const unsafe extern "C" fn dl_close(_: *mut ffi::sqlite3_vfs, _: *mut c_void) {}

unsafe extern "C" fn randomness(vfs: *mut ffi::sqlite3_vfs, len: c_int, to: *mut c_char) -> c_int {
    // SAFETY: SQLite gives the table that was registered, and a buffer of `len` bytes, which are written before they are read.
    let (disk, to) = unsafe {
        to.write_bytes(0, size(len));
        (disk(vfs), std::slice::from_raw_parts_mut(to.cast::<u8>(), size(len)))
    };
    if let Some(disk) = disk {
        disk.fill(to);
    }
    len
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    // SAFETY: SQLite gives the table that was registered.
    if let Some(disk) = unsafe { disk(vfs) } {
        disk.sleep(u64::try_from(micros).unwrap_or(0));
    }
    micros
}

unsafe extern "C" fn current_time_int64(vfs: *mut ffi::sqlite3_vfs, answer: *mut i64) -> c_int {
    // SAFETY: SQLite gives the table that was registered.
    let now = unsafe { disk(vfs) }.map_or(0, |disk| disk.state().now);
    // SAFETY: an answer can be written.
    unsafe { *answer = JULIAN_1970 + now };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, answer: *mut f64) -> c_int {
    let mut ms = 0;
    // SAFETY: the same arguments, and an answer of this function's own.
    let code = unsafe { current_time_int64(vfs, &raw mut ms) };
    // SAFETY: an answer can be written.
    unsafe { *answer = ms as f64 / 86_400_000.0 };
    code
}
