//! Which groups' folders had files in them when they were looked at last.

use std::collections::BTreeSet;

use ipc_handlers::Folder;
use rusqlite::Connection;

use crate::store::{Result, Store, columns::Columns as _};

impl Store {
    /// Whether a group's folder had files.
    ///
    /// # Errors
    /// As every read.
    pub fn folder_had_files(&self, group: &Folder) -> Result<bool> {
        self.read(|c| {
            Ok(c.prepare_cached("SELECT EXISTS (SELECT 1 FROM filled_folders WHERE group_folder = ?1)")?
                .query_row([group.as_str()], |r| r.get(0))?)
        })
    }

    /// Returns the groups whose folders had files.
    ///
    /// # Errors
    /// As every read.
    pub fn filled_folders(&self) -> Result<BTreeSet<Folder>> {
        self.read(|c| {
            let mut filled = c.prepare_cached("SELECT group_folder FROM filled_folders")?;
            Ok(filled.query_map([], |r| r.folder("group_folder"))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Notes of folders whether they have files. A new group forgets the note of an earlier one of its name.
    ///
    /// # Errors
    /// As every write.
    pub async fn note_folders(&self, folders: Vec<(Folder, bool)>) -> Result<()> {
        self.write(move |c| {
            for (group, has_files) in &folders {
                c.prepare_cached(match has_files {
                    true => "INSERT INTO filled_folders (group_folder) VALUES (?1) ON CONFLICT DO NOTHING",
                    false => "DELETE FROM filled_folders WHERE group_folder = ?1",
                })?
                .execute([group.as_str()])?;
            }
            Ok(())
        })
        .await
    }
}

/// Forgets all: the folders of a restored root are those of the backup.
pub(in crate::store) fn forget_folders(c: &Connection) -> Result<()> {
    c.execute("DELETE FROM filled_folders", [])?;
    Ok(())
}
