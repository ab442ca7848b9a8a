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
            let conditions = Conditions::default()
                .with("chat_jid = ?", which.chat.clone())
                .with("status = ?", which.state.map(str::to_owned))
                .with("created_at >= ?", which.since.map(|at| at.0))
                .with("created_at < ?", which.until.map(|at| at.0))
                .with(
                    "coalesce(group_folder, (SELECT r.group_folder FROM runs r WHERE r.id = run_id)) = ?",
                    which.group.as_ref().map(|group| group.to_string()),
                );
            let rows = which.rows(c, (OUTBOX, "id"), conditions, outbox_row, |row: &OutboxRow| {
                let error = row.error.as_deref().unwrap_or_default();
                vec![&row.text, &row.chat_jid, &row.cause, error]
            })?;
            with_files_said(c, rows)
        })
        .await
    }
}
