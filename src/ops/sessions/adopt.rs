//! Taking over a conversation from elsewhere, by its transcript.

use std::path::PathBuf;

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpCode, OpError, Operation, Site, args::Jid},
    Conversations, conversations,
};
use crate::{
    domain::shown::errors::chain,
    ipc::give_folder,
    moving::{NotAdopted, adopt_transcript},
};

/// Continue a session from elsewhere in a chat, by its transcript; a live run leaves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    pub group: Folder,
    /// File of the transcript, which Claude Code calls ID.jsonl.
    pub file: PathBuf,
    /// Chat in which the group goes on with it.
    #[arg(long, value_name = "JID")]
    pub chat: Jid,
}

impl Operation for Args {
    type Row = Conversations;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Conversations>, OpError> {
        let Self { group, file, chat } = self;
        site.group(&group).await?;
        if site.store.chat(chat.as_str()).await?.is_none() {
            return Err(OpError::not_found(format!("chat {chat} does not exist")));
        }
        let (root, of) = (site.root.to_owned(), group.clone());
        let adopted = site.world.blocking(move || adopt_transcript(&root, &of, &file)).await;
        let session = match adopted.map_err(|panic| OpError::new(OpCode::Failed, chain(&panic)))? {
            Ok(session) => session,
            Err(error @ NotAdopted::World(_)) => return Err(OpError::new(OpCode::Failed, chain(&error))),
            Err(error @ NotAdopted::Other(_)) => return Err(OpError::refused(error.to_string())),
            Err(error) => return Err(OpError::invalid(error.to_string())),
        };
        if let Some(owner) = site.box_owner {
            let owner = site.store.group_uid(&group)?.owner(owner);
            let home = site.root.join("data/sessions").join(group.as_str());
            give_folder(home.as_path(), owner, None)?;
        }
        site.store.adopt_session(&group, chat.as_str(), &session).await?;
        site.keeper.changed(Some(&group)).await?;
        let row = conversations(site, &group, |_| false)?;
        Ok(Done::new(row, format!("group {group} goes on with session {session} in {chat}")))
    }
}
