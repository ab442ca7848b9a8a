//! Texts for chats, of all or of one group's agent.

use crate::domain::rows::OutboxRow;
use crate::store::{
    Result, Store,
    talk::{
        attachments::with_files_said,
        outbox::{OUTBOX, outbox_row},
    },
    which::{Conditions, Which},
};

impl Store {
    /// Returns the outbox rows that are wanted, in order.
    pub async fn outbox_of(&self, which: Which) -> Result<Vec<OutboxRow>> {
        self.ask(move |c| {
            // An index has those few that are not sent.
            let (index, state) = match which.state {
                Some("failed") => (" INDEXED BY outbox_failed", Some("status = 'failed'".to_owned())),
                Some(state @ ("pending" | "sending" | "unknown")) => {
                    (" INDEXED BY outbox_open", Some(format!("status = '{state}'")))
                }
                state => ("", state.map(|state| format!("status = '{state}'"))),
            };
            let conditions = Conditions::default()
                .with("chat_jid = ?", which.chat.clone())
                .since(("FROM outbox", "id", "created_at"), which.since)
                .with("created_at < ?", which.until.map(|at| at.0))
                .with(
                    "coalesce(group_folder, (SELECT r.group_folder FROM runs r WHERE r.id = run_id)) = ?",
                    which.group.as_ref().map(|group| group.to_string()),
                );
            let conditions = state.iter().fold(conditions, |conditions, state| conditions.is(state));
            let select = format!("{OUTBOX}{index}");
            let rows = which.rows(c, (&select, "id"), conditions, outbox_row, |row: &OutboxRow| {
                let error = row.error.as_deref().unwrap_or_default();
                vec![&row.text, &row.chat_jid, &row.cause, error]
            })?;
            with_files_said(c, rows)
        })
        .await
    }
}
