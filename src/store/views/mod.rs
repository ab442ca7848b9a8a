//! What people ask about both halves. Nothing is written here.

pub(super) mod activity;
pub(super) mod attached;
pub(super) mod channels;
pub(super) mod conversation;
pub(super) mod health;
pub(super) mod history;
pub(super) mod metrics;
pub(super) mod page;
pub(super) mod texts;
pub(super) mod trace;
pub(super) mod turns;
pub(super) mod why;

use ipc_handlers::Folder;

use super::{Result, Store, talk::groups};

impl Store {
    /// Whether there is such a group; asked in place, by who works with its files.
    ///
    /// # Errors
    /// As every read.
    pub fn has_group(&self, group: &Folder) -> Result<bool> {
        self.read(|c| groups::is_known(c, group))
    }
}
