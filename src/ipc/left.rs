//! Mailboxes that are left of groups that are gone. They go to the trash, so that no later group of that name has what lies
//! in them.

use std::{collections::BTreeSet, ops::ControlFlow};

use ipc_handlers::Folder;
use rustix::io::Errno;

use super::{
    dir,
    files::Fd,
    host::HostDirs,
    names::{BoxName, FileKind},
    world_fault::WorldFault,
};

/// A mailbox whose group is gone.
#[derive(Debug)]
pub struct LeftBox {
    pub group: Folder,
    /// Whether it is in the trash now, or why not.
    pub removed: Result<(), WorldFault>,
}

impl HostDirs {
    /// Moves the mailboxes of all groups but the `known` ones to the trash, at most `most` of them; returns them. What is no
    /// mailbox stays: one is a folder with all boxes in it, or one that can't be opened.
    ///
    /// # Errors
    /// [`WorldFault`] when `data/ipc` can't be read.
    pub fn discard_boxes_but(
        &self,
        known: &BTreeSet<Folder>,
        most: usize,
    ) -> Result<Vec<LeftBox>, WorldFault> {
        let mut left = Vec::new();
        dir::each_name(&self.ipc, |name, _| {
            let group = name.to_str().ok().and_then(|name| Folder::parse(name).ok());
            if let Some(group) = group.filter(|group| !known.contains(group) && self.is_mailbox(group)) {
                left.push(group);
            }
            if left.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(|e| WorldFault::new("reading", self.path().join("ipc").display().to_string(), e))?;
        let discard = |group| LeftBox { removed: self.discard_box(&group), group };
        Ok(left.into_iter().map(discard).collect())
    }

    /// Moves the folder of a group's mailbox to the trash. Only of a group without a container. That there is none is no error.
    ///
    /// # Errors
    /// [`WorldFault`] when it can't be moved.
    pub fn discard_box(&self, group: &Folder) -> Result<(), WorldFault> {
        let failed = |e| {
            WorldFault::new("removing", self.path().join("ipc").join(group.as_str()).display().to_string(), e)
        };
        match dir::stat(&self.ipc, group.as_str()) {
            Ok(is) if FileKind::of(&is) != FileKind::Directory => Ok(()),
            Ok(_) => match self.discard(&self.ipc, group.as_str()) {
                // A folder that its owner may not write to can't get another parent. Nobody but us writes beside it.
                Err(Errno::ACCESS) => dir::chmod(&self.ipc, group.as_str(), 0o700)
                    .and_then(|()| self.discard(&self.ipc, group.as_str()))
                    .map_err(failed),
                discarded => discarded.map_err(failed),
            },
            Err(Errno::NOENT) => Ok(()),
            Err(other) => Err(failed(other)),
        }
    }

    fn is_mailbox(&self, group: &Folder) -> bool {
        let has = |held: &Fd, b: BoxName| {
            dir::stat(held, b.as_str()).is_ok_and(|is| FileKind::of(&is) == FileKind::Directory)
        };
        match dir::open_dir(&self.ipc, group.as_str()) {
            Ok(held) => BoxName::ALL.into_iter().all(|b| has(&held, b)),
            Err(error) => error == Errno::ACCESS,
        }
    }
}
