//! Mailboxes that are left of groups that are gone. They go to the trash, so that no later group of that name has what lies
//! in them.

use std::{collections::BTreeSet, ops::ControlFlow};

use ipc_handlers::Folder;
use rustix::{fd::OwnedFd, io::Errno};

use super::{
    dir,
    host::HostDirs,
    names::{BoxName, FileKind},
    world::World,
};

impl HostDirs {
    /// Moves the mailboxes of all groups but the `known` ones to the trash, at most `most` of them; returns whose. What is no
    /// mailbox stays: one is a folder with all boxes in it.
    ///
    /// # Errors
    /// [`World`] when `data/ipc` can't be read, or a mailbox can't be moved.
    pub fn discard_boxes_but(&self, known: &BTreeSet<Folder>, most: usize) -> Result<Vec<Folder>, World> {
        let mut left = Vec::new();
        dir::each_name(&self.ipc, |name, _| {
            let group = name.to_str().ok().and_then(|name| Folder::parse(name).ok());
            if let Some(group) = group.filter(|group| !known.contains(group) && self.is_mailbox(group)) {
                left.push(group);
            }
            if left.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(|e| World::new("reading", self.path().join("ipc").display().to_string(), e))?;
        left.iter().try_for_each(|group| self.discard_box(group))?;
        Ok(left)
    }

    /// Moves the folder of a group's mailbox to the trash. Only of a group without a container. That there is none is no error.
    ///
    /// # Errors
    /// [`World`] when it can't be moved.
    pub fn discard_box(&self, group: &Folder) -> Result<(), World> {
        let failed =
            |e| World::new("removing", self.path().join("ipc").join(group.as_str()).display().to_string(), e);
        match dir::stat(&self.ipc, group.as_str()) {
            Ok(is) if FileKind::of(&is) != FileKind::Directory => Ok(()),
            Ok(_) => self.discard(&self.ipc, group.as_str()).map_err(failed),
            Err(Errno::NOENT) => Ok(()),
            Err(other) => Err(failed(other)),
        }
    }

    fn is_mailbox(&self, group: &Folder) -> bool {
        let has = |held: &OwnedFd, b: BoxName| {
            dir::stat(held, b.as_str()).is_ok_and(|is| FileKind::of(&is) == FileKind::Directory)
        };
        dir::open_dir(&self.ipc, group.as_str())
            .is_ok_and(|held| BoxName::ALL.into_iter().all(|b| has(&held, b)))
    }
}
