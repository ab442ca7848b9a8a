//! Runs that a person wants ended: it is on their row before anybody acts on it, so that a restart goes on with it.

use rusqlite::{OptionalExtension, Row, params};

use super::{RUN, run_row};
use crate::domain::{
    rows::Run,
    runs::stop::{Stop, StopThen, StopWhen},
    states::RunStatus,
};
use crate::store::{Result, Store, StoreError, columns::Columns as _};

impl Store {
    /// Notes that a person wants a run ended; said again, the last word counts, and one that was to be ended now stays so.
    pub async fn stop_run(&self, run: i64, stop: Stop) -> Result<Run> {
        let none = move || StoreError::NotFound { what: "run", id: run.to_string() };
        self.write(move |c| {
            let status: RunStatus = c
                .prepare_cached("SELECT status FROM runs WHERE id = ?1")?
                .query_row([run], |r| r.word("runs", "status"))
                .optional()?
                .ok_or_else(none)?;
            if status.is_over() {
                return Err(StoreError::refused(format!("run {run} has ended already"), ""));
            }
            let Stop { by, when, then } = stop;
            c.prepare_cached(
                "UPDATE runs SET stop_by = ?2, stop_when = iif(stop_when = 'now', 'now', ?3), stop_then = ?4 WHERE id = ?1",
            )?
            .execute(params![run, by, when.as_str(), then.as_str()])?;
            Ok(c.prepare_cached(&format!("{RUN} WHERE id = ?1"))?.query_row([run], run_row)?)
        })
        .await
    }

    /// Returns one run.
    pub fn run(&self, run: i64) -> Result<Option<Run>> {
        self.read(|c| {
            Ok(c.prepare_cached(&format!("{RUN} WHERE id = ?1"))?.query_row([run], run_row).optional()?)
        })
    }

    /// Returns the stop that a person asked for, of a run that has not ended.
    pub fn stop_of(&self, run: i64) -> Result<Option<Stop>> {
        Ok(self.active_run(run)?.and_then(|active| active.stop))
    }
}

/// Reads the stop that a person asked for.
pub(super) fn stop_row(r: &Row<'_>) -> rusqlite::Result<Option<Stop>> {
    let by: Option<String> = r.get("stop_by")?;
    let when: Option<StopWhen> = r.word_or_null("runs", "stop_when")?;
    let then: Option<StopThen> = r.word_or_null("runs", "stop_then")?;
    let asked = by.zip(when).zip(then);
    Ok(asked.map(|((by, when), then)| Stop { by, when, then }))
}
