//! A disk from a folder, and a folder from a disk: names, contents, rights, owners, times, attributes, links.
#![expect(clippy::disallowed_methods, reason = "folders of tests are read and written whole")]

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Gid, Mode, Timestamps, Uid, XattrFlags},
    io::Errno,
};

use crate::disk::{Body, Disk, Ino, Node, Place, ROOT, Refused, Rights, Special};

/// Why a folder is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The file system there says so.
    #[error("at {0}")]
    At(PathBuf, #[source] io::Error),
    /// A device, which such a disk has not.
    #[error("{0} is a device")]
    Device(PathBuf),
    /// The same name twice.
    #[error("at {0}")]
    Refused(PathBuf, #[source] Refused),
}

fn at(path: &Path) -> impl Fn(io::Error) -> Failed + '_ {
    |e| Failed::At(path.to_owned(), e)
}

fn rights(meta: &fs::Metadata) -> Rights {
    Rights { mode: (meta.mode() & 0o7777) as u16, uid: meta.uid(), gid: meta.gid() }
}

/// Reads a folder; all of it counts as synced.
///
/// # Errors
/// [`Failed`].
pub fn read(folder: &Path) -> Result<Disk, Failed> {
    let meta = fs::symlink_metadata(folder).map_err(at(folder))?;
    let mut disk = Disk::new(rights(&meta), meta.modified().map_err(at(folder))?);
    let mut known = HashMap::new();
    read_into(&mut disk, &mut known, ROOT, folder)?;
    disk.sync_all();
    Ok(disk)
}

fn read_into(disk: &mut Disk, known: &mut HashMap<u64, Ino>, folder: Ino, path: &Path) -> Result<(), Failed> {
    let mut names: Vec<OsString> = Vec::new();
    for entry in fs::read_dir(path).map_err(at(path))? {
        names.push(entry.map_err(at(path))?.file_name());
    }
    // Numbers of nodes depend on names, not on the order in which a folder lists them.
    names.sort();
    for name in names {
        let path = path.join(&name);
        let meta = fs::symlink_metadata(&path).map_err(at(&path))?;
        let place = Place::new(folder, &name);
        let refused = |e| Failed::Refused(path.clone(), e);
        let modified = meta.modified().map_err(at(&path))?;
        if let Some(ino) = known.get(&meta.ino()) {
            disk.link(*ino, place, modified).map_err(refused)?;
            continue;
        }
        let kind = meta.file_type();
        let body = if kind.is_dir() {
            Body::Folder(Default::default())
        } else if kind.is_symlink() {
            Body::Symlink(fs::read_link(&path).map_err(at(&path))?.into_os_string())
        } else if kind.is_file() {
            Body::File(Vec::new())
        } else if kind.is_socket() {
            Body::Special(Special::Socket)
        } else if kind.is_fifo() {
            Body::Special(Special::Pipe)
        } else {
            return Err(Failed::Device(path));
        };
        let ino = disk.create(place, body, rights(&meta), modified).map_err(refused)?;
        if kind.is_file() {
            let bytes = fs::read(&path).map_err(at(&path))?;
            disk.write(ino, 0, &bytes, modified).map_err(refused)?;
        }
        for (name, value) in attributes(&path)? {
            disk.set_attribute(ino, name, Some(value)).map_err(refused)?;
        }
        if kind.is_dir() {
            read_into(disk, known, ino, &path)?;
            disk.set_modified(ino, modified);
        } else {
            known.insert(meta.ino(), ino);
        }
    }
    Ok(())
}

fn attributes(path: &Path) -> Result<Vec<(OsString, Vec<u8>)>, Failed> {
    let failed = |e: Errno| Failed::At(path.to_owned(), e.into());
    let mut names = vec![0; 64 << 10];
    let len = match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    names.truncate(len);
    let mut all = Vec::new();
    // Others belong to the file system or the machine.
    for name in names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        let mut value = vec![0; 64 << 10];
        let len = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..]).map_err(failed)?;
        value.truncate(len);
        all.push((OsString::from_vec(name.to_vec()), value));
    }
    Ok(all)
}

/// Writes what is seen of a disk into a folder, in place of all that is in it.
///
/// # Errors
/// [`Failed`].
pub fn write(disk: &Disk, folder: &Path) -> Result<(), Failed> {
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let meta = fs::symlink_metadata(&path).map_err(at(&path))?;
        if meta.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.map_err(at(&path))?;
    }
    let mut known = HashMap::new();
    write_into(disk, &mut known, ROOT, folder)
}

fn write_into(disk: &Disk, known: &mut HashMap<Ino, PathBuf>, ino: Ino, path: &Path) -> Result<(), Failed> {
    let Some(node) = disk.seen().node(ino) else { return Ok(()) };
    for (name, ino) in node.entries().into_iter().flatten() {
        let path = path.join(name);
        let Some(node) = disk.seen().node(*ino) else { continue };
        if let Some(first) = known.get(ino) {
            fs::hard_link(first, &path).map_err(at(&path))?;
            continue;
        }
        known.insert(*ino, path.clone());
        let special = |kind| {
            rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), 0).map_err(io::Error::from)
        };
        match &node.body {
            Body::File(bytes) => fs::write(&path, bytes),
            Body::Folder(_) => fs::create_dir(&path),
            Body::Symlink(target) => std::os::unix::fs::symlink(target, &path),
            Body::Special(Special::Socket) => special(FileType::Socket),
            Body::Special(Special::Pipe) => special(FileType::Fifo),
        }
        .map_err(at(&path))?;
        write_into(disk, known, *ino, &path)?;
        dress(node, &path)?;
    }
    if ino == ROOT {
        dress(node, path)?;
    }
    Ok(())
}

fn dress(node: &Node, path: &Path) -> Result<(), Failed> {
    let failed = |e: Errno| Failed::At(path.to_owned(), e.into());
    let owner = (Uid::from_raw(node.rights.uid), Gid::from_raw(node.rights.gid));
    rustix::fs::chownat(CWD, path, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(failed)?;
    for (name, value) in &node.attributes {
        rustix::fs::lsetxattr(path, name.as_os_str(), value, XattrFlags::empty()).map_err(failed)?;
    }
    if !matches!(node.body, Body::Symlink(_)) {
        let mode = fs::Permissions::from_mode(node.rights.mode.into());
        fs::set_permissions(path, mode).map_err(at(path))?;
    }
    let since = node.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let stamp = rustix::fs::Timespec {
        tv_sec: i64::try_from(since.as_secs()).unwrap_or(0),
        tv_nsec: since.subsec_nanos().into(),
    };
    let times = Timestamps { last_access: stamp, last_modification: stamp };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
}
