//! Removing an archived conversation for good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{By, Done, OpError, Operation, Site};
use crate::domain::{rows::Session, states::SessionState};

/// Remove an archived session for good.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the session, as `g2 sessions list` shows it.
    pub id: i64,
}

impl Operation for Args {
    type Row = Session;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Session>, OpError> {
        let Self { id } = self;
        let none = || OpError::not_found(format!("archived session {id} does not exist"));
        let (found, _) = site.store.archived_session(id, Some(0))?.ok_or_else(none)?;
        let group = site.store.delete_archive(id).await?;
        site.keeper.changed(Some(&group)).await?;
        let was = Session {
            id: Some(id),
            group: group.clone(),
            state: SessionState::Archived,
            name: Some(found.session.name),
            session_id: found.session.session_id,
            chat_jid: None,
            thread: None,
            archived_at: Some(found.session.archived_at),
        };
        Ok(Done::new(was, format!("archived session {id} of group {group} is deleted")))
    }
}
