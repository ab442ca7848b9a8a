//! Having a group go on with an archived conversation, in all its chats; a live run leaves.

use ipc_handlers::{Command, commands::ResumeSession};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, commands::act},
    Conversations, conversations, live,
};

/// Continue an archived session in all chats of its group; a live run leaves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Number of the session, as `g2 sessions list` shows it.
    pub id: i64,
    /// Archive the live sessions under this name first.
    #[arg(long, value_name = "NAME")]
    pub save_name: Option<String>,
}

impl Operation for Args {
    type Row = Conversations;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Conversations>, OpError> {
        let Self { id, save_name } = self;
        let none = || OpError::not_found(format!("no archived session has the number {id}"));
        let (found, _) = site.store.archived_session(id, Some(0))?.ok_or_else(none)?;
        let group = site.group(&found.group).await?.folder;
        let (said, notes) = live(site, &group, save_name.is_some())?;
        let command = ResumeSession { session_history_id: id, save_name, target_folder: None };
        let (_, now) = act(site, by, &group, Command::ResumeSession(command), said).await?;
        let row = conversations(site, &group, |session| session.archived_at == Some(now))?;
        Ok(Done::new(row, format!("group {group} goes on with {:?}", found.session.name)).noting(notes))
    }
}
