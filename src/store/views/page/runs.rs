//! Runs, newest first.

use ipc_handlers::Folder;
use rusqlite::params;

use crate::domain::rows::Run;
use crate::store::{
    Result, Store, at_most,
    work::runs::{RUN, run_row},
};

impl Store {
    /// Returns runs before `before`, newest first, of one group or all.
    pub fn runs_on_page(&self, group: Option<&Folder>, before: i64, most: usize) -> Result<Vec<Run>> {
        self.read(|c| {
            let which = if group.is_some() { "group_folder = ?2" } else { "?2 IS NULL" };
            let mut rows =
                c.prepare_cached(&format!("{RUN} WHERE id < ?1 AND {which} ORDER BY id DESC LIMIT ?3"))?;
            let given = params![before, group.map(Folder::as_str), at_most(Some(most))];
            Ok(rows.query_map(given, run_row)?.collect::<rusqlite::Result<_>>()?)
        })
    }
}
