//! Waiting and claimed files, as they lie there. Memory is bounded by the limit that is asked for, work by
//! the names that are looked at in one box.

use std::{
    collections::{BTreeMap, BinaryHeap},
    ffi::{OsStr, OsString},
    ops::ControlFlow,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ipc_handlers::{Folder, Time};
use rustix::{io::Errno, path::Arg as _};

use crate::ipc::{
    dir,
    files::{At, Fd, Files},
    mailbox::{SOURCE, changed_at, origin, parse},
    names::{CommandBox, FileKind, display_name},
    world_fault::WorldFault,
};

/// How many names are looked at in one folder; of one that holds more the rest is not seen.
pub const LOOKED_AT: usize = 200_000;
/// The largest file of which [`head`] reads anything, bytes.
pub const HEAD_LIMIT: u64 = 65_536;

/// A command file that nobody has claimed, or that was claimed and is not settled. The oldest come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lying {
    /// When it came, or was claimed.
    pub since: Time,
    /// The claim's id; `None` while the file waits in its box.
    pub claim: Option<i64>,
    pub group: String,
    /// The box it waits in or was claimed from; `None` where that is not known.
    pub in_box: Option<CommandBox>,
    /// Its name in its box, safe to print.
    pub name: String,
    /// The file's name where it lies.
    pub file: OsString,
    /// A directory is never claimed.
    pub is_directory: bool,
}

/// What waits, as far as was asked for.
#[derive(Debug, Default)]
pub struct Waiting {
    /// The oldest, in order.
    pub files: Vec<Lying>,
    /// How many were seen.
    pub seen: usize,
    /// How many of those are directories.
    pub directories: usize,
    /// A box holds more names than are looked at.
    pub partial: bool,
    /// Why boxes could not be read.
    pub unread: Vec<WorldFault>,
}

impl Waiting {
    /// Whether more waits than `files` holds.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.partial || self.seen > self.files.len()
    }

    /// Returns it, if every box could be read.
    ///
    /// # Errors
    /// Why the first one could not be.
    pub fn whole(mut self) -> Result<Self, WorldFault> {
        if self.unread.is_empty() { Ok(self) } else { Err(self.unread.swap_remove(0)) }
    }
}

/// What was not looked at.
#[derive(Debug, Default)]
pub struct Missed {
    /// A box holds more names than are looked at.
    pub partial: bool,
    /// Why boxes could not be read.
    pub unread: Vec<WorldFault>,
}

/// Calls `visit` with each command that waits in the boxes of `groups`, as far as they can be read. A box that is not there is
/// empty.
pub fn each_waiting<'a, 'g>(
    data: impl Into<At<'a>>,
    groups: impl IntoIterator<Item = &'g Folder>,
    mut visit: impl FnMut(Lying),
) -> Missed {
    let At { files, path } = data.into();
    let mut missed = Missed::default();
    for group in groups {
        for in_box in CommandBox::ALL {
            let looked = look(files.at(&box_path(path, group.as_str(), in_box)), |held, name| {
                if let Some(lying) = lying(files, held, group, in_box, name) {
                    visit(lying);
                }
            });
            match looked {
                Ok(partial) => missed.partial |= partial,
                Err(error) => missed.unread.push(error),
            }
        }
    }
    missed
}

/// Returns the command that waits in this box under this name, however many wait beside it.
#[must_use]
pub fn waiting_file<'a>(
    data: impl Into<At<'a>>,
    group: &Folder,
    in_box: CommandBox,
    name: &str,
) -> Option<Lying> {
    let At { files, path } = data.into();
    let path = box_path(path, group.as_str(), in_box);
    let held = (!name.contains('/')).then(|| files.at(&path).open_itself().ok())??;
    lying(files, &held, group, in_box, OsStr::new(name))
}

fn lying(files: &Files, held: &Fd, group: &Folder, in_box: CommandBox, name: &OsStr) -> Option<Lying> {
    if !files.hands().is_command_name(name) {
        return None;
    }
    let stat = dir::stat(held, name).ok()?;
    Some(Lying {
        since: changed_at(&stat),
        claim: None,
        group: group.to_string(),
        in_box: Some(in_box),
        name: display_name(name),
        file: name.to_owned(),
        is_directory: FileKind::of(&stat) == FileKind::Directory,
    })
}

/// Returns the oldest commands that wait in the boxes of `groups`, at most `limit`. Where more wait, the groups with the
/// most give way, so that no group hides what another one's wait for.
pub fn waiting<'a, 'g>(
    data: impl Into<At<'a>>,
    groups: impl IntoIterator<Item = &'g Folder>,
    limit: usize,
) -> Waiting {
    let mut found = Waiting::default();
    let mut oldest: BTreeMap<String, BinaryHeap<Lying>> = BTreeMap::new();
    let mut kept = 0;
    let missed = each_waiting(data, groups, |lying| {
        found.seen += 1;
        found.directories += usize::from(lying.is_directory);
        oldest.entry(lying.group.clone()).or_default().push(lying);
        kept += 1;
        if kept > limit {
            oldest.values_mut().max_by_key(|of_group| of_group.len()).and_then(BinaryHeap::pop);
            kept -= 1;
        }
    });
    (found.partial, found.unread) = (missed.partial, missed.unread);
    found.files = oldest.into_values().flatten().collect();
    found.files.sort();
    found
}

/// Returns claimed files that are not settled, in the order of the claims, each with where it says that it came from.
///
/// # Errors
/// [`WorldFault`] when the folder can't be read; one that is not there is empty.
pub fn claimed<'a>(data: impl Into<At<'a>>) -> Result<Vec<Lying>, WorldFault> {
    let At { files, path } = data.into();
    let mut found = Vec::new();
    look(files.at(&path.join("claimed")), |held, name| {
        let (Some((id, group)), Ok(stat)) = (parse(name), dir::stat(held, name)) else { return };
        let source = source(held, name);
        found.push(Lying {
            since: changed_at(&stat),
            claim: Some(id),
            group: group.to_string(),
            in_box: source.as_ref().map(|(in_box, _)| *in_box),
            name: source.map_or_else(|| display_name(name), |(_, name)| name),
            file: name.to_owned(),
            is_directory: FileKind::of(&stat) == FileKind::Directory,
        });
    })?;
    found.sort_by_key(|lying| lying.claim);
    Ok(found)
}

/// Returns which files these claims are ([`Origin::key`](crate::ipc::Origin)); of one that is gone or no file, nothing.
///
/// # Errors
/// [`WorldFault`] when one can't be opened.
pub fn origins<'a>(data: impl Into<At<'a>>, claimed: &[Lying]) -> Result<Vec<Vec<u8>>, WorldFault> {
    let At { files, path } = data.into();
    let folder = path.join("claimed");
    let failed = |e: Errno| WorldFault::new("opening a file of", folder.display().to_string(), e);
    let held = match files.at(&folder).open_itself() {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for lying in claimed {
        let name = lying.file.as_os_str();
        if !dir::stat(&held, name).is_ok_and(|stat| FileKind::of(&stat) == FileKind::File) {
            continue;
        }
        match dir::open_to_read(&held, name) {
            Ok(file) => found.push(origin(&file).map_err(failed)?.key),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(found)
}

/// Returns the bytes of a small regular file that waits or is claimed; `None` for anything else, or when it is gone.
#[must_use]
pub fn head<'a>(data: impl Into<At<'a>>, lying: &Lying) -> Option<Vec<u8>> {
    let At { files, path: data } = data.into();
    let folder = match (lying.claim, lying.in_box) {
        (Some(_), _) => data.join("claimed"),
        (None, Some(in_box)) => box_path(data, &lying.group, in_box),
        (None, None) => return None,
    };
    let held = files.at(&folder).open_itself().ok()?;
    let small = |stat: &rustix::fs::Stat| {
        FileKind::of(stat) == FileKind::File
            && u64::try_from(stat.st_size).is_ok_and(|size| size <= HEAD_LIMIT)
    };
    // Looked at first, as opening a device or a FIFO can itself do something.
    dir::stat(&held, lying.file.as_os_str()).ok().filter(small)?;
    let file = dir::open_to_read(&held, lying.file.as_os_str()).ok()?;
    file.stat().ok().filter(small)?;
    dir::read_at_most(&file, HEAD_LIMIT).ok()
}

/// Returns where the files of a settled command are now, relative to the root; a reply only as long as nobody took it.
#[must_use]
pub fn files_of<'a>(root: impl Into<At<'a>>, group: &str, id: i64, request_id: Option<&str>) -> Vec<String> {
    let root = root.into();
    let kept = ["json", "why.json", "reply.json"];
    let places = ["done", "dead"]
        .iter()
        .flat_map(|place| kept.iter().map(move |part| format!("data/{place}/{group}/{id}.{part}")));
    let reply = request_id.map(|request| format!("data/ipc/{group}/responses/{request}.json"));
    places
        .chain([format!("data/claimed/{id}-{group}.json")])
        .chain(reply)
        .filter(|path| root.files.at(&root.path.join(path)).stat().is_ok())
        .collect()
}

fn box_path(data: &Path, group: &str, in_box: CommandBox) -> PathBuf {
    data.join("ipc").join(group).join(in_box.as_str())
}

/// Where a claimed file says that it came from; its container may have written that.
fn source(held: &Fd, name: &OsStr) -> Option<(CommandBox, String)> {
    let mut value = vec![0; 512];
    let length = name.into_with_c_str(|name| held.attribute_at(name, SOURCE, &mut value)).ok()?;
    value.truncate(length);
    let slash = value.iter().position(|b| *b == b'/')?;
    Some((CommandBox::parse(&value[..slash])?, display_name(OsStr::from_bytes(&value[slash + 1..]))))
}

/// Calls `visit` with each name; returns whether there were more than are looked at.
fn look(at: At<'_>, mut visit: impl FnMut(&Fd, &OsStr)) -> Result<bool, WorldFault> {
    let reading = |e: Errno| WorldFault::new("reading", at.path.display().to_string(), e);
    let held = match at.open_itself() {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(reading(error)),
    };
    let mut looked_at = 0_usize;
    dir::each_name(&held, |name, _| {
        looked_at += 1;
        if looked_at > LOOKED_AT {
            return ControlFlow::Break(());
        }
        visit(&held, dir::os(name));
        ControlFlow::Continue(())
    })
    .map_err(reading)?;
    Ok(looked_at > LOOKED_AT)
}
