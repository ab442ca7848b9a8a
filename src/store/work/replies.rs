//! Replies to commands of no run, as a person puts them into a box by hand: they stay there for a day.
//!
//! A command of a container has the run that is under way when it is claimed, and a container's last ones are claimed before
//! its run ends. So what has no run was put there by nobody who runs in a container.

use ipc_handlers::{Folder, Time};
use rusqlite::params;

use crate::store::{Result, Store};

impl Store {
    /// Returns the request ids of a group's commands of no run that were decided after `since`: the newest `most` of them,
    /// newest first.
    ///
    /// # Errors
    /// As every read.
    pub fn requests_of_no_run(&self, group: &Folder, since: Time, most: usize) -> Result<Vec<String>> {
        self.read(|c| {
            let mut ids = c.prepare_cached(
                "SELECT request_id FROM receipts INDEXED BY receipts_of_no_run
                 WHERE group_folder = ?1 AND run_id IS NULL AND request_id IS NOT NULL AND at > ?2 ORDER BY claim_id DESC LIMIT ?3",
            )?;
            let found = ids.query_map(params![group.as_str(), since.0, most], |r| r.get("request_id"))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns those of a group's request ids whose newest command has no run and was decided until `until`.
    ///
    /// # Errors
    /// As every read.
    pub fn outlived_requests(&self, group: &Folder, ids: &[String], until: Time) -> Result<Vec<String>> {
        self.read(|c| {
            let mut newest = c.prepare_cached(
                "SELECT run_id IS NULL AND at <= ?3 FROM receipts WHERE group_folder = ?1 AND request_id = ?2 ORDER BY claim_id DESC LIMIT 1",
            )?;
            let mut outlived = Vec::new();
            for id in ids {
                let mut rows = newest.query(params![group.as_str(), id, until.0])?;
                if rows.next()?.map(|r| r.get(0)).transpose()? == Some(true) {
                    outlived.push(id.clone());
                }
            }
            Ok(outlived)
        })
    }
}
