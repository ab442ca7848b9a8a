//! Filters by a group or a chat: an empty list of something that is not there is a mistake, and said to be one.

use anyhow::Context as _;
use ipc_handlers::Folder;

use crate::{ops::OpError, store::Store};

/// Refuses an empty list of a group that is not there. A group that was removed may still have rows.
///
/// # Errors
/// The name is no folder's, or no group has it.
pub(super) async fn check_group<T>(store: &Store, rows: &[T], group: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = group.filter(|_| rows.is_empty()) else { return Ok(()) };
    let folder = Folder::parse(name).context("reading --group")?;
    match store.group(&folder).await? {
        Some(_) => Ok(()),
        None => Err(OpError::not_found(format!("there is no group {folder}"))
            .hint("`g2 groups list` shows all")
            .into()),
    }
}

/// Refuses an empty list of a chat of which nothing is known.
///
/// # Errors
/// No message came from the chat, and no group is wired to it.
pub(super) async fn check_chat<T>(store: &Store, rows: &[T], chat: Option<&str>) -> anyhow::Result<()> {
    let Some(jid) = chat.filter(|_| rows.is_empty()) else { return Ok(()) };
    match store.chat(jid).await? {
        Some(_) => Ok(()),
        None => Err(OpError::not_found(format!("there is no chat {jid}"))
            .hint("`g2 chats list` shows all")
            .into()),
    }
}
