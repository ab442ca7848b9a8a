//! Having a group begin afresh, in all its chats; a live run leaves.

use ipc_handlers::{Command, Folder, commands::ClearSession};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, commands::act},
    Conversations, conversations, live,
};

/// Start new sessions in all chats of a group; a live run leaves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    pub group: Folder,
    /// Archive the live sessions under this name first.
    #[arg(long)]
    pub name: Option<String>,
}

impl Operation for Args {
    type Row = Conversations;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Conversations>, OpError> {
        let Self { group, name } = self;
        site.group(&group).await?;
        let (said, notes) = live(site, &group, name.is_some())?;
        let command = Command::ClearSession(ClearSession { name, target_folder: None });
        let (_, now) = act(site, by, &group, command, said).await?;
        let row = conversations(site, &group, |session| session.archived_at == Some(now))?;
        Ok(Done::new(row, format!("group {group} starts new sessions")).noting(notes))
    }
}
