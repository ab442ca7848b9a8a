//! A file system of its own for a program that is shut in: what it may see, at the places where it lies, and nothing else. Takes
//! root's rights.
#![expect(clippy::disallowed_methods, reason = "lays out places in a file system that nobody else sees")]

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

use super::Sight;
use crate::system::process;

/// From now on this process sees these files alone, and no process of another user. `at` is an empty place; what lies there is not
/// seen either. `user` has a name there.
pub(super) fn enter(at: &Path, sight: &Sight, user: u32) -> io::Result<()> {
    let own = rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::NEWIPC;
    #[expect(deprecated, reason = "its successor is unsafe for tables of files, which are not asked for")]
    rustix::thread::unshare(own)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", at, "tmpfs", plain, Some(c"mode=0755,size=4m"))?;
    let mut paths: Vec<(PathBuf, &PathBuf)> = sight
        .reads
        .iter()
        .chain(&sight.writes)
        .filter_map(|path| Some((fs::canonicalize(path).ok()?, path)))
        .collect();
    // What holds others comes before them.
    paths.sort();
    name(at, user)?;
    for (real, _) in &paths {
        show(at, real)?;
    }
    for (real, path) in &paths {
        link(at, real, path)?;
    }
    for (name, of) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        let _ = std::os::unix::fs::symlink(of, at.join("dev").join(name));
    }
    fs::create_dir_all(at.join("proc"))?;
    fs::create_dir_all(at.join("tmp"))?;
    // A member of this group would see the processes of others; it has none.
    mount(
        "proc",
        at.join("proc"),
        "proc",
        plain | MountFlags::NOEXEC,
        Some(c"hidepid=invisible,gid=1999999999"),
    )?;
    rustix::process::chdir(at)?;
    rustix::process::pivot_root(".", ".")?;
    // The one before lies on top of it.
    unmount(".", UnmountFlags::DETACH)?;
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY | plain, c"")?;
    Ok(())
}

/// Returns where something lies below `at`.
fn below(at: &Path, path: &Path) -> PathBuf {
    at.join(path.strip_prefix("/").unwrap_or(path))
}

/// Shows a file or a folder at its own place.
fn show(at: &Path, real: &Path) -> io::Result<()> {
    let place = below(at, real);
    if fs::symlink_metadata(&place).is_ok() {
        return Ok(());
    }
    if real.is_dir() {
        fs::create_dir_all(&place)?;
    } else {
        fs::create_dir_all(place.parent().unwrap_or(at))?;
        fs::File::create(&place)?;
    }
    Ok(mount_bind_recursive(real, &place)?)
}

/// Names a user and its group where nobody has named them: some programs end that can't tell who they are.
fn name(at: &Path, user: u32) -> io::Result<()> {
    if process::user_name(user).is_some() {
        return Ok(());
    }
    fs::create_dir_all(at.join("etc"))?;
    for (file, line) in [
        ("etc/passwd", format!("g2-{user}:x:{user}:{user}:a program of G2:/:/usr/sbin/nologin\n")),
        ("etc/group", format!("g2-{user}:x:{user}:\n")),
    ] {
        let others = fs::read(Path::new("/").join(file)).unwrap_or_default();
        fs::write(at.join(file), [others.as_slice(), line.as_bytes()].concat())?;
    }
    Ok(())
}

/// Makes the name by which something is asked for lead to it.
fn link(at: &Path, real: &Path, path: &Path) -> io::Result<()> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let place = below(at, path);
    if real == path || !plain || fs::symlink_metadata(&place).is_ok() {
        return Ok(());
    }
    fs::create_dir_all(place.parent().unwrap_or(at))?;
    std::os::unix::fs::symlink(real, &place)
}
