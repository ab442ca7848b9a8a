//! Keeping a group's conversations as they are now; they go on.

use ipc_handlers::{Command, Folder, Outcome, commands::ArchiveSession, effect::Lanes, names::is_session_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpError, Operation, Site, commands::act},
    Conversations, conversations, said,
};

/// Keep a copy of a group's live sessions; they go on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    pub group: Folder,
    /// Name of the copy.
    pub name: String,
    /// Only the session with this id, as the agent calls it.
    #[arg(long)]
    pub session: Option<String>,
}

impl Operation for Args {
    type Row = Conversations;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Conversations>, OpError> {
        let Self { group, name, session } = self;
        site.group(&group).await?;
        let sessions = match session {
            Some(session) => vec![session],
            None => site.store.live_sessions(&group, Lanes::All)?,
        };
        if sessions.is_empty() {
            return Err(OpError::refused(format!("group {group} has no session to archive")));
        }
        if let Some(bad) = sessions.iter().find(|session| !is_session_id(session)) {
            return Err(OpError::invalid(format!("{bad:?} is not a session id")));
        }
        let (mut ids, mut says, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for session in sessions {
            let (transcripts, unread) = said(site, &group, std::slice::from_ref(&session));
            notes.extend(unread);
            let command = Command::ArchiveSession(ArchiveSession {
                session_id: session.clone(),
                name: name.clone(),
                content: None,
                target_folder: None,
            });
            let (outcome, _) = act(site, by, &group, command, transcripts).await?;
            if let Outcome::SessionArchived { id } = outcome {
                says.push(format!("session {session} is archived with the number {id}"));
                ids.push(id);
            }
        }
        let row = conversations(site, &group, |session| session.id.is_some_and(|id| ids.contains(&id)))?;
        Ok(Done::new(row, says.join("\n")).noting(notes))
    }
}
