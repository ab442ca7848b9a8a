//! The file system beneath: what this module asks of a kernel, as one trait for what is open and one for what opens by a path. The
//! real one is `files/real.rs`. The twin of a simulation (`twin/`) is another one, in memory.
//!
//! A plain path is one of the real kernel, and [`Files::at`] names another. No path leads from one to the other: what is opened
//! below something is of the same kernel. A call that is new in this module is a method here, a step of `twin/tests/steps.rs`, and
//! the same for the twin, so that property tests compare the two.

mod real;

use std::{
    any::Any,
    ffi::CStr,
    fmt,
    fs::File,
    io,
    ops::{ControlFlow, Deref},
    path::Path,
    sync::{Arc, LazyLock},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat},
    io::{Errno, Result},
    path::Arg as _,
};

use super::{
    host::Owner,
    kernel::{Extended, Handle, Writer},
    names::Hands,
    watch::{Source, Watch},
};

/// What can be asked of an open file or folder. Paths are relative to it, and it is a folder then. Each method is one call to the
/// kernel, with its errors.
pub trait Descriptor: Any + fmt::Debug + Send + Sync {
    /// Opens what is beneath it: through no link, not even as the last name, over no mount, and not by `..` from above it. `XDEV`,
    /// `LOOP`: that would be needed.
    fn open(&self, path: &CStr, flags: OFlags, mode: Mode) -> Result<Fd>;
    /// Makes a folder.
    fn make_folder(&self, name: &CStr, mode: Mode) -> Result<()>;
    /// Says what stands at a name, links not followed.
    fn stat_at(&self, path: &CStr) -> Result<Stat>;
    /// Sets the mode of what stands at a name, which is no link.
    fn chmod_at(&self, name: &CStr, mode: Mode) -> Result<()>;
    /// Gives what stands at a name another one, which must be free.
    fn link(&self, from: &CStr, to_dir: &Fd, to: &CStr) -> Result<()>;
    /// Gives itself a name, which must be free.
    fn link_itself(&self, to_dir: &Fd, to: &CStr) -> Result<()>;
    /// Renames.
    fn rename(&self, from: &CStr, to_dir: &Fd, to: &CStr, flags: RenameFlags) -> Result<()>;
    /// Removes a name.
    fn unlink(&self, name: &CStr, flags: AtFlags) -> Result<()>;
    /// Gives names with what they are to `each`, until it breaks off: those that are read at once into `room` bytes, from where the
    /// last call ended. `.` and `..` are among them. `false`: there are none left.
    fn names(&self, room: usize, each: &mut dyn FnMut(&CStr, FileType) -> ControlFlow<()>) -> Result<bool>;

    /// Says what it is.
    fn stat(&self) -> Result<Stat>;
    /// Says when it was made.
    fn birth(&self) -> Result<Birth>;
    /// Which file it is, for as long as its file system lives; `None`: the file system does not say.
    fn handle(&self) -> Option<Handle>;
    /// Whether somebody has it open for writing. It is open for reading only.
    fn writer(&self) -> Writer;
    /// Sets its mode, whatever it was opened for.
    fn chmod(&self, mode: Mode) -> Result<()>;
    /// Sets its owner: user and group.
    fn chown(&self, user: u32, group: u32) -> Result<()>;
    /// Reads from a place in it; 0 at its end.
    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize>;
    /// The same, into the room that `into` has behind its bytes; what was read comes behind them.
    fn read_behind(&self, into: &mut Vec<u8>, at: u64) -> Result<usize> {
        let before = into.len();
        into.resize(into.capacity(), 0);
        let read = self.read_at(&mut into[before..], at);
        into.truncate(before + read.unwrap_or(0));
        read
    }
    /// Writes behind what was written before.
    fn write(&self, bytes: &[u8]) -> Result<usize>;
    /// Makes it survive a power cut.
    fn sync(&self) -> Result<()>;
    /// Makes its whole file system survive a power cut.
    fn sync_all(&self) -> Result<()>;
    /// Reads an attribute that a user set, at most as long as `into`; returns its length.
    fn attribute(&self, name: &CStr, into: &mut [u8]) -> Result<usize>;
    /// The same of what stands at a name, links not followed, nothing opened.
    fn attribute_at(&self, path: &CStr, name: &CStr, into: &mut [u8]) -> Result<usize>;
    /// Sets one.
    fn set_attribute(&self, name: &CStr, value: &[u8]) -> Result<()>;
    /// Its flags.
    fn flags(&self) -> Result<u32>;
    /// Sets its flags.
    fn set_flags(&self, flags: u32) -> Result<()>;
    /// Its extended flags, and its project.
    fn extended(&self) -> Result<Extended>;
    /// Sets them.
    fn set_extended(&self, extended: Extended) -> Result<()>;
    /// Returns it as a file of the real kernel, which may be a copy.
    fn to_file(&self) -> io::Result<File>;
}

/// When a file was made, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Major and minor.
    pub device: (u32, u32),
    pub ino: u64,
    /// Seconds and nanoseconds; `None`: the file system does not say.
    pub at: Option<(i64, u32)>,
}

/// What can be asked by a path, which is trusted.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// Opens what stands at a path.
    ///
    /// # Errors
    /// Those of the kernel.
    fn open(&self, path: &CStr, flags: OFlags) -> Result<Fd>;

    /// Says what stands at a path, links not followed as the last name.
    ///
    /// # Errors
    /// Those of the kernel.
    fn stat(&self, path: &CStr) -> Result<Stat>;

    /// Makes a folder.
    ///
    /// # Errors
    /// Those of the kernel.
    fn make_folder(&self, path: &CStr, mode: Mode) -> Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Those of the kernel.
    fn remove_folder(&self, path: &CStr) -> Result<()>;

    /// Returns what tells of changes in folders.
    fn watch(&self) -> Box<dyn Source>;

    /// Returns the names that this process gives to files in boxes.
    fn hands(&self) -> &Hands;

    /// Returns the user and group of this process.
    fn us(&self) -> Owner;
}

/// An open file or folder.
pub struct Fd(Box<dyn Descriptor>);

impl Fd {
    /// Returns one.
    #[must_use]
    pub fn of(descriptor: impl Descriptor) -> Self {
        Self(Box::new(descriptor))
    }

    /// Returns it as what it is, if it is that.
    #[must_use]
    pub fn known<T: Descriptor>(&self) -> Option<&T> {
        let is: &dyn Any = &*self.0;
        is.downcast_ref()
    }

    /// Returns it as a file of the real kernel, which may be a copy.
    ///
    /// # Errors
    /// There is no copy to be had.
    pub fn into_file(self) -> io::Result<File> {
        if self.known::<File>().is_none() {
            return self.to_file();
        }
        let is: Box<dyn Any> = self.0;
        is.downcast::<File>().map(|file| *file).map_err(|_| io::ErrorKind::Unsupported.into())
    }
}

impl Deref for Fd {
    type Target = dyn Descriptor;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A file system, as those have it who open folders by their paths. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Files(Arc<dyn Kernel>);

/// The real one.
static REAL: LazyLock<Files> = LazyLock::new(|| Files::of(real::Real));

impl Files {
    /// Returns the one that this kernel has.
    #[must_use]
    pub fn of(kernel: impl Kernel + 'static) -> Self {
        Self(Arc::new(kernel))
    }

    /// Returns the real one.
    #[must_use]
    pub fn real() -> &'static Self {
        &REAL
    }

    /// Returns a watch on nothing in it.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::of(self.0.watch())
    }

    pub(super) fn hands(&self) -> &Hands {
        self.0.hands()
    }

    /// The user and group of this process.
    pub(super) fn us(&self) -> Owner {
        self.0.us()
    }

    /// Returns a place in it.
    #[must_use]
    pub fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        At { files: self, path }
    }
}

/// A path, and in which file system it is. A plain path is one of the real one.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub(super) files: &'a Files,
    pub(super) path: &'a Path,
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for At<'a> {
    fn from(path: &'a P) -> Self {
        Files::real().at(path.as_ref())
    }
}

impl At<'_> {
    /// Opens a folder. A link there is followed.
    pub(super) fn open(self) -> Result<Fd> {
        self.open_as(OFlags::RDONLY)
    }

    /// Opens a folder. A link there is `NOTDIR`.
    pub(super) fn open_itself(self) -> Result<Fd> {
        self.open_as(OFlags::RDONLY | OFlags::NOFOLLOW)
    }

    /// The same, where its mode may keep us from reading it: only to open what is beneath it.
    pub(super) fn pass(self) -> Result<Fd> {
        self.open_as(OFlags::PATH | OFlags::NOFOLLOW)
    }

    fn open_as(self, flags: OFlags) -> Result<Fd> {
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.path.into_with_c_str(|path| self.files.0.open(path, flags))
    }

    /// Makes a folder there, unless something stands there.
    pub(super) fn make(self, mode: u32) -> Result<()> {
        match self.path.into_with_c_str(|path| self.files.0.make_folder(path, Mode::from_raw_mode(mode))) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Removes an empty folder.
    pub(super) fn remove(self) -> Result<()> {
        self.path.into_with_c_str(|path| self.files.0.remove_folder(path))
    }

    /// Says what stands there, a link not followed.
    pub(super) fn stat(self) -> Result<Stat> {
        self.path.into_with_c_str(|path| self.files.0.stat(path))
    }
}
