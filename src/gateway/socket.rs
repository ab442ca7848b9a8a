//! A run's socket in a run's folder.

use std::{
    os::{fd::AsRawFd as _, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, chmodat, chownat, openat, renameat, unlinkat},
    io::Errno,
};
use tokio::net::UnixListener;

/// The name of the socket that leads to the model, in its folder.
pub const NAME: &str = "model.sock";
/// The name of the socket that leads to hosts outside.
pub const OUTSIDE: &str = "outside.sock";

/// Why a run's socket can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("opening the gateway's socket in {dir} failed while {doing}")]
pub struct SocketError {
    dir: PathBuf,
    doing: &'static str,
    source: std::io::Error,
}

/// Binds the socket `name` in `dir` for `owner`, and puts it in the place of one that is there. Has to be called within a
/// runtime.
///
/// The path is as long as the root's, and the kernel takes 107 bytes: so it is named relative to the open folder.
pub(super) fn bind(dir: &Path, name: &str, owner: Option<(u32, u32)>) -> Result<UnixListener, SocketError> {
    // Its name until it can be used.
    let new = &format!(".{name}.new");
    let failed = |doing| move |source| SocketError { dir: dir.to_owned(), doing, source };
    let refused = |doing| move |errno: Errno| failed(doing)(errno.into());
    // A container sees the folder itself, so it may be entered by all; who may not, is stopped further up.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(dir)
        .map_err(failed("making the folder"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, dir, flags, Mode::empty()).map_err(refused("opening the folder"))?;
    match unlinkat(&folder, new.as_str(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(refused("removing an old socket")(errno)),
    }
    let short = format!("/proc/self/fd/{}/{new}", folder.as_raw_fd());
    let listener = UnixListener::bind(short).map_err(failed("binding"))?;
    chmodat(&folder, new.as_str(), Mode::RUSR | Mode::WUSR, AtFlags::empty())
        .map_err(refused("closing it to others"))?;
    if let Some((user, group)) = owner {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        chownat(&folder, new.as_str(), user, group, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(refused("giving it to the agents' user"))?;
    }
    renameat(&folder, new.as_str(), &folder, name).map_err(refused("putting it in place"))?;
    Ok(listener)
}

/// Removes a socket of a run that has ended; the folder stays.
pub(super) fn remove(dir: &Path, name: &str) {
    let _ = unlinkat(CWD, dir.join(name), AtFlags::empty());
}
