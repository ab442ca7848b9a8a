//! What people ask about both halves. Nothing is written here.

pub(super) mod channels;
pub(super) mod conversation;
pub(super) mod health;
pub(super) mod history;
pub(super) mod metrics;
pub(super) mod page;
pub(super) mod story;
pub(super) mod texts;
pub(super) mod trace;
pub(super) mod turns;
pub(super) mod why;
pub(super) mod words;

use ipc_handlers::{Folder, shown::GroupRow};

use super::{Result, Store, talk::groups, work::by_hand};

/// Asked in place, by who works with the files of groups on a thread that may wait for the disk.
impl Store {
    /// Whether there is such a group.
    ///
    /// # Errors
    /// As every read.
    pub fn has_group(&self, group: &Folder) -> Result<bool> {
        self.read(|c| groups::is_known(c, group))
    }

    /// Whether a claim is one of the group that has this name now. Those of an earlier group of that name are not.
    ///
    /// # Errors
    /// As every read.
    pub fn is_of(&self, claim: i64, group: &Folder) -> Result<bool> {
        self.read(|c| Ok(groups::is_known(c, group)? && claim > by_hand::begun_after(c, group)?))
    }

    /// Whether a group is the main one; `None`: there is no such group.
    ///
    /// # Errors
    /// As every read.
    pub fn is_main(&self, group: &Folder) -> Result<Option<bool>> {
        self.read(|c| groups::is_main(c, group))
    }

    /// Returns the main group, if there is one.
    ///
    /// # Errors
    /// As every read.
    pub fn main_group(&self) -> Result<Option<Folder>> {
        self.read(groups::main)
    }

    /// Returns the group chats, newest activity first, as many as fit into `room` bytes of JSON, and how many more there
    /// are.
    ///
    /// # Errors
    /// As every read.
    pub fn available_groups(&self, room: u64) -> Result<(Vec<GroupRow>, usize)> {
        self.read(|c| groups::available(c, room))
    }
}
