//! Having a group begin afresh, in all its chats or in one; a live run leaves.

use ipc_handlers::{Command, Folder, Time, commands::ClearSession, effect::Lanes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{By, Done, OpCode, OpError, Operation, Site, commands::act},
    Conversations, conversations, live, said,
};

/// Start new sessions in all chats of a group, or in one; a live run leaves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    pub group: Folder,
    /// Archive the live sessions under this name first.
    #[arg(long)]
    pub name: Option<String>,
    /// Only the sessions in this chat, its threads too.
    #[serde(default)]
    #[arg(long, value_name = "JID")]
    pub chat: Option<String>,
    /// Only the session in this thread of the chat; "": in the chat itself.
    #[serde(default)]
    #[arg(long, requires = "chat")]
    pub thread: Option<String>,
}

impl Operation for Args {
    type Row = Conversations;

    async fn run(self, site: &Site<'_>, by: &By) -> Result<Done<Conversations>, OpError> {
        let Self { group, name, chat, thread } = self;
        site.group(&group).await?;
        let (now, says, notes) = match chat {
            None if thread.is_some() => {
                return Err(OpError::invalid("a thread is one of a chat: name the chat, too"));
            }
            None => {
                let (said, notes) = live(site, &group, name.is_some())?;
                let command = Command::ClearSession(ClearSession { name, target_folder: None });
                let (_, now) = act(site, by, &group, command, said).await?;
                (now, format!("group {group} starts new sessions"), notes)
            }
            Some(chat) => {
                let place = thread.as_ref().map_or_else(
                    || chat.clone(),
                    |thread| match thread.as_str() {
                        "" => format!("{chat} itself"),
                        thread => format!("thread {thread} of {chat}"),
                    },
                );
                let (now, notes) = clear_in(site, by, &group, (&chat, thread.as_deref()), name).await?;
                (now, format!("group {group} starts a new session in {place}"), notes)
            }
        };
        let row = conversations(site, &group, |session| session.archived_at == Some(now))?;
        Ok(Done::new(row, says).noting(notes))
    }
}

/// Clears the sessions in one chat, or in one thread of it. Returns when, and notes about sessions that can't be read.
async fn clear_in(
    site: &Site<'_>,
    by: &By,
    group: &Folder,
    (chat, thread): (&str, Option<&str>),
    name: Option<String>,
) -> Result<(Time, Vec<String>), OpError> {
    if by.agent().is_some() {
        let why = "an agent clears the session of its own chat, or those of all chats";
        return Err(OpError::new(OpCode::NotAuthorized, why).hint("leave chat and thread out"));
    }
    by.caller(group)?;
    let lanes = site.store.lanes_in(group, chat, thread)?;
    if lanes.is_empty() {
        let place = thread.map_or_else(|| chat.to_owned(), |thread| format!("thread {thread:?} of {chat}"));
        return Err(OpError::not_found(format!("group {group} has had no message in {place}"))
            .hint(format!("see `g2 lanes list --group {group}`")));
    }
    let (mut keep, mut notes) = (None, Vec::new());
    if let Some(name) = name {
        let mut sessions = Vec::new();
        for lane in &lanes {
            sessions.extend(site.store.live_sessions(group, Lanes::One(*lane))?);
        }
        let (transcripts, unread) = said(site, group, &sessions);
        (keep, notes) = (Some((name, transcripts)), unread);
    }
    let now = site.world.now();
    site.store.clear_lanes(group.clone(), lanes, keep, now).await?;
    let limits = &site.config()?.limits;
    site.store.put_out_archives(group.clone(), limits.archives, limits.archives_bytes).await?;
    site.keeper.changed(Some(group)).await?;
    Ok((now, notes))
}
