//! A person writes to the agent of a run: a message in its lane that wakes this agent alone, whatever its wiring says. If the run
//! ends before it takes it, the next run of the lane has it.

use ipc_handlers::{Folder, Time};
use rusqlite::OptionalExtension as _;

use crate::domain::{
    heard::engage::{EngageVerdict, Rule},
    rows::Inbound,
};
use crate::store::{
    Result, Store, StoreError,
    columns::Columns as _,
    talk::messages::{Placed, put_into_lane},
};

/// A message that is in a run's lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidToRun {
    pub seq: i64,
    pub group: Folder,
    pub lane: i64,
}

impl Store {
    /// Puts a message into the lane of a run that has not ended. The same key again changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`]: the run has ended, leaves, or works on a task.
    pub async fn say_to_run(
        &self,
        run: i64,
        mut message: Inbound,
        by: String,
        now: Time,
    ) -> Result<SaidToRun> {
        self.write(move |c| {
            let row = c
                .prepare_cached(
                    "SELECT group_folder, chat_jid, thread, lane_id, ended_at IS NOT NULL AS over, closing_at IS NOT NULL AS leaving
                     FROM runs WHERE id = ?1",
                )?
                .query_row([run], |r| {
                    let (group, lane) = (r.folder("group_folder")?, r.get::<_, Option<i64>>("lane_id")?);
                    let place: (String, String) = (r.get("chat_jid")?, r.get("thread")?);
                    let (over, leaving): (bool, bool) = (r.get("over")?, r.get("leaving")?);
                    Ok((group, lane, place, over, leaving))
                })
                .optional()?;
            let Some((group, lane, (chat, thread), over, leaving)) = row else {
                return Err(StoreError::NotFound { what: "run", id: run.to_string() });
            };
            let refused = |why: &str| Err(StoreError::refused(format!("run {run} {why}"), ""));
            let Some(lane) = lane else { return refused("works on a task, and takes no messages") };
            if over {
                return refused("has ended already");
            }
            if leaving {
                return refused("is about to leave, and takes no more messages");
            }
            (message.chat_jid, message.thread) = (chat, thread);
            let placed = Placed {
                verdict: EngageVerdict::Wake,
                rule: Rule::Attached,
                reason: format!("{by} wrote it to run {run}"),
            };
            let seq = put_into_lane(c, lane, &message, &placed, now)?;
            Ok(SaidToRun { seq, group, lane })
        })
        .await
    }
}
