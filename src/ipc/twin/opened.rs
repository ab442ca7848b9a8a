//! What the daemon has open in the twin.

use std::{
    ffi::{CStr, CString},
    fmt,
    fs::File,
    io,
    ops::ControlFlow,
    sync::LazyLock,
};

use rustix::{
    fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, RenameFlags, Stat},
    io::{Errno, Result},
};

use super::{
    Op, Process, State, Twin,
    disk::{Disk, Kind, Number, Opening, ROOT, Renaming, Who},
    walk::How,
};
use crate::ipc::{
    files::{Birth, Descriptor, Fd, Kernel},
    host::Owner,
    kernel::{Extended, Handle, Writer},
    names::Hands,
    watch::Source,
};

/// The device that files of the twin are on.
const DEVICE: u64 = 0x7477_696e;
/// How many bytes an entry takes beside its name, as the kernel lists it.
const ENTRY: usize = 24;
/// What any `stat` has beside what a twin sets.
static EMPTY: LazyLock<Option<Stat>> = LazyLock::new(|| rustix::fs::stat("/").ok());

/// A file or folder that the daemon has open.
struct Open {
    twin: Twin,
    id: u64,
    /// In which life.
    life: u64,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Open({})", self.id)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.twin.state();
        if state.life == self.life {
            state.disk.close(self.id);
            state.tell();
        }
    }
}

impl Twin {
    fn open_in(&self, state: &mut State, at: Number, path: &CStr, opening: Opening, how: How) -> Result<Fd> {
        let id = state.call(Op::Open, Some(at), path.to_bytes(), |disk, who| {
            let id = disk.open(at, path.to_bytes(), opening, how, who)?;
            disk.opened_mut(id)?.is_daemons = true;
            Ok(id)
        })?;
        Ok(Fd::of(Open { twin: self.clone(), id, life: state.life }))
    }
}

impl Kernel for Process {
    fn open(&self, path: &CStr, flags: OFlags) -> Result<Fd> {
        let opening = opening(flags, Mode::empty());
        self.twin.open_in(&mut self.twin.state(), ROOT, path, opening, How::default())
    }

    fn stat(&self, path: &CStr) -> Result<Stat> {
        let path = path.to_bytes();
        self.twin.state().call(Op::StatAt, Some(ROOT), path, |disk, who| {
            disk.stat(disk.find_at(ROOT, path, How::default(), who)?)
        })
    }

    fn make_folder(&self, path: &CStr, mode: Mode) -> Result<()> {
        let path = path.to_bytes();
        self.twin.state().call(Op::MakeFolder, Some(ROOT), path, |disk, who| {
            disk.make_folder(ROOT, path, mode.bits(), who).map(drop)
        })
    }

    fn remove_folder(&self, path: &CStr) -> Result<()> {
        let path = path.to_bytes();
        self.twin
            .state()
            .call(Op::RemoveFolder, Some(ROOT), path, |disk, who| disk.remove_folder(ROOT, path, who))
    }

    fn watch(&self) -> Box<dyn Source> {
        self.twin.source()
    }

    fn hands(&self) -> &Hands {
        &self.hands
    }

    fn us(&self) -> Owner {
        self.us
    }
}

/// How something is to be opened by these flags.
fn opening(flags: OFlags, mode: Mode) -> Opening {
    let access = flags & OFlags::RWMODE;
    let passes = flags.contains(OFlags::PATH);
    Opening {
        reads: !passes && (access == OFlags::RDONLY || access == OFlags::RDWR),
        writes: !passes && (access == OFlags::WRONLY || access == OFlags::RDWR),
        passes,
        folder: flags.contains(OFlags::DIRECTORY),
        makes: flags.contains(OFlags::CREATE),
        only_makes: flags.contains(OFlags::EXCL),
        empties: flags.contains(OFlags::TRUNC),
        unnamed: flags.contains(OFlags::TMPFILE),
        follows: !flags.contains(OFlags::NOFOLLOW),
        mode: mode.bits(),
    }
}

impl Open {
    /// Makes a call in the folder that this is.
    fn at<T>(
        &self,
        op: Op,
        path: &CStr,
        act: impl FnOnce(&mut Disk, Number, &[u8], Who) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.twin.state();
        let node = self.node(&state)?;
        let path = path.to_bytes();
        state.call(op, Some(node), path, |disk, who| act(disk, node, path, who))
    }

    /// Makes a call on what this is.
    fn on<T>(&self, op: Op, act: impl FnOnce(&mut Disk, Number, Who) -> Result<T>) -> Result<T> {
        let mut state = self.twin.state();
        let node = self.node(&state)?;
        let folder = state.disk.is_folder(node).then_some(node);
        state.call(op, folder, b"", |disk, who| act(disk, node, who))
    }

    /// The same of one that is not open for its name alone.
    fn within<T>(&self, op: Op, act: impl FnOnce(&mut Disk, Number, Who) -> Result<T>) -> Result<T> {
        self.on(op, |disk, node, who| {
            if disk.opened(self.id)?.passes {
                return Err(Errno::BADF);
            }
            act(disk, node, who)
        })
    }

    fn node(&self, state: &State) -> Result<Number> {
        if state.life != self.life {
            return Err(Errno::IO);
        }
        Ok(state.disk.opened(self.id)?.node)
    }

    /// Returns the inode of another folder, if it is of this file system.
    fn of_same(&self, other: &Fd) -> Result<Number> {
        let other = other.known::<Self>().filter(|other| std::sync::Arc::ptr_eq(&other.twin.0, &self.twin.0));
        let other = other.ok_or(Errno::XDEV)?;
        other.node(&self.twin.state())
    }
}

impl Descriptor for Open {
    fn open(&self, path: &CStr, flags: OFlags, mode: Mode) -> Result<Fd> {
        let mut state = self.twin.state();
        let node = self.node(&state)?;
        let how = How { beneath: true, follows: false };
        self.twin.open_in(&mut state, node, path, opening(flags, mode), how)
    }

    fn make_folder(&self, name: &CStr, mode: Mode) -> Result<()> {
        self.at(Op::MakeFolder, name, |disk, at, name, who| {
            disk.make_folder(at, name, mode.bits(), who).map(drop)
        })
    }

    fn stat_at(&self, path: &CStr) -> Result<Stat> {
        self.at(Op::StatAt, path, |disk, at, path, who| {
            disk.stat(disk.find_at(at, path, How::default(), who)?)
        })
    }

    fn chmod_at(&self, name: &CStr, mode: Mode) -> Result<()> {
        self.at(Op::ChmodAt, name, |disk, at, name, who| {
            let how = How { follows: true, ..How::default() };
            disk.chmod(disk.find_at(at, name, how, who)?, mode.bits(), who)
        })
    }

    fn link(&self, from: &CStr, to_dir: &Fd, to: &CStr) -> Result<()> {
        let to_dir = self.of_same(to_dir)?;
        self.at(Op::Link, from, |disk, at, from, who| disk.link((at, from), (to_dir, to.to_bytes()), who))
    }

    fn link_itself(&self, to_dir: &Fd, to: &CStr) -> Result<()> {
        let (to_dir, to) = (self.of_same(to_dir)?, to.to_bytes());
        let mut state = self.twin.state();
        let node = self.node(&state)?;
        state.call(Op::LinkItself, Some(to_dir), to, |disk, who| disk.link_node(node, (to_dir, to), who))
    }

    fn rename(&self, from: &CStr, to_dir: &Fd, to: &CStr, flags: RenameFlags) -> Result<()> {
        let to_dir = self.of_same(to_dir)?;
        let how = match flags {
            RenameFlags::NOREPLACE => Renaming::New,
            RenameFlags::EXCHANGE => Renaming::Exchange,
            _ => Renaming::Over,
        };
        self.at(Op::Rename, from, |disk, at, from, who| {
            disk.rename((at, from), (to_dir, to.to_bytes()), how, who)
        })
    }

    fn unlink(&self, name: &CStr, flags: AtFlags) -> Result<()> {
        if flags.contains(AtFlags::REMOVEDIR) {
            return self.at(Op::RemoveFolder, name, Disk::remove_folder);
        }
        self.at(Op::Unlink, name, Disk::unlink)
    }

    fn names(&self, room: usize, each: &mut dyn FnMut(&CStr, FileType) -> ControlFlow<()>) -> Result<bool> {
        let listed = self.within(Op::Names, |disk, node, _| disk.list(self.id, node, room))?;
        let is_all = listed.is_empty();
        for (name, is) in listed {
            if each(&name, is).is_break() {
                return Ok(true);
            }
        }
        Ok(!is_all)
    }

    fn stat(&self) -> Result<Stat> {
        self.on(Op::Stat, |disk, node, _| disk.stat(node))
    }

    fn birth(&self) -> Result<Birth> {
        self.on(Op::Birth, |disk, node, _| {
            let device = (rustix::fs::major(DEVICE), rustix::fs::minor(DEVICE));
            let at = disk.settings.births.then_some(disk.node(node)?.made);
            Ok(Birth { device, ino: node, at })
        })
    }

    fn handle(&self) -> Option<Handle> {
        let handle = self.on(Op::Handle, |disk, node, _| {
            if !disk.settings.handles {
                return Err(Errno::OPNOTSUPP);
            }
            let number = u32::try_from(node).unwrap_or(u32::MAX);
            let bytes = [number.to_ne_bytes(), disk.node(node)?.generation.to_ne_bytes()].concat();
            Ok(Handle::new(1, &bytes))
        });
        handle.ok()
    }

    fn writer(&self) -> Writer {
        let writer = self.within(Op::Writer, |disk, node, who| {
            let is = disk.node(node)?;
            let may_ask = who.all || who.user == is.user;
            Ok(match &is.kind {
                Kind::File(_) if disk.settings.leases && may_ask => {
                    if is.writers > 0 {
                        Writer::Holds
                    } else {
                        Writer::None
                    }
                }
                _ => Writer::Unknown,
            })
        });
        writer.unwrap_or(Writer::Unknown)
    }

    fn chmod(&self, mode: Mode) -> Result<()> {
        self.on(Op::Chmod, |disk, node, who| disk.chmod(node, mode.bits(), who))
    }

    fn chown(&self, user: u32, group: u32) -> Result<()> {
        self.within(Op::Chown, |disk, node, who| disk.chown(node, user, group, who))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize> {
        self.on(Op::Read, |disk, _, _| disk.read(self.id, into, at))
    }

    fn write(&self, bytes: &[u8]) -> Result<usize> {
        self.on(Op::Write, |disk, _, who| disk.write(self.id, bytes, who))
    }

    fn sync(&self) -> Result<()> {
        self.within(Op::Sync, |disk, node, _| match disk.node(node)?.kind {
            Kind::Fifo => Err(Errno::INVAL),
            _ => Ok(()),
        })
    }

    fn sync_all(&self) -> Result<()> {
        self.within(Op::SyncAll, |_, _, _| Ok(()))
    }

    fn attribute(&self, name: &CStr, into: &mut [u8]) -> Result<usize> {
        self.within(Op::Attribute, |disk, node, who| disk.attribute(node, name.to_bytes(), into, who))
    }

    fn attribute_at(&self, path: &CStr, name: &CStr, into: &mut [u8]) -> Result<usize> {
        self.at(Op::Attribute, path, |disk, at, path, who| {
            let node = disk.find_at(at, path, How::default(), who)?;
            disk.attribute(node, name.to_bytes(), into, who)
        })
    }

    fn set_attribute(&self, name: &CStr, value: &[u8]) -> Result<()> {
        self.within(Op::SetAttribute, |disk, node, who| disk.set_attribute(node, name.to_bytes(), value, who))
    }

    fn flags(&self) -> Result<u32> {
        self.within(Op::Flags, |disk, node, _| disk.with_flags(node).map(|is| is.flags))
    }

    fn set_flags(&self, flags: u32) -> Result<()> {
        self.within(Op::SetFlags, |disk, node, who| {
            disk.with_flags(node)?;
            disk.may_mark(node, who)?;
            disk.set_flags(node, flags)
        })
    }

    fn extended(&self) -> Result<Extended> {
        self.within(Op::Extended, |disk, node, _| disk.with_flags(node).map(|is| is.extended))
    }

    fn set_extended(&self, extended: Extended) -> Result<()> {
        self.within(Op::SetExtended, |disk, node, who| {
            disk.with_flags(node)?;
            disk.may_mark(node, who)?;
            disk.set_extended(node, extended)
        })
    }

    fn to_file(&self) -> io::Result<File> {
        let bytes = self.on(Op::Copy, |disk, _, _| {
            let node = disk.opened(self.id)?.node;
            let Kind::File(bytes) = &disk.node(node)?.kind else { return Err(Errno::INVAL) };
            let mut copy = vec![0; usize::try_from(bytes.length()).map_err(|_| Errno::FBIG)?];
            bytes.read(0, &mut copy);
            Ok(copy)
        })?;
        let file = File::from(rustix::fs::memfd_create("twin", MemfdFlags::CLOEXEC)?);
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0)?;
        Ok(file)
    }
}

/// A number as the kernel has it; its width differs by machine.
fn fitted<T: TryFrom<u64> + Default>(number: u64) -> T {
    number.try_into().unwrap_or_default()
}

impl Disk {
    pub(super) fn stat(&self, number: Number) -> Result<Stat> {
        let node = self.node(number)?;
        let mut stat = EMPTY.ok_or(Errno::IO)?;
        let (size, blocks) = match &node.kind {
            Kind::File(bytes) => (bytes.length(), bytes.blocks()),
            Kind::Folder(_) => (4096, 8),
            Kind::Link(to) => (to.len() as u64, 0),
            Kind::Fifo | Kind::Socket => (0, 0),
        };
        let links = if matches!(node.kind, Kind::Folder(_)) && node.links == 0 { 0 } else { node.links };
        stat.st_dev = DEVICE;
        stat.st_ino = number;
        stat.st_mode = node.kind.bits() | node.mode;
        stat.st_nlink = fitted(links);
        (stat.st_uid, stat.st_gid) = (node.user, node.group);
        stat.st_rdev = 0;
        stat.st_size = i64::try_from(size).unwrap_or(i64::MAX);
        stat.st_blksize = 4096;
        stat.st_blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
        (stat.st_atime, stat.st_atime_nsec) = (node.made.0, node.made.1.into());
        (stat.st_mtime, stat.st_mtime_nsec) = (node.modified.0, node.modified.1.into());
        (stat.st_ctime, stat.st_ctime_nsec) = (node.changed.0, node.changed.1.into());
        Ok(stat)
    }

    /// Returns the next names of a listing, as many as there is room for.
    fn list(&mut self, id: u64, node: Number, room: usize) -> Result<Vec<(CString, FileType)>> {
        let folder = self.folder(node)?;
        if self.node(node)?.links == 0 {
            return Err(Errno::NOENT);
        }
        let (mut names, mut listed, mut left) = (Vec::new(), self.opened(id)?.listed, room);
        if listed.is_none() {
            left = left.saturating_sub(2 * ENTRY);
            names.extend([c".", c".."].map(|name| (name.to_owned(), FileType::Directory)));
            listed = Some(0);
        }
        for (at, name, number) in folder.behind(listed.unwrap_or(0)) {
            let takes = (ENTRY + name.len()).next_multiple_of(8);
            if takes > left {
                if names.is_empty() {
                    return Err(Errno::INVAL);
                }
                break;
            }
            left -= takes;
            let is = FileType::from_raw_mode(self.node(number)?.kind.bits());
            names.push((CString::new(name).map_err(|_| Errno::IO)?, is));
            listed = Some(at);
        }
        self.opened_mut(id)?.listed = listed;
        Ok(names)
    }

    pub(super) fn with_flags(&self, node: Number) -> Result<&super::disk::Inode> {
        let is = self.node(node)?;
        let has = self.settings.flags && matches!(is.kind, Kind::File(_) | Kind::Folder(_));
        if has { Ok(is) } else { Err(Errno::NOTTY) }
    }

    pub(super) fn may_mark(&self, node: Number, who: Who) -> Result<()> {
        if who.all || who.user == self.node(node)?.user { Ok(()) } else { Err(Errno::PERM) }
    }
}
