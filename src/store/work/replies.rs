//! Replies to commands of no run, as a person puts them into a box by hand: they stay there for a day.
//!
//! A command of a container has the run that is under way when it is claimed, and a container's last ones are claimed before
//! its run ends. So what has no run was put there by nobody who runs in a container, and no more was what was claimed
//! between the begin of a run and its container.

use ipc_handlers::{Folder, Time};
use rusqlite::params;

use crate::store::{Result, Store};

impl Store {
    /// Returns the request ids of a group's commands that were decided after `since` and that no container can have written
    /// before `run` has one: those of the run, `most` of them, then those of no run, the newest `most`, newest first.
    ///
    /// # Errors
    /// As every read.
    pub fn requests_by_hand(
        &self,
        group: &Folder,
        run: i64,
        since: Time,
        most: usize,
    ) -> Result<Vec<String>> {
        self.read(|c| {
            let mut of_run = c.prepare_cached(
                "SELECT request_id FROM receipts INDEXED BY receipts_by_run
                 WHERE run_id = ?1 AND group_folder = ?2 AND request_id IS NOT NULL AND at > ?3 LIMIT ?4",
            )?;
            let mut of_none = c.prepare_cached(
                "SELECT request_id FROM receipts INDEXED BY receipts_of_no_run
                 WHERE group_folder = ?1 AND run_id IS NULL AND request_id IS NOT NULL AND at > ?2 ORDER BY claim_id DESC LIMIT ?3",
            )?;
            let mut found: Vec<String> = of_run
                .query_map(params![run, group.as_str(), since.0, most], |r| r.get("request_id"))?
                .collect::<rusqlite::Result<_>>()?;
            for id in of_none.query_map(params![group.as_str(), since.0, most], |r| r.get("request_id"))? {
                found.push(id?);
            }
            Ok(found)
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
