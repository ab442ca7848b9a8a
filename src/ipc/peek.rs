//! Looking into the mailbox from outside the daemon: for the command line, with the daemon up or down. Opens nothing
//! that a container wrote, makes nothing, moves nothing.

use std::{ops::ControlFlow, path::Path};

use ipc_handlers::Folder;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    dir,
    names::{CommandBox, display_name, is_command_name},
    world::World,
};

/// A command file that nobody has claimed, or that was claimed and is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lying {
    /// The claim's id; `None` while the file waits in its box.
    pub claim: Option<i64>,
    pub group: String,
    /// The box it waits in; `None` for a claimed one.
    pub in_box: Option<CommandBox>,
    /// Safe to print.
    pub name: String,
    /// When it came, ms since the epoch.
    pub since_ms: i64,
}

/// How many files are told of in one folder.
const MOST: usize = 10_000;

/// Returns what waits in a group's two command boxes, oldest first.
///
/// # Errors
/// [`World`] when a box can't be read; one that is not there is empty.
pub fn waiting(data: &Path, group: &Folder) -> Result<Vec<Lying>, World> {
    let mut found = Vec::new();
    for in_box in CommandBox::ALL {
        let path = data.join("ipc").join(group.as_str()).join(in_box.as_str());
        look(
            &path,
            |name, since_ms| {
                is_command_name(name).then(|| Lying {
                    claim: None,
                    group: group.to_string(),
                    in_box: Some(in_box),
                    name: display_name(name),
                    since_ms,
                })
            },
            &mut found,
        )?;
    }
    found.sort_by(|a, b| (a.since_ms, &a.name).cmp(&(b.since_ms, &b.name)));
    Ok(found)
}

/// Returns what is claimed and not settled, in the order of the claims.
///
/// # Errors
/// [`World`] when the folder can't be read; one that is not there is empty.
pub fn claimed(data: &Path) -> Result<Vec<Lying>, World> {
    let mut found = Vec::new();
    look(
        &data.join("claimed"),
        |name, since_ms| {
            let (id, folder) = super::mailbox::parse(name)?;
            Some(Lying {
                claim: Some(id),
                group: folder.to_string(),
                in_box: None,
                name: display_name(name),
                since_ms,
            })
        },
        &mut found,
    )?;
    found.sort_by_key(|lying| lying.claim);
    Ok(found)
}

fn look(
    path: &Path,
    mut take: impl FnMut(&std::ffi::OsStr, i64) -> Option<Lying>,
    found: &mut Vec<Lying>,
) -> Result<(), World> {
    let reading = |e: Errno| World::new("reading", path.display().to_string(), e);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let held = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(reading(error)),
    };
    dir::each_name(&held, |name, _| {
        if let Ok(stat) = dir::stat(&held, name) {
            let since = stat
                .st_ctime
                .saturating_mul(1000)
                .saturating_add(i64::try_from(stat.st_ctime_nsec).unwrap_or(0) / 1_000_000);
            found.extend(take(dir::os(name), since));
        }
        if found.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(reading)
}
