//! As which user a group's agent runs. A trigger gives each folder its number when it is first a group's
//! (`migrations/0001_init.sql`).

use ipc_handlers::Folder;
use rusqlite::{OptionalExtension as _, params};

use crate::store::{Result, Store};

/// The facts about a group's user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUid {
    /// Its own number, from 1; no other folder ever has it. `None`: there is no such group.
    pub number: Option<u32>,
    /// As whom it was launched last; `None`: as every group's agent.
    pub last: Option<u32>,
}

impl GroupUid {
    /// Returns user and group of its agent as it was launched last; `agent` is every group's.
    #[must_use]
    pub fn owner(self, agent: (u32, u32)) -> (u32, u32) {
        self.last.map_or(agent, |uid| (uid, uid))
    }
}

impl Store {
    /// Returns what is known of a group's user.
    ///
    /// # Errors
    /// As every read.
    pub fn group_uid(&self, group: &Folder) -> Result<GroupUid> {
        self.read(|c| {
            let row = c
                .prepare_cached("SELECT number, uid FROM group_uids WHERE folder = ?1")?
                .query_row([group.as_str()], |r| {
                    Ok(GroupUid { number: r.get("number")?, last: r.get("uid")? })
                })
                .optional()?;
            Ok(row.unwrap_or_default())
        })
    }

    /// Notes as whom a group is launched from now on.
    ///
    /// # Errors
    /// As every write.
    pub async fn set_group_uid(&self, group: Folder, uid: Option<u32>) -> Result<()> {
        self.write(move |c| {
            c.execute("UPDATE group_uids SET uid = ?2 WHERE folder = ?1", params![group.as_str(), uid])?;
            Ok(())
        })
        .await
    }
}
